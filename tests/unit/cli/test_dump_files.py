"""Single files that are dumped by their paths."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from spark_segmentlog.testing.builder import (
    ABORT,
    LogBuilder,
    ProducerStateSpec,
    RecordSpec,
    SegmentSpec,
    control_batch,
    v2_batch,
)
from tests.support.dumping import of_type, one_partition
from tests.support.metadata_log import topic
from tests.support.running import NAME, batches, objects, run


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


def test_a_snapshot_of_the_metadata_is_decoded_wherever_it_lies(tmp_path: Path) -> None:
    path = tmp_path / "bootstrap.checkpoint"
    path.write_bytes(v2_batch([RecordSpec(value=topic("t", 1))]))
    (entry,) = of_type(objects("dump", path, "--decode"), "record")
    assert entry["decoded"]["value"] == {"name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAQ"}
    (line,) = (line for line in run("dump", path, "--decode").lines if line.startswith("|"))
    assert line.endswith(
        'payload: {"type":"TOPIC_RECORD","version":0,"data":'
        '{"name":"t","topicId":"AAAAAAAAAAAAAAAAAAAAAQ"}}'
    )


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
    assert {segment["type"] for segment in whole} >= {
        "offsetIndexEntry",
        "abortedTransaction",
        "producer",
    }
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
