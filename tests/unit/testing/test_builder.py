"""The builder against independent decoders and against the files that a broker made."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import crc32c
import pytest
from aiokafka.record.memory_records import MemoryRecords

from spark_segmentlog.testing.builder import (
    ABORT,
    CODECS,
    COMMIT,
    DEFAULT_TIMESTAMP_MS,
    LogBuilder,
    ProducerStateSpec,
    RecordSpec,
    SegmentSpec,
    control_batch,
    legacy_message,
    legacy_message_set,
    legacy_wrapper,
    producer_snapshot_bytes,
    summarize_batch,
    unsigned_varint,
    v2_batch,
    varint,
)
from tests.support.broker_data import unpack

RECORDS = [
    RecordSpec(key=b"k", value=b"v" * 500, headers=[("a", None), ("b", b"")]),
    RecordSpec(value=b"", timestamp_ms=DEFAULT_TIMESTAMP_MS - 5),
    RecordSpec(value=None, key=b""),
] * 50


def decoded(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None, list[object]]]:
    """What aiokafka makes of the bytes."""
    rows = []
    memory_records = MemoryRecords(data)
    while memory_records.has_next():
        batch = memory_records.next_batch()
        assert batch is not None
        assert batch.validate_crc()
        for record in batch:
            rows.append(
                (record.offset, record.timestamp, record.key, record.value, list(record.headers))
            )
    return rows


# A strict decoder refuses the old checksum, which is its purpose.
@pytest.mark.parametrize("codec", [codec for codec in CODECS if codec != "lz4-legacy-checksum"])
def test_v2_batch_is_what_aiokafka_reads(codec: str) -> None:
    rows = decoded(v2_batch(RECORDS, base_offset=7, codec=codec))
    assert rows == [
        (7 + place, record.timestamp_ms, record.key, record.value, list(record.headers))
        for place, record in enumerate(RECORDS)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "snappy-raw", "lz4"])
@pytest.mark.parametrize("magic", [0, 1])
def test_message_set_is_what_aiokafka_reads(magic: int, codec: str) -> None:
    if (magic, codec) == (0, "lz4"):
        codec = "none"  # aiokafka refuses lz4 in format 0
    records = [RecordSpec(key=record.key, value=record.value) for record in RECORDS]
    rows = decoded(legacy_message_set(magic, records, base_offset=100, codec=codec))
    assert [row[0] for row in rows] == list(range(100, 250))
    assert [(row[2], row[3]) for row in rows] == [(r.key, r.value) for r in records]
    if magic == 1:
        assert {row[1] for row in rows} == {DEFAULT_TIMESTAMP_MS}


def test_legacy_lz4_checksum_covers_the_magic() -> None:
    good = legacy_wrapper(0, b"", offset=0, codec="lz4")
    old = legacy_wrapper(0, b"", offset=0, codec="lz4-legacy-checksum")
    # FLG, BD, HC stand behind the frame's magic, which starts at byte 26 of a format 0 message.
    assert good[26:32] == old[26:32]
    assert good[32] == 0x82
    assert old[32] != 0x82


def test_overrides_reach_the_header_and_the_crc_follows() -> None:
    batch = v2_batch(
        [RecordSpec(value=b"a", offset_delta=3)],
        base_offset=10,
        last_offset_delta=9,
        count=10**9,
        delete_horizon_ms=5,
        partition_leader_epoch=7,
        producer_id=1,
        producer_epoch=2,
        base_sequence=3,
    )
    assert struct.unpack_from(">I", batch, 17)[0] == crc32c.crc32c(batch[21:])
    assert struct.unpack_from(">qiib", batch) == (10, len(batch) - 12, 7, 2)
    assert struct.unpack_from(">hiqqqhii", batch, 21) == (
        0x40, 9, 5, DEFAULT_TIMESTAMP_MS, 1, 2, 3, 10**9,
    )  # fmt: skip
    assert struct.unpack_from(">I", v2_batch(crc=1), 17)[0] == 1
    assert struct.unpack_from(">i", v2_batch(batch_length=-5), 8)[0] == -5
    assert v2_batch(magic=9)[16] == 9


def test_legacy_crc_covers_magic_to_end() -> None:
    message = legacy_message(1, offset=4, key=None, value=b"v", log_append_time=True)
    assert struct.unpack_from(">I", message, 12)[0] == zlib.crc32(message[16:])
    assert message[16:18] == b"\x01\x08"


@pytest.mark.parametrize(
    ("value", "encoded"),
    [
        (0, "00"),
        (-1, "01"),
        (1, "02"),
        (-64, "7f"),
        (64, "8001"),
        (2**63 - 1, "fe" + "ff" * 8 + "01"),
        (-(2**63), "ff" * 9 + "01"),
    ],
)
def test_varint(value: int, encoded: str) -> None:
    assert varint(value).hex() == encoded


def test_overlong_varints() -> None:
    assert unsigned_varint(1, width=3) == b"\x81\x80\x00"
    assert len(varint(5, width=11)) == 11


def test_control_batch_types() -> None:
    commit = control_batch(COMMIT, base_offset=1, producer_id=3, producer_epoch=4)
    unknown = control_batch(99, base_offset=2, key_version=1)
    assert summarize_batch(commit).attributes == 0x30  # type: ignore[union-attr]
    assert summarize_batch(unknown).attributes == 0x20  # type: ignore[union-attr]
    assert b"\x00\x01\x00\x63" in unknown


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
    """Build the partition anew from the bytes of its `.log` files alone."""
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
