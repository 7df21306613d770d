"""Dumps of records: how bytes are written, control records, what those of own topics say."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    LogBuilder,
    RecordSpec,
    control_batch,
    legacy_message,
    legacy_message_set,
    v2_batch,
)
from spark_segmentlog.testing.system_records import offset_commit
from tests.support.dumping import of_type, one_partition
from tests.support.running import objects, run


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
    assert [tuple(entry.get(field) for field in fields) for entry in shown] == [
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
