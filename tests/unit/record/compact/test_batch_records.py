"""The records of batches, told apart without decoding them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.errors import DecompressedSizeError, InvalidRecordError
from spark_segmentlog.record.compact.batch_records import BatchRecords
from spark_segmentlog.record.plain.batch import iterate_records
from spark_segmentlog.testing.builder import (
    RecordSpec,
    legacy_message,
    v2_batch,
)
from spark_segmentlog.testing.strategies import record_specs
from tests.support.decoding import room_of
from tests.support.splitting import rows_of, split

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "none"])
@pytest.mark.parametrize("room_bytes", [1, 100, 1000])
def test_large_batches_come_in_parts_with_the_same_records(codec: str, room_bytes: int) -> None:
    data = b"".join(
        v2_batch(
            [RecordSpec(key=b"k%d" % row, value=b"v" * row) for row in range(count)],
            base_offset=100 * at,
            codec=codec,
        )
        for at, count in enumerate([50, 1, 30])
    )
    expected = split(data)[1]
    with room_of(room_bytes):
        parts = split(data)[1]
    assert any(part.is_part for part in parts)
    assert rows_of(parts) == rows_of(expected)
    assert [part.batch.tolist() for part in parts] != [part.batch.tolist() for part in expected]
    copied = BatchRecords.concat([part.copy_of(np.arange(len(part))) for part in parts])
    assert rows_of([copied]) == rows_of(expected)


@pytest.mark.parametrize(
    ("count", "reason"), [(51, "record 50: varint cut off"), (49, "left over after the 49")]
)
def test_large_batch_with_another_number_of_records_is_told(count: int, reason: str) -> None:
    data = v2_batch([RecordSpec(value=b"v" * 20)] * 50, count=count, codec="lz4")
    with room_of(100), pytest.raises(InvalidRecordError, match=reason):
        split(data)


def test_large_batch_that_declares_more_than_it_can_hold_is_told() -> None:
    block = b"\xff\xff\xff\xff\x0f" + b"x" * 20
    with pytest.raises(DecompressedSizeError, match="position 0, base offset 7"):
        split(v2_batch([RecordSpec()], base_offset=7, attributes=2, payload=block))


@pytest.mark.parametrize("codec", CODECS)
@settings(max_examples=25, deadline=None)
@given(records=st.lists(record_specs(), min_size=1, max_size=20))
def test_records_are_found_as_the_plain_reader_finds_them(
    codec: str, records: list[RecordSpec]
) -> None:
    batch = v2_batch(records, base_offset=100, codec=codec)
    expected = [
        (
            record.offset,
            record.timestamp_ms,
            record.key,
            -1 if record.value is None else len(record.value),
        )
        for record in iterate_records(batch)
    ]
    assert rows_of(split(batch)[1]) == expected


def test_runs_of_plain_compressed_and_legacy_batches_keep_their_order() -> None:
    log = b"".join(
        [
            legacy_message(0, key=b"a", value=b"0", offset=0),
            v2_batch([RecordSpec(key=b"b", value=None)], base_offset=1),
            v2_batch([RecordSpec(key=b"c", value=b"")] * 2, base_offset=2, codec="lz4"),
            v2_batch([RecordSpec(key=None, value=b"x")], base_offset=4, codec="zstd"),
            v2_batch([RecordSpec(key=b"", value=b"y")], base_offset=5),
        ]
    )
    rows = rows_of(split(log)[1])
    assert [(offset, key, length) for offset, _, key, length in rows] == [
        (0, b"a", 1),
        (1, b"b", -1),
        (2, b"c", 0),
        (3, b"c", 0),
        (4, None, 1),
        (5, b"", 1),
    ]
