"""Batches written by compiled loops."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from spark_segmentlog.record.kernels import encode as encode_kernels
from spark_segmentlog.record.write.encoder import RecordBatchEncoder, assign_offsets
from spark_segmentlog.testing.builder import DEFAULT_TIMESTAMP_MS, RecordSpec
from tests.support.encoding import (
    arrow_batch,
    encode_in_order,
    expected_rows,
    read_by_aiokafka,
    read_by_decoder,
    values,
)

T = DEFAULT_TIMESTAMP_MS


def test_negative_deltas_and_the_real_maximum() -> None:
    records = [RecordSpec(timestamp_ms=t, value=b"") for t in (T, T - 60_000, T + 1, T + 1)]
    encoded = encode_in_order(RecordBatchEncoder(), arrow_batch(records), base_offset=10)
    assert encoded.max_timestamps.tolist() == [T + 1]
    assert struct.unpack_from(">qq", encoded.buffer.data, 27) == (T, T + 1)
    assert [row[1] for row in read_by_decoder(encoded)] == [T, T - 60_000, T + 1, T + 1]


def test_assigned_offsets_leave_the_crc_valid() -> None:
    records = [RecordSpec(value=b"x" * 50)] * 100
    encoder = RecordBatchEncoder(batch_size_bytes=1000, compression="zstd")
    encoded = encode_in_order(encoder, arrow_batch(records))
    assign_offsets(encoded.buffer, encoded.positions, base_offset=2**40, leader_epoch=7)
    assert read_by_aiokafka(encoded.buffer.tobytes()) == expected_rows(records, 2**40)
    for position in encoded.positions:
        assert struct.unpack_from(">i", encoded.buffer.data, position + 12) == (7,)


def test_kernels_are_compiled_once_whatever_comes() -> None:
    plain = arrow_batch([RecordSpec(key=b"k", value=b"v", headers=[("h", b"")])])
    read_only = np.array([0])
    read_only.flags.writeable = False
    for batch in (plain, values(b"a"), values(None), plain.slice(0, 0), arrow_batch([])):
        for codec in ("none", "lz4"):
            encode_in_order(RecordBatchEncoder(compression=codec), batch)
    RecordBatchEncoder(log_append_time=True).encode_groups(plain, read_only, np.array([1]))
    kernels: list[Any] = [
        encode_kernels.plan_batches,
        encode_kernels.write_records,
        encode_kernels.write_batch_headers,
        encode_kernels.header_section_sizes,
    ]
    for kernel in kernels:
        assert len(kernel.signatures) == 1
