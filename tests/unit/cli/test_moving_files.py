"""The verbs that only look, in a partition whose files are renamed under them."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from spark_segmentlog.log.findings import Finding
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.partition.transaction_index_check import KnownAborts
from spark_segmentlog.log.upkeep import mender, verification
from spark_segmentlog.log.upkeep.index_check import check_indexes
from spark_segmentlog.log.upkeep.mender import Mender
from spark_segmentlog.log.upkeep.recovery_action import RecoveryAction
from spark_segmentlog.log.upkeep.segment_survey import SegmentSurvey
from spark_segmentlog.testing.builder import LogBuilder, segment_file_name
from tests.support.metadata_log import metadata_log, topic
from tests.support.moving import delete, merge, merge_in_between, when_touched
from tests.support.running import batches, flip, objects, run

BASES = (0, 10, 20, 30)


def four_segments(path: Path) -> Path:
    log = LogBuilder(path)
    return log.partition("t", 0, [batches(10, base_offset=base) for base in BASES])


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return four_segments(tmp_path / "logs")


@pytest.fixture
def merged_in_between(directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Segments 10 and 20 become one when a reader comes to the second of them."""
    return merge_in_between(monkeypatch, directory)


def test_verify_finds_nothing_wrong(directory: Path, merged_in_between: list[str]) -> None:
    for arguments in ((), ("--deep",)):
        ran = run("verify", directory.parent, *arguments)
        assert (ran.exit_code, ran.lines[1:]) == (0, ["0 wrong, 0 harmless"])
    assert merged_in_between


def test_recover_has_nothing_to_do(directory: Path, merged_in_between: list[str]) -> None:
    ran = run("recover", directory.parent)
    assert (ran.exit_code, ran.stdout) == (0, "0 done, 0 left\n")
    assert merged_in_between


@pytest.mark.parametrize("base_offset", [10, 20])
def test_recover_tells_no_index_that_moves(
    directory: Path, monkeypatch: pytest.MonkeyPatch, base_offset: int
) -> None:
    """A segment is merged with another after its batches were looked at, before its indexes."""
    surveyed: list[int] = []

    def check(log: PartitionLog, survey: SegmentSurvey, known: KnownAborts) -> Iterator[Finding]:
        surveyed.append(survey.segment.base_offset)
        if surveyed.count(base_offset) == 1 and surveyed[-1] == base_offset:
            merge(directory, (10, 20), batches(20, base_offset=10))
        return check_indexes(log, survey, known)

    monkeypatch.setattr(mender, "check_indexes", check)
    ran = run("recover", directory.parent)
    assert (ran.exit_code, ran.stdout) == (0, "0 done, 0 left\n")
    assert surveyed[-3:] == [0, 10, 30]


