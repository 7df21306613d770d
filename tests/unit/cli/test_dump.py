"""``segmentlog dump``: what is in the files, in the lines of ``kafka-dump-log`` and as objects."""

from __future__ import annotations

import base64
import re
import struct
from collections.abc import Callable, Iterable
from pathlib import Path, PurePath
from types import SimpleNamespace
from typing import Any

import pytest

from spark_segmentlog.cli import dump
from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    LogBuilder,
    ProducerStateSpec,
    RecordSpec,
    SegmentSpec,
    control_batch,
    legacy_message,
    legacy_message_set,
    v2_batch,
)
from spark_segmentlog.testing.system_records import offset_commit
from tests.support.broker_data import BrokerLog
from tests.support.metadata_log import topic
from tests.support.running import NAME, batches, flip, objects, run

# The broker's tool says behind all files which offsets do not follow each other; --records adds to
# its --deep-iteration what is in the records.
SHARED = ("Log starting offset: ", "baseOffset: ", "| ")
ADDED = re.compile(r" (key|payload|controlType|headers): .*")


def by_file(lines: Iterable[str]) -> dict[tuple[str, str], list[str]]:
    """Part a dump by the files it is of."""
    files: dict[tuple[str, str], list[str]] = {}
    found: list[str] = []
    for line in lines:
        if line.startswith("Dumping "):
            path = PurePath(line.removeprefix("Dumping "))
            found = files.setdefault((path.parent.name, path.name), [])
        else:
            found.append(line)
    return files


