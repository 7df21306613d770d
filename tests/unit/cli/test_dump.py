"""``segmentlog dump``: what is in the files, in the lines of ``kafka-dump-log`` and as objects."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path, PurePath
from types import SimpleNamespace

import pytest

from spark_segmentlog.cli import dump
from spark_segmentlog.testing.builder import (
    ABORT,
    LogBuilder,
    ProducerStateSpec,
    RecordSpec,
    SegmentSpec,
    control_batch,
    v2_batch,
)
from tests.support.broker_data import BrokerLog
from tests.support.dumping import of_type, offsets_of, one_partition, timed
from tests.support.running import NAME, batches, flip, objects, run

# The broker's tool says after all files which offsets do not follow each other; --records adds to
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
            re.sub("compresscodec: [A-Z0-9]+", lambda match: match[0].lower(), line)
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


def test_dots_in_a_path_are_part_of_its_names(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path / "kafka.logs-1.2")
    directory = builder.partition("my.topic.v1", 3, [batches(1)])
    path = directory / f"{NAME}.log"
    assert run("dump", path).lines[:2] == [f"Dumping {path}", "Log starting offset: 0"]
    (found,) = objects("ls", path, "--partitions")
    assert (found["topic"], found["partition"], found["logStartOffset"]) == ("my.topic.v1", 3, 0)


@pytest.mark.parametrize(
    "timestamps", ["5", "2025-02-11T08:00", "now:", "a:b", "1970-01-02T08:00:5:6"]
)
def test_what_is_no_time_is_refused(tmp_path: Path, timestamps: str) -> None:
    ran = run("dump", tmp_path, "--timestamps", timestamps)
    assert ran.exit_code == 2
    assert "is not FROM:TO, FROM: or :TO" in ran.stderr


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
    assert len({row["type"] for row in ran.objects}) == 14
    for entry in ran.objects:
        assert (entry["topic"], entry["partition"]) == ("t", 0)
        assert Path(entry["path"]).exists()


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
    assert [entry["baseOffset"] for entry in of_type(ran.objects, "batch")] == [5, 6]


@pytest.mark.parametrize("also", ["--indexes", "--snapshots", "--transactions"])
def test_only_batches_and_records_can_be_followed(tmp_path: Path, also: str) -> None:
    ran = run("dump", "-f", tmp_path, also)
    assert ran.exit_code == 2
    assert "--follow is for batches and records" in ran.stderr


def append(path: Path, data: bytes) -> None:
    with path.open("ab") as file:
        file.write(data)
