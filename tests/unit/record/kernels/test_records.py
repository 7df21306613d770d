"""Records of a batch by the compiled parser."""

from __future__ import annotations

import numpy as np
import pytest

from spark_segmentlog.record.kernels.records import (
    good_records,
    whole_records,
)
from spark_segmentlog.testing.builder import RecordSpec, v2_record
from tests.support.decoding import as_array

RECORDS = [
    v2_record(RecordSpec(key=b"k", value=b"v" * size, headers=[("h", b"x")]), offset_delta=delta)
    for delta, size in enumerate((0, 100, 3))
]
BODY = b"".join(RECORDS)
ENDS = np.cumsum([len(record) for record in RECORDS]).tolist()


def test_good_records_end_with_the_bytes() -> None:
    assert good_records(as_array(BODY), 0, len(BODY), 3, 2) == (3, len(BODY))


@pytest.mark.parametrize("bad", range(3))
def test_the_first_bad_record_is_told_with_where_it_starts(bad: int) -> None:
    data = bytearray(BODY)
    data[[0, *ENDS][bad]] += 2  # its length
    count, position = good_records(as_array(bytes(data)), 0, len(data), 3, 2)
    assert (count, position) == (bad, [0, *ENDS][bad])


def test_an_offset_beyond_the_last_one_makes_a_record_bad() -> None:
    assert good_records(as_array(BODY), 0, len(BODY), 3, 1) == (2, ENDS[1])


@pytest.mark.parametrize("cut", range(len(BODY)))
def test_whole_records_say_what_the_next_one_needs(cut: int) -> None:
    count, end, needed = whole_records(as_array(BODY), 0, cut, 3)
    whole = [0, *(position for position in ENDS if position <= cut)]
    assert (count, end) == (len(whole) - 1, whole[-1])
    left = cut - end
    assert left < needed <= max(len(RECORDS[count]), left + 1)