def of_type(entries: Iterable[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [entry for entry in entries if entry["type"] == kind]


def one_partition(path: Path, *segments: SegmentSpec | list[bytes], **options: Any) -> Path:
    return LogBuilder(path).partition("t", 0, list(segments), **options)


@pytest.mark.parametrize("producer", ["kafka-4.3.1", "kafka-4.3.1-java-transactions"])
def test_every_line_is_that_of_the_brokers_own_tool(
    broker_log: Callable[[str, str], BrokerLog], producer: str
) -> None:
    log = broker_log(producer, "clean")
    ran = run("dump", *log.log_directories, "--records", "--include-control")
    assert (ran.exit_code, ran.stderr) == (0, "")
    theirs = {
        file: [line for line in lines if line.startswith(SHARED)]
        for file, lines in by_file(log.dump().splitlines()).items()
    }
    ours = {
        file: [ADDED.sub("", line) for line in lines if line.startswith(SHARED)]
        for file, lines in by_file(ran.lines).items()
    }
    assert len(theirs) > 60
    assert ours == theirs
    assert any("LeaderChange: {" in line for lines in ours.values() for line in lines)


def test_messages_of_old_formats_are_those_of_an_old_brokers_tool(
    broker_log: Callable[[str, str], BrokerLog],
) -> None:
    log = broker_log("kafka-2.8.2", "clean")
    ran = run("dump", *log.log_directories)
    assert ran.exit_code == 0
    theirs = {
        file: [
            re.sub("compresscodec: [A-Z0-9]+", lambda it: it[0].lower(), line)
            for line in lines
            if line.startswith("offset: ")
        ]
        for file, lines in by_file(log.dump().splitlines()).items()
    }
    ours = {
        file: [line for line in lines if line.startswith("offset: ")]
        for file, lines in by_file(ran.lines).items()
    }
    assert sum(len(lines) for lines in theirs.values()) > 700
    assert ours == theirs


def test_a_batch_and_its_records_as_objects(tmp_path: Path) -> None:
    records = [
        RecordSpec(key=b"k", value=b"v", timestamp_ms=5, headers=[("h", b"1"), ("n", None)]),
        RecordSpec(key=b"", value=b"\xff\x00", timestamp_ms=9),
        RecordSpec(key=b"gone", value=None, timestamp_ms=7),
    ]
    batch = v2_batch(
        records,
        base_offset=4,
        codec="zstd",
        producer_id=3,
        producer_epoch=2,
        base_sequence=2**31 - 2,
        partition_leader_epoch=6,
    )
    directory = one_partition(tmp_path, [batch])
    path = f"{directory}/00000000000000000004.log"
    place = {"topic": "t", "partition": 0, "path": path}
    common = {"timestampType": "CreateTime", "magic": 2, **place}
    assert objects("dump", directory, "--records") == [
        {"type": "segment", **place, "baseOffset": 4},
        {
            "type": "batch",
            "topic": "t",
            "partition": 0,
            "path": path,
            "position": 0,
            "sizeBytes": len(batch),
            "magic": 2,
            "baseOffset": 4,
            "lastOffset": 6,
            "recordCount": 3,
            "codec": "zstd",
            "timestampType": "CreateTime",
            "baseTimestampMs": 5,
            "maxTimestampMs": 9,
            "producerId": 3,
            "producerEpoch": 2,
            "baseSequence": 2**31 - 2,
            "partitionLeaderEpoch": 6,
            "isTransactional": False,
            "isControl": False,
            "deleteHorizonMs": None,
            "crc": int.from_bytes(batch[17:21]),
            "isValid": True,
        },
        {
            "type": "record",
            "offset": 4,
            "timestampMs": 5,
            "keySize": 1,
            "valueSize": 1,
            "sequence": 2**31 - 2,
            "key": "k",
            "value": "v",
            "headers": [{"key": "h", "value": "1"}, {"key": "n", "value": None}],
            **common,
        },
        {
            "type": "record",
            "offset": 5,
            "timestampMs": 9,
            "keySize": 0,
            "valueSize": 2,
            "sequence": 2**31 - 1,
            "key": "",
            "valueBase64": "/wA=",
            "headers": [],
            **common,
        },
        {
            "type": "record",
            "offset": 6,
            "timestampMs": 7,
            "keySize": 4,
            "valueSize": -1,
            "sequence": 0,
            "key": "gone",
            "value": None,
            "headers": [],
            **common,
        },
        {"type": "largestTimestamp", **place, "timestampMs": 9, "offset": 5},
    ]


def test_records_as_text_a_tombstone_shows_its_key(tmp_path: Path) -> None:
    records = [
        RecordSpec(key=b"k1", value=None, timestamp_ms=1),
        RecordSpec(
            key=None, value=b"", timestamp_ms=1, headers=[("a", None), ("b", b""), ("c", b"x")]
        ),
        RecordSpec(key=b"\x00\x80", value=b"\x1b[2J\n\xc3\xa9", timestamp_ms=1),
    ]
    directory = one_partition(tmp_path, [v2_batch(records)])
    assert run("dump", directory, "--records").lines[3:] == [
        "| offset: 0 CreateTime: 1 keySize: 2 valueSize: -1 sequence: -1 headerKeys: [] key: k1",
        (
            "| offset: 1 CreateTime: 1 keySize: -1 valueSize: 0 sequence: -1 headerKeys: [a,b,c] "
            "payload:  headers: [a,b=,c=x]"
        ),
        (
            "| offset: 2 CreateTime: 1 keySize: 2 valueSize: 7 sequence: -1 headerKeys: [] "
            "key: base64:AIA= payload: \\x1b[2J\\n\u00e9"
        ),
        "Largest timestamp: 1 at offset 0",
    ]


def test_a_kraft_snapshot_is_dumped_by_its_path(tmp_path: Path) -> None:
    directory = LogBuilder(tmp_path).partition("__cluster_metadata", 0, [])
    path = directory / "00000000000000000010-0000000001.checkpoint"
    header = RecordSpec(key=struct.pack(">hh", 0, 3), value=b"\0\0" + bytes(9))
    data = v2_batch([RecordSpec(value=b"topic")], base_offset=1)
    path.write_bytes(v2_batch([header], control=True) + data)
    ran = run("dump", path, "--records", "--include-control")
    assert ran.exit_code == 0
    records = [line.rpartition("] ")[2] for line in ran.lines if line.startswith("|")]
    assert [record.partition(" ")[0] for record in records] == ["SnapshotHeader", "payload:"]


def test_an_emptied_batch_has_no_largest_timestamp(tmp_path: Path) -> None:
    emptied = v2_batch([], base_offset=0, last_offset_delta=3, max_timestamp=99)
    one_partition(tmp_path, [emptied])
    assert "Largest timestamp" not in run("dump", tmp_path).stdout


def test_bytes_may_be_written_as_hex_or_base64(tmp_path: Path) -> None:
    record = RecordSpec(key=b"k", value=b"\xff", headers=[("h", b"h")])
    directory = one_partition(tmp_path, [v2_batch([record])])
    (hexed,) = of_type(objects("dump", directory, "--records", "--bytes", "hex"), "record")
    assert (hexed["keyHex"], hexed["valueHex"]) == ("6b", "ff")
    assert hexed["headers"] == [{"key": "h", "valueHex": "68"}]
    (based,) = of_type(objects("dump", directory, "--records", "--bytes", "base64"), "record")
    assert base64.b64decode(based["keyBase64"]) == b"k"
    line = run("dump", directory, "--records", "--bytes", "hex").lines[3]
    assert line.endswith("headerKeys: [h] key: 0x6b payload: 0xff headers: [h=0x68]")


def test_control_records_show_when_asked_for_whatever_their_type(tmp_path: Path) -> None:
    short = v2_batch([RecordSpec(key=b"\x00")], base_offset=6, control=True)
    kinds = [2, 3, 4, 99, ABORT, COMMIT]
    markers = [
        control_batch(kind, base_offset=offset, key_version=1, coordinator_epoch=8)
        for offset, kind in enumerate(kinds)
    ]
    data = v2_batch([RecordSpec(value=b"x")], base_offset=7)
    directory = one_partition(tmp_path, [*markers, short, data])
    kraft = [
        (3, b"\0\0" + struct.pack(">q", 77) + b"\0", 'SnapshotHeader {"version":0,"lastContai'),
        (4, b"\0\0\0", 'SnapshotFooter {"version":0}'),
        (5, b"\0\0\0\1\0", 'KRaftVersion {"version":0,"kRaftVersion":1}'),
    ]
    for kind, value, text in kraft:
        spec = RecordSpec(key=struct.pack(">hh", 0, kind), value=value)
        one_partition(tmp_path / str(kind), [v2_batch([spec], control=True)])
        ran = run("dump", tmp_path / str(kind), "--records", "--include-control")
        assert any(text in line for line in ran.lines)
    entries = objects("dump", directory, "--records")
    assert [entry["offset"] for entry in of_type(entries, "record")] == [7]
    assert [entry["isControl"] for entry in of_type(entries, "batch")] == [True] * 7 + [False]
    shown = of_type(objects("dump", directory, "--records", "--include-control"), "record")
    fields = ("controlType", "controlTypeId", "controlVersion", "coordinatorEpoch")
    assert [tuple(entry.get(it) for it in fields) for entry in shown] == [
        ("LEADER_CHANGE", 2, 1, None),
        ("SNAPSHOT_HEADER", 3, 1, None),
        ("SNAPSHOT_FOOTER", 4, 1, None),
        ("UNKNOWN", 99, 1, None),
        ("ABORT", 0, 1, 8),
        ("COMMIT", 1, 1, 8),
        (None, None, None, None),
        (None, None, None, None),
    ]
    lines = run("dump", directory, "--records", "--include-control").lines
    ends = [line.partition("headerKeys: [] ")[2] for line in lines if line.startswith("|")]
    assert ends == [
        "controlType: LEADER_CHANGE(2)",
        "controlType: SNAPSHOT_HEADER(3)",
        'SnapshotFooter {"version":0}',
        "controlType: UNKNOWN(99)",
        "endTxnMarker: ABORT coordinatorEpoch: 8",
        "endTxnMarker: COMMIT coordinatorEpoch: 8",
        "controlType: none, control record key is 1 bytes, at least 4 bytes are needed",
        "payload: x",
    ]


def test_a_delete_horizon_is_printed_and_is_no_records_time(tmp_path: Path) -> None:
    horizon = 1000 + 86_400_000
    records = [RecordSpec(value=b"a", timestamp_ms=1000), RecordSpec(value=b"b", timestamp_ms=2000)]
    directory = one_partition(tmp_path, [v2_batch(records, delete_horizon_ms=horizon)])
    entries = objects("dump", directory, "--records")
    (batch,) = of_type(entries, "batch")
    assert (batch["deleteHorizonMs"], batch["baseTimestampMs"]) == (horizon, None)
    assert [entry["timestampMs"] for entry in of_type(entries, "record")] == [1000, 2000]
    assert f"deleteHorizonMs: OptionalLong[{horizon}] " in run("dump", directory).lines[2]


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_the_largest_timestamp_is_told_with_its_own_record(tmp_path: Path, codec: str) -> None:
    first = v2_batch([RecordSpec(value=b"x", timestamp_ms=ms) for ms in (5, 9, 7)], codec=codec)
    second = v2_batch([RecordSpec(value=b"x", timestamp_ms=9)], base_offset=3)
    directory = one_partition(tmp_path, [first, second])
    assert run("dump", directory).lines[-1] == "Largest timestamp: 9 at offset 1"
    assert run("dump", directory, "--offsets", "3:").lines[-1] == "Largest timestamp: 9 at offset 3"


def test_open_transactions_are_listed_behind_those_that_ended(tmp_path: Path) -> None:
    def data(offset: int, producer_id: int, count: int) -> bytes:
        return v2_batch(
            [RecordSpec(value=b"x")] * count,
            base_offset=offset,
            transactional=True,
            producer_id=producer_id,
            producer_epoch=1,
        )

    directory = one_partition(
        tmp_path,
        [
            data(90, 3, 2),
            data(92, 4, 1),
            control_batch(ABORT, base_offset=93, producer_id=3, producer_epoch=2),
            control_batch(COMMIT, base_offset=94, producer_id=4, producer_epoch=1),
            data(100, 7, 5),
            v2_batch([RecordSpec(value=b"y")] * 6, base_offset=105),
        ],
    )
    assert run("dump", directory, "--transactions").lines == [
        f"Transactions in {directory}",
        (
            "producerId: 3 producerEpoch: 1 state: aborted firstOffset: 90 lastOffset: 91 count: 2 "
            "markerOffset: 93"
        ),
        (
            "producerId: 4 producerEpoch: 1 state: committed firstOffset: 92 lastOffset: 92 "
            "count: 1 markerOffset: 94"
        ),
        (
            "producerId: 7 producerEpoch: 1 state: open firstOffset: 100 lastOffset: 104 count: 5 "
            "markerOffset: none"
        ),
    ]
    last = objects("dump", directory, "--transactions")[-1]
    assert (last["state"], last["firstOffset"], last["markerOffset"]) == ("open", 100, None)


@pytest.mark.parametrize(
    ("offsets", "expected"),
    [
        ("5", [5]),
        ("3:6", [3, 4, 5]),
        (":2", [0, 1]),
        ("38:", [38, 39]),
        ("7:7", []),
        ("99:", []),
    ],
)
def test_offsets_choose_batches_and_records(
    tmp_path: Path, offsets: str, expected: list[int]
) -> None:
    directory = one_partition(
        tmp_path, batches(20), [v2_batch([RecordSpec(value=b"x")] * 20, base_offset=20)]
    )
    entries = objects("dump", directory, "--records", "--offsets", offsets)
    assert [entry["offset"] for entry in of_type(entries, "record")] == expected
    touched = sorted({min(offset, 20) for offset in expected})
    assert [entry["baseOffset"] for entry in of_type(entries, "batch")] == touched


def test_indexes(tmp_path: Path) -> None:
    aborted = [
        v2_batch([RecordSpec(value=b"x")], base_offset=20, transactional=True, producer_id=7),
        control_batch(ABORT, base_offset=21, producer_id=7),
    ]
    size = len(batches(1)[0])
    directory = one_partition(
        tmp_path, SegmentSpec(batches(20), index_size_bytes=4096), SegmentSpec(aborted, index=False)
    )
    first, second = f"{directory}/{NAME}", f"{directory}/00000000000000000020"
    assert run("dump", directory, "--indexes").lines == [
        f"Dumping {first}.index",
        f"offset: 8 position: {8 * size}",
        f"offset: 16 position: {16 * size}",
        f"Dumping {first}.timeindex",
        "timestamp: 1008 offset: 8",
        "timestamp: 1016 offset: 16",
        "timestamp: 1019 offset: 19",
        f"Dumping {second}.timeindex",
        "timestamp: 1700000000000 offset: 20",
        f"Dumping {second}.txnindex",
        "version: 0 producerId: 7 firstOffset: 20 lastOffset: 21 lastStableOffset: 22",
    ]
    entries = objects("dump", directory, "--indexes", "--batches", "--offsets", "20:")
    assert [entry["type"] for entry in entries] == [
        "segment",
        "batch",
        "batch",
        "largestTimestamp",
        "index",
        "timeIndexEntry",
        "index",
        "abortedTransaction",
    ]


def test_an_index_of_zeros_is_empty_and_not_an_error(tmp_path: Path) -> None:
    spec = SegmentSpec(batches(1, base_offset=2076), index_size_bytes=10_000, index=bytes(10_000))
    directory = one_partition(tmp_path, spec)
    path = f"{directory}/00000000000000002076.index"
    ran = run("dump", directory, "--indexes")
    assert ran.exit_code == 0
    assert ran.lines[:2] == [f"Dumping {path}", f"{path} is empty."]


def test_snapshots(tmp_path: Path) -> None:
    open_one = ProducerStateSpec(
        producer_id=7,
        producer_epoch=1,
        last_sequence=1,
        last_offset=9,
        offset_delta=3,
        timestamp_ms=55,
        coordinator_epoch=2,
        current_txn_first_offset=6,
    )
    directory = one_partition(
        tmp_path,
        batches(10),
        snapshots={10: [open_one, ProducerStateSpec(producer_id=8)], 12: []},
    )
    (directory / "00000000000000000012.snapshot").write_bytes(b"\x00\x01rubbish")
    ran = run("dump", directory, "--snapshots")
    damaged = f"{directory}/00000000000000000012.snapshot"
    assert ran.lines == [
        f"Dumping {directory}/00000000000000000010.snapshot",
        (
            "producerId: 7 producerEpoch: 1 coordinatorEpoch: 2 "
            "currentTxnFirstOffset: OptionalLong[6] "
            f"lastTimestamp: 55 firstSequence: {2**31 - 2} lastSequence: 1 lastOffset: 9 "
            "offsetDelta: 3 timestamp: 55"
        ),
        (
            "producerId: 8 producerEpoch: 0 coordinatorEpoch: -1 "
            "currentTxnFirstOffset: OptionalLong.empty lastTimestamp: -1"
        ),
        f"Dumping {damaged}",
        f"{damaged} is damaged: a broker leaves it out.",
    ]
    assert ran.exit_code == 1
    assert [
        it["isValid"]
        for it in of_type(
            run("dump", directory, "--snapshots", "--format", "json").objects, "snapshot"
        )
    ] == [True, False]


def test_bad_bytes_are_named_and_stepped_over(tmp_path: Path) -> None:
    data = batches(5)
    size = len(data[0])
    directory = one_partition(tmp_path, data)
    log = directory / f"{NAME}.log"
    flip(log, size + 16)
    flip(log, 3 * size + 100)
    ran = run("dump", directory, "--format", "json")
    assert ran.exit_code == 1
    shown = [
        (entry["type"], entry.get("position"), entry.get("isValid"), entry.get("lengthBytes"))
        for entry in ran.objects
    ]
    assert shown == [
        ("segment", None, None, None),
        ("batch", 0, True, None),
        ("corruptBytes", size, None, size),
        ("batch", 2 * size, True, None),
        ("batch", 3 * size, False, None),
        ("batch", 4 * size, True, None),
        ("largestTimestamp", None, None, None),
    ]
    text = run("dump", directory).lines
    assert text[3].startswith(
        f"Found {size} invalid bytes at position {size} of {NAME}.log: magic "
    )
    assert [line.rpartition(" ")[2] for line in text if "isvalid" in line] == [
        "true",
        "true",
        "false",
        "true",
    ]


def test_records_that_cannot_be_read_are_told_and_the_next_batch_is_read(tmp_path: Path) -> None:
    bad = v2_batch([b"\x7f\x00"])
    good = v2_batch([RecordSpec(value=b"x", timestamp_ms=3)], base_offset=1)
    directory = one_partition(tmp_path, [bad, good])
    ran = run("dump", directory, "--records")
    assert ran.exit_code == 1
    assert ran.lines[3] == (
        f"Found {len(bad)} invalid bytes at position 0 of {NAME}.log: "
        "record 0: length -64, 1 bytes are there"
    )
    assert ran.lines[5].endswith("payload: x")
    assert run("dump", directory).exit_code == 0


@pytest.mark.parametrize(
    ("spec", "line"),
    [
        ({"tail": bytes(4096)}, "Found 4096 zero bytes at the end of {}.log"),
        ({"cut_bytes": 100}, "Found {rest} invalid bytes at the end of {}.log"),
    ],
)
def test_the_end_of_a_log_may_be_torn_or_zeros(
    tmp_path: Path, spec: dict[str, Any], line: str
) -> None:
    data = batches(3)
    directory = one_partition(tmp_path, SegmentSpec(data, **spec))
    ran = run("dump", directory)
    assert ran.exit_code == 0
    assert ran.lines[-2] == line.format(NAME, rest=len(data[0]) - 100)


def test_dots_in_a_path_are_part_of_its_names(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path / "kafka.logs-1.2")
    directory = builder.partition("my.topic.v1", 3, [batches(1)])
    path = directory / f"{NAME}.log"
    assert run("dump", path).lines[:2] == [f"Dumping {path}", "Log starting offset: 0"]
    (found,) = objects("ls", path, "--partitions")
    assert (found["topic"], found["partition"], found["logStartOffset"]) == ("my.topic.v1", 3, 0)


def test_records_of_old_formats(tmp_path: Path) -> None:
    records = [RecordSpec(key=b"k", value=b"v", timestamp_ms=4), RecordSpec(value=b"w")]
    directory = one_partition(
        tmp_path,
        [
            legacy_message(0, offset=0, key=b"old", value=b"1"),
            legacy_message_set(1, records, base_offset=1, codec="gzip", log_append_time_ms=8),
        ],
    )
    lines = run("dump", directory, "--records").lines
    assert [line for line in lines if line.startswith("|")] == [
        "| offset: 0 NoTimestampType: -1 keySize: 3 valueSize: 1 key: old payload: 1",
        "| offset: 1 LogAppendTime: 8 keySize: 1 valueSize: 1 key: k payload: v",
        "| offset: 2 LogAppendTime: 8 keySize: -1 valueSize: 1 payload: w",
    ]
    plain, wrapper = of_type(objects("dump", directory), "batch")
    assert (plain["baseOffset"], plain["recordCount"], plain["magic"]) == (0, 1, 0)
    assert (wrapper["baseOffset"], wrapper["recordCount"], wrapper["magic"]) == (None, None, 1)


def test_one_log_file_and_a_deleted_partition(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    directory = log.partition("t", 0, [batches(2), batches(2, base_offset=2)])
    gone = log.partition("gone", 0, [batches(1)], directory_suffix=".01-delete")
    path = directory / "00000000000000000002.log"
    entries = objects("dump", path)
    assert [entry["baseOffset"] for entry in of_type(entries, "batch")] == [2, 3]
    entries = objects("dump", gone, "--include-deleted")
    assert [entry["path"] for entry in of_type(entries, "segment")] == [f"{gone}/{NAME}.log"]
    assert objects("dump", gone) == entries


def test_numbers_at_their_limits(tmp_path: Path) -> None:
    batch = v2_batch(
        [RecordSpec(value=b"x", timestamp_ms=2**62)],
        base_offset=2**62,
        producer_id=2**63 - 1,
        base_sequence=2**31 - 1,
    )
    directory = one_partition(tmp_path, [batch])
    (entry,) = of_type(objects("dump", directory), "batch")
    assert (entry["baseOffset"], entry["producerId"]) == (2**62, 2**63 - 1)
    assert (
        f"baseSequence: {2**31 - 1} lastSequence: {2**31 - 1} " in run("dump", directory).lines[2]
    )
    assert objects("ls", directory)[0]["maxTimestampMs"] == 2**62
    assert f" {2**62} " in run("ls", directory).lines[-1]
    assert struct.unpack(">q", batch[:8]) == (2**62,)


# --decode


def decoded_log(path: Path) -> Path:
    commit = offset_commit("g", "t\u202e", 3, 7)
    records = [
        commit,
        RecordSpec(key=commit.key, value=None),
        RecordSpec(key=b"\x00\x63\xff", value=b"new"),
        RecordSpec(key=commit.key, value=b"\x00\x09"),
    ]
    log = LogBuilder(path)
    log.partition("__consumer_offsets", 0, [[v2_batch(records)]])
    log.partition("t", 0, [[v2_batch([RecordSpec(key=b"k", value=b"v")])]])
    return path


def test_records_of_kafkas_own_topics_are_decoded(tmp_path: Path) -> None:
    entries = of_type(objects("dump", decoded_log(tmp_path), "--decode"), "record")
    key = {"group": "g", "topic": "t\u202e", "partition": 3}
    value = {"offset": 7, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 0}
    commit = {"type": "OffsetCommit", "typeId": 1, "version": 3, "key": key}
    assert [entry.get("decoded") for entry in entries] == [
        {**commit, "value": value, "reason": None},
        {**commit, "version": None, "value": None, "reason": None},
        {
            "type": None,
            "typeId": 99,
            "version": None,
            "key": None,
            "value": None,
            "reason": "record type 99 is not known",
        },
        {
            **commit,
            "version": 9,
            "value": None,
            "reason": "version 9 of OffsetCommitValue is not known, version 0 to 4 is",
        },
        None,
    ]
    assert entries[2]["keyBase64"] == base64.b64encode(b"\x00\x63\xff").decode()
    assert entries[4]["key"] == "k"


def test_decoded_records_are_the_lines_of_the_brokers_decoders(tmp_path: Path) -> None:
    ran = run("dump", decoded_log(tmp_path), "--decode")
    assert ran.exit_code == 0
    shown = [line.partition("headerKeys: [] ")[2] for line in ran.lines if line.startswith("|")]
    key = 'key: {"type":"1","data":{"group":"g","topic":"t\\u202e","partition":3}}'
    fields = '{"offset":7,"leaderEpoch":-1,"metadata":"","commitTimestamp":0}'
    reason = "version 9 of OffsetCommitValue is not known, version 0 to 4 is"
    assert shown == [
        f'{key} payload: {{"version":"3","data":{fields}}}',
        f"{key} payload: <DELETE>",
        "key: base64:AGP/ payload: new reason: record type 99 is not known",
        f"{key} payload: \\x00\\t reason: {reason}",
        "key: k payload: v",
    ]


def test_a_snapshot_of_the_metadata_is_decoded_wherever_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "bootstrap.checkpoint"
    path.write_bytes(v2_batch([RecordSpec(value=topic("t", 1))]))
    (entry,) = of_type(objects("dump", path, "--decode"), "record")
    assert entry["decoded"]["value"] == {"name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}
    (line,) = (it for it in run("dump", path, "--decode").lines if it.startswith("|"))
    assert line.endswith(
        'payload: {"type":"TOPIC_RECORD","version":0,"data":'
        '{"name":"t","topicId":"AAAAAAAAAAAAAAAAAAAAAQ"}}'
    )


# What is chosen


def timed(count: int) -> list[bytes]:
    """Batches of two records, a key each; record n is of 08:00 and n minutes on 1970-01-02."""
    return [
        v2_batch(
            [
                RecordSpec(key=b"k%d" % (at % 3), value=b"v", timestamp_ms=START_MS + at * 60_000)
                for at in (base, base + 1)
            ],
            base_offset=base,
            producer_id=base % 4,
        )
        for base in range(0, 2 * count, 2)
    ]


START_MS = (24 + 8) * 3_600_000


def offsets_of(*arguments: object) -> list[int]:
    return [it["offset"] for it in of_type(objects("dump", *arguments), "record")]


@pytest.mark.parametrize(
    ("timestamps", "expected"),
    [
        ("1970-01-02T08:03:1970-01-02T08:05", [3, 4]),
        ("1970-01-02T09:03+01:00:1970-01-02T08:05Z", [3, 4]),
        (f"{START_MS + 180_000}:{START_MS + 180_001}", [3]),
        ("1970-01-02T08:17:59.9999:", [18, 19]),
        (":1970-01-02T08:02", [0, 1]),
        ("1970-01-03:", []),
        (":", list(range(20))),
    ],
)
def test_records_of_a_time(tmp_path: Path, timestamps: str, expected: list[int]) -> None:
    directory = one_partition(tmp_path, timed(5), timed(10)[5:])
    assert offsets_of(directory, "--records", "--timestamps", timestamps) == expected
    entries = objects("dump", directory, "--records", "--timestamps", timestamps)
    bases = sorted({offset - offset % 2 for offset in expected})
    assert [it["baseOffset"] for it in of_type(entries, "batch")] == bases


def test_batches_of_a_time_are_those_whose_headers_reach_it(tmp_path: Path) -> None:
    append = v2_batch([RecordSpec(timestamp_ms=9)] * 2, base_offset=8, log_append_time=True)
    directory = one_partition(tmp_path, [*timed(4), append])
    found = objects("dump", directory, "--timestamps", "1970-01-02T08:03:1970-01-02T08:05")
    assert [it["baseOffset"] for it in of_type(found, "batch")] == [2, 4]
    found = objects("dump", directory, "--timestamps", "9:10")
    assert [it["baseOffset"] for it in of_type(found, "batch")] == [8]


@pytest.mark.parametrize(
    "timestamps", ["5", "2025-02-11T08:00", "now:", "a:b", "1970-01-02T08:00:5:6"]
)
def test_what_is_no_time_is_refused(tmp_path: Path, timestamps: str) -> None:
    ran = run("dump", tmp_path, "--timestamps", timestamps)
    assert ran.exit_code == 2
    assert "is not FROM:TO, FROM: or :TO" in ran.stderr


def test_records_of_a_key(tmp_path: Path) -> None:
    directory = one_partition(tmp_path, timed(4))
    assert offsets_of(directory, "--key", "k1") == [1, 4, 7]
    assert offsets_of(directory, "--key", "6b31", "--bytes", "hex") == [1, 4, 7]
    assert offsets_of(directory, "--key", "azE=", "--bytes", "base64") == [1, 4, 7]
    assert offsets_of(directory, "--key", "") == []
    ran = run("dump", directory, "--key", "xyz", "--bytes", "hex")
    assert ran.exit_code == 2
    assert "'xyz' is not hex" in ran.stderr


def test_batches_of_producers(tmp_path: Path) -> None:
    directory = one_partition(tmp_path, timed(4))
    assert offsets_of(directory, "--records", "--producer", 2) == [2, 3, 6, 7]
    both = objects("dump", directory, "--producer", 2, "--producer", 0)
    assert len(of_type(both, "batch")) == 4


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 8, 100])
def test_a_limit_is_of_records_or_else_of_batches(tmp_path: Path, limit: int) -> None:
    directory = one_partition(tmp_path, timed(2), timed(4)[2:])
    assert offsets_of(directory, "--records", "--limit", limit) == list(range(min(limit, 8)))
    shown = of_type(objects("dump", directory, "--limit", limit), "batch")
    assert len(shown) == min(limit, 4)
    assert offsets_of(directory, "--key", "k1", "--limit", limit) == [1, 4, 7][:limit]


def test_every_object_says_where_it_is_from(tmp_path: Path) -> None:
    aborted = [
        v2_batch([RecordSpec(value=b"x")], base_offset=20, transactional=True, producer_id=7),
        control_batch(ABORT, base_offset=21, producer_id=7),
    ]
    snapshots = {22: [ProducerStateSpec(producer_id=7)]}
    directory = one_partition(
        tmp_path, batches(20), SegmentSpec(aborted, tail=b"torn"), snapshots=snapshots
    )
    flip(directory / f"{NAME}.log", 16)
    parts = ["--records", "--indexes", "--snapshots", "--transactions", "--include-control"]
    ran = run("dump", directory, *parts, "--format", "json")
    assert len({it["type"] for it in ran.objects}) == 14
    for entry in ran.objects:
        assert (entry["topic"], entry["partition"]) == ("t", 0)
        assert Path(entry["path"]).exists()


# Single files


def test_files_beside_a_log_are_dumped_by_their_paths(tmp_path: Path) -> None:
    aborted = [
        v2_batch([RecordSpec(value=b"x")], transactional=True, producer_id=7),
        control_batch(ABORT, base_offset=1, producer_id=7),
    ]
    producers = [ProducerStateSpec(producer_id=7)]
    spec = SegmentSpec([*aborted, *batches(20, base_offset=2)])
    directory = one_partition(tmp_path, spec, snapshots={22: producers})
    whole = objects("dump", directory, "--indexes", "--snapshots")
    single = []
    for name in (f"{NAME}.index", f"{NAME}.timeindex", f"{NAME}.txnindex", f"{22:020d}.snapshot"):
        single += objects("dump", directory / name)
    assert single == whole
    assert {it["type"] for it in whole} >= {"offsetIndexEntry", "abortedTransaction", "producer"}
    ran = run("dump", directory / f"{NAME}.index", directory / f"{NAME}.log")
    assert ran.lines[0] == f"Dumping {directory}/{NAME}.index"
    assert f"Dumping {directory}/{NAME}.log" in ran.lines


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        (f"{NAME}.timeindex", "does not exist"),
        ("7.index", "is no file of a log: its name must be an offset in 20 digits and .index"),
    ],
)
def test_a_single_file_that_is_none_is_one_line(tmp_path: Path, name: str, reason: str) -> None:
    directory = one_partition(tmp_path, batches(1))
    (directory / f"{NAME}.timeindex").unlink()
    (directory / "7.index").touch()
    ran = run("dump", directory / name)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr == f"Error: {directory / name} {reason}\n"


