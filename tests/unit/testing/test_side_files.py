"""Indexes and snapshots against the files that a broker made of the same batches."""

from __future__ import annotations

import struct
from pathlib import Path

import crc32c
import pytest

from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec
from tests.support.broker_data import unpack


@pytest.mark.parametrize("producer", ["kafka-4.3.1", "kafka-4.3.1-java-transactions"])
def test_indexes_and_snapshots_equal_those_of_a_broker(producer: str, tmp_path: Path) -> None:
    compared = 0
    broker_log = unpack(producer, "clean", tmp_path / "broker")
    for log_directory in map(Path, broker_log.log_directories):
        builder = LogBuilder(tmp_path / "ours" / log_directory.name)
        for theirs in log_directory.glob("*-[0-9]*"):
            if theirs.name.startswith("__cluster_metadata"):
                continue  # Raft appends, and indexes, several batches at once
            ours = rebuild(builder, theirs)
            for suffix in (".index", ".timeindex", ".txnindex"):
                for path in theirs.glob(f"*{suffix}"):
                    made = ours / path.name
                    assert (made.read_bytes() if made.exists() else b"") == path.read_bytes(), path
                    compared += 1
            for path in ours.glob("*.snapshot"):
                if (theirs / path.name).exists():
                    assert entries_of(path) == entries_of(theirs / path.name), path
    assert compared > 100


def rebuild(builder: LogBuilder, partition_directory: Path) -> Path:
    """Build the partition again from the bytes of its `.log` files alone."""
    topic, partition = partition_directory.name.rsplit("-", 1)
    intervals = {"appended": 256, "ledger": 256, "table": 256, "bank": 256, "orders": 512}
    segments = [
        SegmentSpec(
            [path.read_bytes()],
            base_offset=int(path.stem),
            index_interval_bytes=intervals.get(topic, 128 if topic == "single" else 4096),
        )
        for path in sorted(partition_directory.glob("*.log"))
    ]
    return builder.partition(topic, int(partition), segments, snapshots=True)


def entries_of(snapshot: Path) -> list[bytes]:
    """The entries of a snapshot file, which a broker writes in the order of a hash map."""
    data = snapshot.read_bytes()
    assert crc32c.crc32c(data[6:]) == struct.unpack_from(">I", data, 2)[0]
    return sorted(data[start : start + 46] for start in range(10, len(data), 46))
