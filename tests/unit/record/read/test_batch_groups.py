"""Groups of batches that are decompressed before they are decoded: what fits, and bad ones."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from spark_segmentlog.record import header_fields as fields
from spark_segmentlog.record.codec.block_window import NO_LIMIT
from spark_segmentlog.record.codec.codec import OutputFullError
from spark_segmentlog.record.codec.decompression_buffer import DecompressionBuffer
from spark_segmentlog.record.layout import COMPRESSION_CODEC_MASK, RECORD_BATCH_OVERHEAD
from spark_segmentlog.record.read.batch_groups import BatchGroups
from spark_segmentlog.record.read.decoder_input import DecoderInput
from spark_segmentlog.record.types import bytes_view
from spark_segmentlog.testing.builder import RecordSpec, v2_batch
from tests.support.decoding import as_array, scan


def bodies(
    batches: Sequence[bytes], plain: Sequence[bytes], good: Sequence[bool] | None = None
) -> list[bytes]:
    """Decompress a group from the first batch on; what comes must be what was compressed."""
    data = b"".join(batches)
    flat = as_array(data)
    source = DecoderInput(flat, bytes_view(flat), scan(data).entries, 0)
    buffer = DecompressionBuffer(NO_LIMIT)
    is_good = np.ones(len(batches), np.bool_) if good is None else np.array(good)
    entries = source.entries
    ends = entries[:, fields.POSITION] + entries[:, fields.SIZE_BYTES]
    spans = BatchGroups(buffer).decompress(
        source,
        np.arange(len(batches)),
        np.column_stack((entries[:, fields.POSITION] + RECORD_BATCH_OVERHEAD, ends)),
        entries[:, fields.ATTRIBUTES] & COMPRESSION_CODEC_MASK,
        is_good,
    )
    found = [buffer.data[start:end].tobytes() for start, end in spans.tolist()]
    assert found == [batch[RECORD_BATCH_OVERHEAD:] for batch in plain[: len(found)]]
    return found


def batches_of(*codecs: str, size: int = 50) -> tuple[list[bytes], list[bytes]]:
    """Make a batch for each codec, and the same batches uncompressed."""
    records = [[RecordSpec(value=b"%d" % number * size)] for number in range(len(codecs))]
    made = [v2_batch(some, codec=codec) for some, codec in zip(records, codecs, strict=True)]
    return made, [v2_batch(some) for some in records]


@pytest.mark.parametrize(
    "codecs",
    [
        ("zstd",) * 5,
        ("gzip",) * 3,
        ("lz4",) * 5,
        ("zstd", "zstd", "lz4", "snappy"),
        ("lz4", "lz4", "zstd"),
    ],
)
def test_batches_of_a_group_are_decompressed_one_after_the_other(codecs: tuple[str, ...]) -> None:
    made, plain = batches_of(*codecs)
    left = 0
    while left < len(made):
        found = bodies(made[left:], plain[left:])
        assert found
        left += len(found)


def test_a_group_ends_before_a_batch_whose_checksum_is_wrong() -> None:
    made, plain = batches_of(*["zstd"] * 4)
    assert len(bodies(made, plain, [True, True, False, True])) == 2
    assert bodies(made, plain, [False, True, True, True]) == []


@pytest.mark.parametrize("codec", ["zstd", "lz4", "gzip"])
def test_a_group_ends_before_a_block_that_is_bad(codec: str) -> None:
    made, plain = batches_of(*[codec] * 3)
    broken = bytearray(made[1])
    broken[RECORD_BATCH_OVERHEAD : RECORD_BATCH_OVERHEAD + 4] = b"\xff" * 4
    assert len(bodies([made[0], bytes(broken), made[2]], plain)) == 1
    assert bodies([bytes(broken), made[2]], plain) == []


def test_a_first_batch_that_does_not_fit_is_no_ordinary_one() -> None:
    made, plain = batches_of("gzip", size=DecompressionBuffer.BYTES + 1)
    with pytest.raises(OutputFullError):
        bodies(made, plain)