# Following


def test_what_is_appended_is_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = one_partition(tmp_path, batches(3))
    data = batches(9)
    steps: list[Callable[[], object]] = [
        lambda: append(directory / f"{NAME}.log", data[3] + data[4][:50]),
        lambda: append(directory / f"{NAME}.log", data[4][50:]),
        lambda: (directory / f"{5:020d}.log").write_bytes(b"".join(data[5:7])),
        lambda: LogBuilder(tmp_path).partition("new", 0, [batches(1)]),
        lambda: append(directory / f"{5:020d}.log", b"".join(data[7:])),
    ]
    clock = SimpleNamespace(sleep=lambda _: steps.pop(0)())
    monkeypatch.setattr(dump, "time", clock)
    ran = run("dump", "-f", tmp_path, "--records", "--limit", 10)
    assert (ran.exit_code, steps) == (0, [])
    assert [line.split()[2] for line in ran.lines if line.startswith("| ")] == [
        *map(str, range(7)),
        "0",
        "7",
        "8",
    ]
    assert [line for line in ran.lines if line.startswith("Dumping")] == [
        f"Dumping {directory}/{NAME}.log",
        f"Dumping {directory}/{5:020d}.log",
        f"Dumping {tmp_path}/new-0/{NAME}.log",
    ]


def test_following_ends_at_an_interrupt_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    directory = one_partition(tmp_path, batches(3))
    monkeypatch.setattr(dump, "time", SimpleNamespace(sleep=interrupt))
    ran = run("dump", "--follow", directory, "--offsets", "2:")
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert sum(line.startswith("baseOffset") for line in ran.lines) == 1


def test_following_starts_where_it_is_told_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = one_partition(tmp_path, batches(3))
    later = batches(4, base_offset=3)

    def grow(_: float) -> None:
        append(directory / f"{NAME}.log", later.pop(0))

    monkeypatch.setattr(dump, "time", SimpleNamespace(sleep=grow))
    ran = run("dump", "-f", directory, "--offsets", "5:", "--limit", 2, "--format", "json")
    assert [it["baseOffset"] for it in of_type(ran.objects, "batch")] == [5, 6]


@pytest.mark.parametrize("also", ["--indexes", "--snapshots", "--transactions"])
def test_only_batches_and_records_can_be_followed(tmp_path: Path, also: str) -> None:
    ran = run("dump", "-f", tmp_path, also)
    assert ran.exit_code == 2
    assert "--follow is for batches and records" in ran.stderr


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