def test_recover_tells_what_is_wrong_after_a_move_too(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = directory / segment_file_name(0, ".index")
    lost.unlink()
    bases = iter([(10, 20), (10,)])
    look = Mender.mend

    def look_beside_a_cleaner(mending: Mender, log: PartitionLog) -> Iterator[RecoveryAction]:
        replaced = next(bases, None)
        if replaced is not None:
            merge(directory, replaced, batches(20, base_offset=10))
        return look(mending, log)

    monkeypatch.setattr(Mender, "mend", look_beside_a_cleaner)
    (told, *rest) = run("recover", directory.parent).lines
    assert told.startswith("rebuild indexes: ")
    assert told.endswith(f"{segment_file_name(0)})")
    assert rest == ["0 done, 1 to do: --apply does it, 0 left"]


def test_dump_gives_every_batch_once(directory: Path, merged_in_between: list[str]) -> None:
    entries = objects("dump", directory.parent, "--records", "--indexes")
    assert merged_in_between
    given = [entry for entry in entries if entry["type"] == "batch"]
    assert [entry["baseOffset"] for entry in given] == list(range(40))
    assert all(entry["isValid"] for entry in given)
    records = [entry["offset"] for entry in entries if entry["type"] == "record"]
    assert records == list(range(40))
    named = [Path(entry["path"]).name for entry in entries if entry["type"] == "segment"]
    assert named == [f"{base:020d}.log" for base in (0, 10, 10, 30)]


def test_ls_gives_the_segments_of_one_moment(directory: Path, merged_in_between: list[str]) -> None:
    rows = objects("ls", directory.parent, "--segments")
    assert merged_in_between
    assert [(row["baseOffset"], row["endOffset"]) for row in rows] == [(0, 10), (10, 30), (30, 40)]
    assert [row["sizeBytes"] for row in rows] == [
        sum(map(len, batches(count))) for count in (10, 20, 10)
    ]
    assert [row["maxTimestampMs"] for row in rows] == [1009, 1029, 1039]


def test_ls_counts_all_bytes(directory: Path, merged_in_between: list[str]) -> None:
    (row,) = objects("ls", directory.parent, "--partitions")
    assert merged_in_between
    assert (row["segments"], row["sizeBytes"]) == (3, sum(map(len, batches(40))))
    assert (row["logStartOffset"], row["logEndOffset"]) == (0, 40)


def test_dump_passes_over_what_retention_takes(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def take_away() -> None:
        for base in (0, 10, 20):
            delete(directory, base)

    touched = when_touched(monkeypatch, directory / segment_file_name(10), take_away)
    ran = run("dump", directory, "--format", "json")
    assert touched
    given = [entry["baseOffset"] for entry in ran.objects if entry["type"] == "batch"]
    assert (ran.exit_code, given) == (0, [*range(10), *range(30, 40)])


@pytest.mark.parametrize(
    "arguments",
    [("verify",), ("recover",), ("dump",), ("ls",), ("ls", "--partitions"), ("ls", "--segments")],
    ids=" ".join,
)
def test_a_partition_that_is_deleted_meanwhile_is_passed_over(
    directory: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    LogBuilder(directory.parent).partition("u", 0, [batches(3)])
    touched = when_touched(
        monkeypatch, directory / segment_file_name(20), lambda: shutil.rmtree(directory)
    )
    ran = run(*arguments, directory.parent)
    assert touched
    assert ran.exit_code == 0


def test_a_fault_that_stays_is_told_in_files_that_change(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bad bytes in what a cleaner made are no trace of its renames."""
    bad = batches(20, base_offset=10)
    bad[5] = bad[5][:-1] + b"\xff"
    when_touched(
        monkeypatch,
        directory / segment_file_name(20),
        lambda: merge(directory, (10, 20), bad),
    )
    found = [row["path"] for row in objects("verify", directory.parent, exit_code=1)[:-1]]
    assert set(found) == {str(directory / segment_file_name(10))}


@pytest.mark.parametrize("bad", ["d0", "d1"])
@pytest.mark.parametrize("verb", ["verify", "recover"])
def test_every_copy_of_a_partition_is_looked_at(tmp_path: Path, bad: str, verb: str) -> None:
    for name in ("d0", "d1"):
        four_segments(tmp_path / name)
    path = tmp_path / bad / "t-0" / segment_file_name(30)
    flip(path, 100)
    ran = run(verb, tmp_path / "d0", tmp_path / "d1")
    assert ran.exit_code == 1
    told = [line for line in ran.lines[:-1] if not line.startswith(("partition twice", "checked "))]
    assert all(str(path)[:-4] in line for line in told)
    assert len(ran.lines) > 1


def test_a_folder_of_something_else_is_told(tmp_path: Path) -> None:
    four_segments(tmp_path / "d0")
    (tmp_path / "other").mkdir()
    assert run("verify", tmp_path / "d0", tmp_path / "other").lines[1:] == ["0 wrong, 0 harmless"]
    (tmp_path / "other" / "notes.txt").touch()
    ran = run("verify", tmp_path / "d0", tmp_path / "other")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "other holds no partition" in ran.stderr


def test_indexes_of_every_copy_are_made_anew(tmp_path: Path) -> None:
    indexes = []
    for name in ("d0", "d1"):
        index = four_segments(tmp_path / name) / segment_file_name(10, ".index")
        index.write_bytes(b"\xff" * 8)
        indexes.append(index)
    run("reindex", tmp_path / "d0", tmp_path / "d1")
    assert [index.read_bytes() == b"\xff" * 8 for index in indexes] == [False, False]


@pytest.mark.parametrize("kind", ["delete", "stray", "future"])
def test_verbs_take_a_directory_beside_the_log_by_its_path(tmp_path: Path, kind: str) -> None:
    log = LogBuilder(tmp_path)
    log.partition("live", 0, [batches(1)])
    segments = [batches(5), batches(5, base_offset=5)]
    path = log.partition("gone", 2, segments, directory_suffix=f".0a1b-{kind}")
    assert run("verify", path).lines[1:] == ["0 wrong, 0 harmless"]
    given = [row for row in objects("dump", path) if row["type"] == "batch"]
    assert [(row["topic"], row["partition"], row["baseOffset"]) for row in given] == [
        ("gone", 2, offset) for offset in range(10)
    ]
    (row,) = objects("ls", path, "--partitions")
    assert (row["topic"], row["partition"], row["logEndOffset"]) == ("gone", 2, 10)
    last = path / segment_file_name(5)
    last.write_bytes(last.read_bytes() + b"\x00\x00")
    last.write_bytes(last.read_bytes()[:-2] + batches(1, base_offset=10)[0][:70])
    assert run("recover", path).exit_code == 1
    ran = run("recover", path, "--apply")
    assert (ran.exit_code, last.read_bytes()) == (0, b"".join(segments[1]))
    assert (tmp_path / ".lock").exists()
    assert not (path / ".lock").exists()
    assert run("verify", path).exit_code == 0


def test_a_live_partition_directory_is_still_no_place_to_recover(directory: Path) -> None:
    ran = run("recover", directory)
    assert ran.exit_code == 2
    assert f"is no log directory: name the one above it, {directory.parent}" in ran.stderr


def test_what_a_broker_at_work_has_in_hand_is_no_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A topic that is deleted leaves the cluster's metadata before its folder is renamed."""
    log = LogBuilder(tmp_path)
    metadata_log(tmp_path, topic("t", 1))
    path = log.partition("gone", 0, [batches(1)])
    ran = run("verify", tmp_path)
    assert (ran.exit_code, "stray partition" in ran.stdout) == (1, True)
    log.high_watermarks({("gone", 0): 1})
    pauses = []

    def rename(seconds: float) -> None:
        pauses.append(seconds)
        path.rename(f"{path}.0a1b-delete")

    # Threads of other tests sleep too: only this module's clock is another.
    clock = SimpleNamespace(sleep=rename, time_ns=time.time_ns)
    monkeypatch.setattr(verification, "time", clock)
    assert run("verify", tmp_path).lines[1:] == ["0 wrong, 0 harmless"]
    assert len(pauses) == 1
    os.utime(tmp_path / "replication-offset-checkpoint", (1, 1))
    assert run("verify", tmp_path).lines[1:] == ["0 wrong, 0 harmless"]
    assert len(pauses) == 1
