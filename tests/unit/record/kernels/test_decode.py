"""Kernels against their plain twins on every bit flip and every cut of small segments."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from spark_segmentlog.errors import CorruptRecordError, MalformedTimestampError
from spark_segmentlog.testing.builder import (
    RecordSpec,
    control_batch,
    legacy_message_set,
    v2_batch,
)
from tests.support.decoding import (
    as_array,
    decoder,
    outcomes_of_decoder,
    outcomes_of_twin,
    scan,
)

RECORDS = [
    RecordSpec(key=b"k", value=b"vv", timestamp_ms=1000, headers=[("h", b"x"), ("n", None)]),
    RecordSpec(key=None, value=b"", timestamp_ms=990),
]
PLAIN = [RecordSpec(key=b"k", value=b"vv"), RecordSpec(key=None, value=b"")]


def small_segments() -> dict[str, bytes]:
    segments = {
        f"v2-{codec}": v2_batch(RECORDS, base_offset=5, codec=codec)
        + v2_batch(RECORDS[1:], base_offset=7)
        for codec in ("none", "gzip", "snappy", "snappy-raw", "lz4", "zstd")
    }
    for magic, codecs in (
        (0, ("none", "snappy", "lz4-legacy-checksum")),
        (1, ("none", "gzip", "lz4")),
    ):
        for codec in codecs:
            segments[f"v{magic}-{codec}"] = legacy_message_set(
                magic, PLAIN, base_offset=5, codec=codec
            )
    segments["control"] = control_batch(0, base_offset=1, producer_id=3)
    return segments


SEGMENTS = small_segments()


def flips(data: bytes) -> Iterator[bytes]:
    for index in range(len(data)):
        for bit in range(8):
            changed = bytearray(data)
            changed[index] ^= 1 << bit
            yield bytes(changed)


@pytest.mark.parametrize("name", SEGMENTS)
@pytest.mark.parametrize("check_crcs", [True, False])
def test_every_bit_flip_is_read_alike(name: str, check_crcs: bool) -> None:
    for changed in flips(SEGMENTS[name]):
        found = list(outcomes_of_decoder(changed, check_crcs=check_crcs))
        assert found == list(outcomes_of_twin(changed, check_crcs=check_crcs)), changed.hex()


@pytest.mark.parametrize("name", SEGMENTS)
def test_every_cut_ends_before_the_entry_that_is_cut(name: str) -> None:
    data = SEGMENTS[name]
    whole = scan(data)
    ends = (whole.position + whole.size_bytes).tolist()
    for size in range(len(data)):
        table = scan(data[:size])
        assert len(table) == sum(end <= size for end in ends)
        array = as_array(data[:size])
        reader = decoder()
        assert list(reader.decode(array, table, file_position=0)) == []


@pytest.mark.parametrize("name", ["v2-none", "v2-zstd", "v1-gzip"])
def test_every_changed_byte_of_records_with_a_good_checksum_is_read_alike(name: str) -> None:
    """A flip that the checksum hides: the way to the record parser for hostile bytes."""
    data = SEGMENTS[name]
    for index in range(len(data)):
        for value in (0, 1, 0x7F, 0x80, 0xFF):
            changed = bytearray(data)
            changed[index] = value
            found = list(outcomes_of_decoder(bytes(changed), check_crcs=False))
            assert found == list(outcomes_of_twin(bytes(changed), check_crcs=False))


def test_every_error_is_ours() -> None:
    for data in SEGMENTS.values():
        for changed in flips(data[:90]):
            table = scan(changed)
            with contextlib.suppress(CorruptRecordError, MalformedTimestampError):
                list(decoder(check_crcs=False).decode(as_array(changed), table, file_position=0))
