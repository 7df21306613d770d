"""Batches far larger than memory that may be taken: read in pieces, in a process that is measured.

Memory is bounded by the largest record and the Arrow batch. It is measured in processes of its
own, since what a process has taken once it seldom gives back.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from spark_segmentlog.testing.builder import (
    CODECS,
    RecordSpec,
    compress,
    legacy_message,
    legacy_wrapper,
    v2_batch,
    v2_record,
)

VALUE = b"0123456789abcdef" * 32 * 1024  # 512 KiB
COUNT = 300
LIMIT_BYTES = 90 << 20
FRAMINGS = ["gzip", "snappy", "snappy-raw", "lz4", "zstd"]

READER = """
import resource, sys
import numpy as np
from pathlib import Path
from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.record.plain.batch import iterate_records
from spark_segmentlog.record.read.decoder import RecordDecoder
from spark_segmentlog.record.read.header_table import scan_headers
from spark_segmentlog.record.plain.legacy import iterate_messages

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

def decode(data, validate_first):
    array = np.frombuffer(data, np.uint8).copy()
    table = scan_headers(array, 0, len(array), file_position=0)
    decoder = RecordDecoder(
        ("value", "offset"), topic="t", partition=0, source="s", validate_first=validate_first
    )
    for batch in decoder.decode(array, table, file_position=0):
        yield from batch.column("value")
    last = decoder.flush()
    if last is not None:
        yield from last.column("value")

def read(data, how):
    if how == "plain":
        iterate = iterate_records if data[16] == 2 else iterate_messages
        return (record.value for record in iterate(data))
    return decode(data, how == "validated")

folder = Path(sys.argv[1])
for how in ("decoded", "plain"):
    for _ in read((folder / "small").read_bytes(), how):
        pass
for argument in sys.argv[2:]:
    name, how = argument.split(":")
    data = (folder / name).read_bytes()
    before = peak()
    count, error = 0, "none"
    try:
        for value in read(data, how):
            count += 1
    except CorruptRecordError as failure:
        error = type(failure).__name__
    print(count, error, peak() - before)
"""


def measure(
    folder: Path, entries: dict[str, bytes], reads: Sequence[str]
) -> Iterator[tuple[str, int, str, int]]:
    """Read entries, each as said, one after the other in one process that has read ``small``.

    Gives for each what was read, the number of rows, the error, and how the peak of memory grew.
    """
    for name, data in entries.items():
        (folder / name).write_bytes(data)
    done = subprocess.run(
        [sys.executable, "-c", READER, str(folder), *reads],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for read, line in zip(reads, done.stdout.splitlines(), strict=True):
        count, error, grown = line.split()
        yield read, int(count), error, int(grown)


def batch_of(codec: str, body: bytes, count: int) -> bytes:
    return v2_batch(
        payload=compress(codec, body),
        count=count,
        attributes=CODECS[codec],
        last_offset_delta=max(count - 1, 0),
        base_timestamp=0,
    )


RECORDS = b"".join(v2_record(RecordSpec(value=VALUE), offset_delta=at) for at in range(COUNT))


@pytest.mark.parametrize("codec", FRAMINGS)
def test_batch_of_150_mib_is_read_in_pieces(tmp_path: Path, codec: str) -> None:
    entries = {
        "small": batch_of(codec, v2_record(RecordSpec(value=VALUE)) * 5, 5),
        "large": batch_of(codec, RECORDS, COUNT),
    }
    reads = ["large:decoded", "large:validated", "large:plain"]
    for read, count, error, grown in measure(tmp_path, entries, reads):
        assert (count, error) == (COUNT, "none"), read
        assert grown < LIMIT_BYTES, read


@pytest.mark.parametrize(
    ("magic", "codec"),
    [(1, "gzip"), (1, "snappy"), (1, "snappy-raw"), (1, "lz4"), (0, "lz4-legacy-checksum")],
)
def test_wrapper_of_150_mib_is_read_in_pieces(tmp_path: Path, magic: int, codec: str) -> None:
    message = legacy_message(magic, offset=0, value=VALUE)
    messages = b"".join(legacy_message(magic, offset=at, value=VALUE) for at in range(COUNT))
    entries = {
        "small": legacy_wrapper(magic, message, offset=0, codec=codec),
        "large": legacy_wrapper(magic, messages, offset=COUNT - 1, codec=codec),
    }
    for read, count, error, grown in measure(tmp_path, entries, ["large:decoded", "large:plain"]):
        assert (count, error) == (COUNT, "none"), read
        assert grown < LIMIT_BYTES, read


@pytest.mark.parametrize("codec", FRAMINGS)
def test_bombs_are_errors_that_take_no_memory(tmp_path: Path, codec: str) -> None:
    too_long = v2_record(RecordSpec(value=b""), length=2**31 - 1)
    entries = {
        "small": batch_of(codec, v2_record(RecordSpec(value=VALUE)), 1),
        "beyond": batch_of(codec, too_long + bytes(150 << 20), 1),
        "zeros": batch_of(codec, bytes(150 << 20), 1),
        "more": batch_of(codec, RECORDS, COUNT + 1),
        "fewer": batch_of(codec, RECORDS, COUNT - 1),
    }
    most_rows = {"beyond": 0, "zeros": 0, "more": COUNT, "fewer": COUNT - 1}
    reads = [f"{name}:{how}" for name in most_rows for how in ("decoded", "validated", "plain")]
    for read, count, error, grown in measure(tmp_path, entries, reads):
        name, how = read.split(":")
        assert error == "InvalidRecordError", read
        assert count <= (0 if how == "validated" else most_rows[name]), read
        assert grown < LIMIT_BYTES, read


def test_value_larger_than_any_arrow_batch_is_read(tmp_path: Path) -> None:
    value = bytes(140_000_000)
    entries = {
        "small": v2_batch([RecordSpec(value=b"v")], codec="zstd"),
        "large": v2_batch([RecordSpec(value=value), RecordSpec(value=b"v")], codec="zstd"),
    }
    ((_, count, error, grown),) = measure(tmp_path, entries, ["large:decoded"])
    assert (count, error) == (2, "none")
    # The record where it is decompressed, and where Arrow holds it.
    assert grown < 2 * len(value) + LIMIT_BYTES
