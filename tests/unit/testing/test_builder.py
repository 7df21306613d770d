"""The builder against independent decoders and against the files that a broker made."""

from __future__ import annotations

import struct
from pathlib import Path

import crc32c
import pytest

from spark_segmentlog.testing.builder import (
    ABORT,
    DEFAULT_TIMESTAMP_MS,
    LogBuilder,
    ProducerStateSpec,
    RecordSpec,
    SegmentSpec,
    control_batch,
    producer_snapshot_bytes,
    v2_batch,
)
from tests.support.broker_data import unpack


def test_segment_files_and_their_damage(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "logs")
    batch = v2_batch([RecordSpec(value=b"x" * 3000)] * 3)
    second = v2_batch([RecordSpec(value=b"y" * 3000)] * 3, base_offset=3)
    directory = log.partition(
        "t.a-b",
        4,
        [
            [batch, second],
            SegmentSpec([], tail=bytes(100), index_size_bytes=64),
            SegmentSpec([batch], base_offset=50, suffix=".deleted", cut_bytes=5, index=False),
        ],
        topic_id="",
    )
    assert sorted(path.name for path in directory.iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000006.index",
        "00000000000000000006.log",
        "00000000000000000006.timeindex",
        "00000000000000000050.log.deleted",
        "00000000000000000050.timeindex.deleted",
        "leader-epoch-checkpoint",
    ]
    assert (directory / "00000000000000000000.index").read_bytes() == struct.pack(
        ">ii", 5, len(batch)
    )
    assert (directory / "00000000000000000006.index").read_bytes() == bytes(64)
    assert (directory / "00000000000000000050.log.deleted").read_bytes() == batch[:-5]


def test_checkpoints_read_like_a_brokers(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    offsets = {("a-b", 0): 5, ("c", 1): 7}
    text = "0\n2\na-b 0 5\nc 1 7\n"
    assert log.high_watermarks(offsets).read_text() == text
    assert log.recovery_points(offsets).name == "recovery-point-offset-checkpoint"
    assert log.log_start_offsets(offsets).name == "log-start-offset-checkpoint"
    assert log.clean_shutdown(446).read_text() == '{"version":0,"brokerEpoch":446}'
    assert "cluster.id=c\n" in log.meta_properties(cluster_id="c").read_text()


def test_aborted_transactions_are_indexed_where_their_marker_stands(tmp_path: Path) -> None:
    def data(offset: int, producer_id: int) -> bytes:
        return v2_batch(
            [RecordSpec(value=b"x")],
            base_offset=offset,
            transactional=True,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
        )

    def abort(offset: int, producer_id: int) -> bytes:
        return control_batch(ABORT, base_offset=offset, producer_id=producer_id, producer_epoch=0)

    directory = LogBuilder(tmp_path).partition(
        "t", 0, [[data(0, 1), data(1, 2)], [abort(2, 2), abort(3, 1), abort(4, 1)]], snapshots=True
    )
    assert not (directory / "00000000000000000000.txnindex").exists()
    assert (directory / "00000000000000000002.txnindex").read_bytes() == struct.pack(
        ">hqqqqhqqqq", 0, 2, 1, 2, 0, 0, 1, 0, 3, 4
    )
    open_state = [
        ProducerStateSpec(
            producer_id=producer_id, producer_epoch=0, last_sequence=0, last_offset=producer_id - 1,
            timestamp_ms=DEFAULT_TIMESTAMP_MS, current_txn_first_offset=producer_id - 1,
        )
        for producer_id in (1, 2)
    ]  # fmt: skip
    snapshot = (directory / "00000000000000000002.snapshot").read_bytes()
    assert snapshot == producer_snapshot_bytes(open_state)


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
