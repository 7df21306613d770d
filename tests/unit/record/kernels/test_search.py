"""Searches for entries among other bytes, by compiled loops."""

from __future__ import annotations

import numpy as np
import pytest

from spark_segmentlog.record.kernels.search import (
    COVERING_BLOCK_BYTES,
    find_covering,
    find_entry,
)
from spark_segmentlog.testing.builder import RecordSpec, v2_batch
from tests.support.decoding import as_array

BATCHES = [v2_batch([RecordSpec(value=b"v")], base_offset=offset) for offset in (5, 6, 4)]
DATA = b"".join(BATCHES)
SIZE = len(BATCHES[0])


def test_the_next_good_entry_is_found_within_its_budget() -> None:
    data = as_array(b"rubbish" + DATA)
    assert find_entry(data, 0, len(data), 0, 100, 1 << 20) == 7
    assert find_entry(data, 0, len(data), 6, 100, 1 << 20) == 7 + SIZE
    assert find_entry(data, 0, len(data), 7, 100, 1 << 20) == -1
    assert find_entry(data, 0, len(data), 0, 100, SIZE - 1) == -1


def test_entries_that_reach_beyond_a_position_are_listed() -> None:
    found = np.zeros(4, np.int64)
    count = find_covering(as_array(DATA), SIZE + 20, 1000, 0, 100, found)
    assert found[:count].tolist() == [SIZE]


@pytest.mark.parametrize("before", [0, 5, COVERING_BLOCK_BYTES - 3, 3 * COVERING_BLOCK_BYTES + 7])
@pytest.mark.parametrize("filler", [b"\0", b"\1", b"v"])
def test_an_entry_that_reaches_beyond_is_seen_wherever_it_stands(
    before: int, filler: bytes
) -> None:
    found = np.zeros(4, np.int64)
    data = as_array(filler * before + DATA)
    count = find_covering(data, before + 20, len(data) - before - 20, 0, 100, found)
    assert before in found[:count]
