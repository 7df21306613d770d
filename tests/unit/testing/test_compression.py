"""Compressed blocks against other readers."""

from __future__ import annotations

import pytest

from spark_segmentlog.testing.batches import DEFAULT_TIMESTAMP_MS, RecordSpec, v2_batch
from spark_segmentlog.testing.compression import CODECS, compress
from tests.support.aiokafka_records import decoded

RECORDS = [
    RecordSpec(key=b"k", value=b"v" * 500, headers=[("a", None), ("b", b"")]),
    RecordSpec(value=b"", timestamp_ms=DEFAULT_TIMESTAMP_MS - 5),
    RecordSpec(value=None, key=b""),
] * 50


# A strict decoder refuses the old checksum, which is its purpose.
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "lz4-legacy-checksum"])
def test_v2_batch_is_what_aiokafka_reads(codec: str) -> None:
    rows = decoded(v2_batch(RECORDS, base_offset=7, codec=codec))
    assert rows == [
        (7 + place, record.timestamp_ms, record.key, record.value, list(record.headers))
        for place, record in enumerate(RECORDS)
    ]


def test_legacy_lz4_checksum_covers_the_magic() -> None:
    good, old = compress("lz4", b""), compress("lz4-legacy-checksum", b"")
    # Magic, FLG and BD stand before the checksum.
    assert good[:6] == old[:6]
    assert good[6] == 0x82
    assert old[6] != 0x82
