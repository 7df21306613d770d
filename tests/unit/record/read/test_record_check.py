"""Records are looked at and nothing is made of them: which are good."""

from __future__ import annotations

import numpy as np
import pytest

from spark_segmentlog.errors import InvalidBatchError
from spark_segmentlog.record.read.decoder import CheckWrapper
from spark_segmentlog.record.read.record_check import RecordCheck
from spark_segmentlog.testing.builder import (
    RecordSpec,
    control_batch,
    legacy_message,
    legacy_wrapper,
    v2_batch,
)
from tests.support.decoding import as_array, room_of, scan

RECORDS: list[RecordSpec | bytes] = [
    RecordSpec(key=b"k", value=b"v" * 50, headers=[("h", None)]) for _ in range(40)
]
BAD_RECORD = b"\x02\x00"


def is_good(data: bytes, check_wrapper: CheckWrapper | None = None) -> bool:
    return RecordCheck().is_good(
        as_array(data), scan(data), file_position=0, check_wrapper=check_wrapper
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_bad_record_is_found_wherever_it_stands(codec: str) -> None:
    for place in (0, 20, 40):
        records = [*RECORDS[:place], BAD_RECORD, *RECORDS[place:]]
        good = v2_batch(RECORDS, codec=codec)
        bad = v2_batch(records, codec=codec, base_offset=40, last_offset_delta=50)
        assert is_good(good)
        assert not is_good(good + bad)
        with room_of(100):
            assert is_good(good)
            assert not is_good(good + bad)


def test_a_batch_that_does_not_hold_the_records_it_declares_is_bad() -> None:
    assert not is_good(v2_batch(RECORDS, count=41, last_offset_delta=50))
    assert not is_good(v2_batch(RECORDS, count=39))


def test_offsets_and_timestamps_of_any_size_are_good() -> None:
    assert is_good(v2_batch([RecordSpec(timestamp_ms=-1)], base_offset=2**62))
    assert is_good(v2_batch([RecordSpec(timestamp_ms=2**62)], base_offset=0))


def test_markers_are_not_looked_into() -> None:
    marker = bytearray(control_batch(0, base_offset=1))
    marker[-1] ^= 1
    assert is_good(bytes(marker))


def test_messages_in_a_wrapper_have_checksums_of_their_own() -> None:
    inner = bytearray(legacy_message(1, offset=0, value=b"v" * 20))
    assert is_good(legacy_wrapper(1, bytes(inner), offset=5, codec="gzip"))
    inner[-1] ^= 1
    assert not is_good(legacy_wrapper(1, bytes(inner), offset=5, codec="gzip"))


def test_who_asks_has_a_say_about_wrappers_that_hold_other_offsets_than_expected() -> None:
    inner = b"".join(legacy_message(1, offset=offset) for offset in (1, 9))
    wrapper = legacy_wrapper(1, inner, offset=109, codec="gzip")
    told: list[tuple[int, int, int]] = []

    def refuse(row: int, first: int, last: int) -> None:
        told.append((row, first, last))
        raise InvalidBatchError("misplaced", source="", position=0)

    assert is_good(wrapper)
    assert not is_good(wrapper, refuse)
    assert told == [(0, 101, 109)]


def test_no_entries_are_good() -> None:
    table = scan(v2_batch(RECORDS)).between(0, 0)
    assert RecordCheck().is_good(np.empty(0, np.uint8), table, file_position=0)
