"""Looks at a log that grows, tears, rolls, shrinks and moves between them."""

from __future__ import annotations

import os
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.errors import (
    EmptyLogDirectoryError,
    InvalidBatchError,
    LogPathNotFoundError,
    SegmentLogError,
)
from spark_segmentlog.log.directory import state as log_directory
from spark_segmentlog.log.directory.commit_steps import PartitionPlan
from spark_segmentlog.log.directory.journal import CommitPhase, Journal, Participant, journal_path
from spark_segmentlog.log.directory.open_commit import CommitState
from spark_segmentlog.log.directory.versions import VERSIONS_FILE_NAME, Versions
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition import log_watch
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.log_watch import LogWatch, WatchedPartitionLog
from spark_segmentlog.log.segment.pieces import FIRST_READ_BYTES
from spark_segmentlog.testing.builder import (
    ABORT,
    ATTRIBUTE_TRANSACTIONAL,
    COMMIT,
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    control_batch,
    segment_file_name,
    v2_batch,
)
from tests.support.noting import note_calls

T0 = TopicPartition("t", 0)


def batch(base_offset: int, count: int = 1, size: int = 10, timestamp_ms: int = 1000) -> bytes:
    records = [RecordSpec(value=b"v" * size, timestamp_ms=timestamp_ms) for _ in range(count)]
    return v2_batch(records, base_offset=base_offset)


def transactional(base_offset: int, producer_id: int) -> bytes:
    return v2_batch(
        [RecordSpec(value=b"v")],
        base_offset=base_offset,
        producer_id=producer_id,
        producer_epoch=0,
        attributes=ATTRIBUTE_TRANSACTIONAL,
    )


def append(directory: Path, data: bytes, base_offset: int = 0) -> None:
    with open(directory / segment_file_name(base_offset), "ab") as file:
        file.write(data)


def settle(path: Path) -> None:
    """Let everything below a path look as if it had not changed for a minute."""
    past = time.time() - 60
    for each in [*path.rglob("*"), path]:
        os.utime(each, (past, past))


@contextmanager
def counted_reads() -> Iterator[list[str]]:
    """List the folders that are listed and the files that are walked."""
    seen: list[str] = []

    def note_walk(log: WatchedPartitionLog, *_: object) -> None:
        seen.append(f"walk {log.topic_partition}")

    def note_listing(storage: object, directory: str) -> None:
        seen.append(f"list {Path(directory).name}")

    with pytest.MonkeyPatch.context() as patch:
        note_calls(patch, WatchedPartitionLog, "_walk_to_end", note_walk)
        note_calls(patch, log_watch, "list_partition", note_listing)
        yield seen


def ends(watch: LogWatch) -> dict[str, int]:
    return {str(tp): log.log_end_offset for tp, log in watch.refresh().items()}


def build(path: Path, batches: Sequence[bytes] = ()) -> tuple[LogBuilder, Path]:
    log = LogBuilder(path)
    return log, log.partition("t", 0, [list(batches) or SegmentSpec([], base_offset=0)])


def test_a_look_sees_appended_batches_and_walks_only_after_the_last_end(tmp_path: Path) -> None:
    _, directory = build(tmp_path, [batch(0, 3)])
    watch = LogWatch([str(tmp_path)])
    assert ends(watch) == {"t-0": 3}
    append(directory, batch(3, 2))
    append(directory, batch(5, 2))
    assert ends(watch) == {"t-0": 7}
    memory = watch.refresh()[T0].memory
    assert memory.position == (directory / segment_file_name(0)).stat().st_size


def test_a_look_at_a_log_that_has_settled_reads_nothing(tmp_path: Path) -> None:
    build(tmp_path, [batch(0, 3)])
    settle(tmp_path)
    watch = LogWatch([str(tmp_path)])
    watch.refresh()
    with counted_reads() as reads:
        assert ends(watch) == {"t-0": 3}
    assert reads == []


def test_what_changed_a_moment_ago_is_read_again(tmp_path: Path) -> None:
    build(tmp_path, [batch(0, 3)])
    watch = LogWatch([str(tmp_path)])
    watch.refresh()
    with counted_reads() as reads:
        watch.refresh()
    assert reads == ["list t-0", "walk t-0"]


def test_a_torn_last_batch_ends_the_log_before_it_until_it_is_whole(tmp_path: Path) -> None:
    _, directory = build(tmp_path, [batch(0, 3)])
    watch = LogWatch([str(tmp_path)])
    whole = batch(3, 2, size=500)
    for cut in (1, 12, 17, 60, 61, len(whole) - 1):
        os.truncate(directory / segment_file_name(0), len(batch(0, 3)))
        append(directory, whole[:cut])
        assert ends(watch) == {"t-0": 3}, cut
    append(directory, whole[-1:])
    assert ends(watch) == {"t-0": 5}


def test_a_torn_batch_whose_value_holds_a_batch_is_no_error_while_it_is_written(
    tmp_path: Path,
) -> None:
    _, directory = build(tmp_path, [batch(0, 3)])
    watch = LogWatch([str(tmp_path)])
    whole = v2_batch([RecordSpec(value=batch(50, 4) + bytes(500))], base_offset=3)
    append(directory, whole[:-100])
    assert ends(watch) == {"t-0": 3}


@pytest.mark.parametrize("before_end", [0, 1, 16, 17, 60, 61, 300])
def test_a_torn_batch_at_the_end_of_a_piece_of_the_file_ends_the_log(
    tmp_path: Path, before_end: int
) -> None:
    first = batch(0)
    rest = FIRST_READ_BYTES - before_end - len(first) - len(batch(1, size=100_000))
    filling = batch(1, size=100_000 + rest)
    assert len(first) + len(filling) == FIRST_READ_BYTES - before_end
    log = LogBuilder(tmp_path)
    directory = log.partition("t", 0, [SegmentSpec([first, filling], index=False)])
    torn = v2_batch([RecordSpec(value=batch(50, 4) + bytes(500))], base_offset=2)
    known = LogWatch([str(tmp_path)])
    assert ends(known) == {"t-0": 2}
    for cut in (1, 17, 61, len(torn) - 100):
        os.truncate(directory / segment_file_name(0), len(first) + len(filling))
        append(directory, torn[:cut])
        assert ends(known) == ends(LogWatch([str(tmp_path)])) == {"t-0": 2}, cut
    append(directory, torn[-100:])
    assert ends(known) == ends(LogWatch([str(tmp_path)])) == {"t-0": 3}


def test_zeros_of_a_preallocated_file_are_filled_batch_by_batch(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    directory = log.partition("t", 0, [SegmentSpec([batch(0, 3)], tail=bytes(100_000))])
    watch = LogWatch([str(tmp_path)])
    assert ends(watch) == {"t-0": 3}
    with open(directory / segment_file_name(0), "r+b") as file:
        file.seek(len(batch(0, 3)))
        file.write(batch(3, 2))
    assert ends(watch) == {"t-0": 5}


def test_a_rolled_segment_is_followed(tmp_path: Path) -> None:
    _, directory = build(tmp_path, [batch(0, 3)])
    watch = LogWatch([str(tmp_path)])
    watch.refresh()
    append(directory, batch(3, 2))
    append(directory, batch(5, 1), base_offset=5)
    assert ends(watch) == {"t-0": 6}
    append(directory, batch(6, 1), base_offset=6)
    assert ends(watch) == {"t-0": 7}


def test_an_empty_new_segment_keeps_the_end(tmp_path: Path) -> None:
    _, directory = build(tmp_path, [batch(0, 3)])
    watch = LogWatch([str(tmp_path)])
    watch.refresh()
    append(directory, b"", base_offset=3)
    assert ends(watch) == {"t-0": 3}


def test_partitions_appear_and_vanish(tmp_path: Path) -> None:
    log, directory = build(tmp_path, [batch(0, 3)])
    watch = LogWatch([str(tmp_path)])
    assert ends(watch) == {"t-0": 3}
    log.partition("a", 1, [[batch(0, 1)]])
    assert ends(watch) == {"a-1": 1, "t-0": 3}
    directory.rename(tmp_path / "t-0.0123456789abcdef0123456789abcdef-delete")
    assert ends(watch) == {"a-1": 1}
    assert list(watch._memories) == [str(tmp_path / "a-1")]
    remembered = [str(Path(path).relative_to(tmp_path)) for path, _ in watch._memo._entries]
    assert remembered
    assert not [path for path in remembered if path.startswith("t-0")]


def test_a_topic_made_anew_is_told_by_its_id_and_read_from_its_start(tmp_path: Path) -> None:
    log, directory = build(tmp_path, [batch(0, 3), batch(3, 50)])
    watch = LogWatch([str(tmp_path)])
    before = watch.refresh()[T0]
    shutil.rmtree(directory)
    log.partition("t", 0, [[batch(0, 2, size=3000)]], topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    after = watch.refresh()[T0]
    assert (before.log_end_offset, after.log_end_offset) == (53, 2)
    assert before.topic_id != after.topic_id == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_a_cut_log_that_has_grown_again_is_walked_anew(tmp_path: Path) -> None:
    _, directory = build(tmp_path, [batch(0, 3), batch(3, 3)])
    watch = LogWatch([str(tmp_path)])
    watch.refresh()
    os.truncate(directory / segment_file_name(0), len(batch(0, 3)))
    append(directory, batch(3, 1, size=1000))
    append(directory, batch(4, 1, size=1000))
    assert ends(watch) == {"t-0": 5}


def test_bad_bytes_at_the_end_are_an_error_or_skipped(tmp_path: Path) -> None:
    _, directory = build(tmp_path, [batch(0, 3)])
    append(directory, b"\xff" * 200)
    with pytest.raises(InvalidBatchError):
        LogWatch([str(tmp_path)]).refresh()
    assert ends(LogWatch([str(tmp_path)], skip_corrupt=True)) == {"t-0": 3}


def test_an_empty_log_directory_waits_for_partitions(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    watch = LogWatch([str(tmp_path)])
    assert watch.refresh() == {}
    log.partition("t", 0, [[batch(0, 1)]])
    assert ends(watch) == {"t-0": 1}


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "readme.txt").write_text("no log")
    with pytest.raises(EmptyLogDirectoryError):
        LogWatch([str(tmp_path)]).refresh()
    with pytest.raises(LogPathNotFoundError):
        LogWatch([str(tmp_path / "missing")]).refresh()


@pytest.mark.parametrize("path", ["t-0", "t-*", "t-0/00000000000000000000.log"])
def test_a_partition_directory_a_glob_and_a_file_are_watched(tmp_path: Path, path: str) -> None:
    _, directory = build(tmp_path, [batch(0, 3)])
    settle(tmp_path)
    watch = LogWatch([str(tmp_path / path)])
    assert ends(watch) == {"t-0": 3}
    append(directory, batch(3, 2))
    assert ends(watch) == {"t-0": 5}


def test_several_log_directories_are_one_log(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "d0").partition("t", 0, [[batch(0, 3)]])
    LogBuilder(tmp_path / "d1").partition("t", 1, [[batch(0, 4)]])
    assert ends(LogWatch([str(tmp_path / "d0"), str(tmp_path / "d1")])) == {"t-0": 3, "t-1": 4}


def test_of_two_replicas_the_one_with_the_higher_epoch_serves(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "d0").partition("t", 0, [[batch(0, 9)]], leader_epochs=[(0, 0)])
    LogBuilder(tmp_path / "d1").partition("t", 0, [[batch(0, 4)]], leader_epochs=[(3, 0)])
    assert ends(LogWatch([str(tmp_path / "d0"), str(tmp_path / "d1")])) == {"t-0": 4}


def test_the_last_stable_offset_follows_transactions_from_look_to_look(tmp_path: Path) -> None:
    _, directory = build(tmp_path, [batch(0, 2)])
    watch = LogWatch([str(tmp_path)])

    def stable() -> int:
        log = watch.refresh()[T0]
        fresh = LogManager.open(str(tmp_path)).topic_partitions[T0]
        assert log.last_stable_offset() == fresh.last_stable_offset()
        return log.last_stable_offset()

    assert stable() == 2
    append(directory, transactional(2, producer_id=7))
    assert stable() == 2
    append(directory, transactional(3, producer_id=8))
    append(directory, control_batch(COMMIT, base_offset=4, producer_id=7))
    assert stable() == 3
    append(directory, batch(5, 2))
    assert stable() == 3
    append(directory, control_batch(ABORT, base_offset=7, producer_id=8))
    assert stable() == 8


def test_the_log_start_offset_is_read_from_its_checkpoint(tmp_path: Path) -> None:
    log, _ = build(tmp_path, [batch(0, 3), batch(3, 3)])
    watch = LogWatch([str(tmp_path)])
    assert watch.refresh()[T0].log_start_offset == 0
    log.log_start_offsets({("t", 0): 4})
    assert watch.refresh()[T0].log_start_offset == 4


# Commits


def open_commit(log_directory: Path, *partitions: PartitionPlan, visible: bool = False) -> Path:
    """Leave a journal as a commit has it while its steps are taken."""
    journal = Journal(
        log_directory=str(log_directory),
        inode=log_directory.stat().st_ino,
        write_id="write",
        phase=CommitPhase.VISIBLE if visible else CommitPhase.DECIDED,
        participants=(Participant(directory_id=None, relative_path="."),),
        application=None,
        version=None,
        index_interval_bytes=4096,
        clean_shutdown_mark=None,
        staged_paths=(),
        partitions=partitions,
    )
    path = Path(journal_path(str(log_directory)))
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(journal.to_bytes())
    return path


def plan(log_directory: Path, partition: int, before: tuple[int, int] | None) -> PartitionPlan:
    return PartitionPlan(
        topic_partition=TopicPartition("t", partition),
        log_directory=str(log_directory),
        start_before=None if before is None else before[0],
        end_before=None if before is None else before[1],
        start_after=0,
        end_after=9,
        leader_epoch=0,
        leader_epochs=None,
        partition_metadata=None,
        segments=(),
        steps=(),
    )


def test_an_open_commit_is_seen_on_no_partition_until_it_is_visible_on_all(
    tmp_path: Path,
) -> None:
    log, directory = build(tmp_path, [batch(0, 3)])
    settle(tmp_path)
    watch = LogWatch([str(tmp_path)])
    assert ends(watch) == {"t-0": 3}
    plans = plan(tmp_path, 0, (0, 3)), plan(tmp_path, 1, None)
    journal = open_commit(tmp_path, *plans)
    append(directory, batch(3, 2))
    log.partition("t", 1, [[batch(0, 4)]])
    assert ends(watch) == {"t-0": 3}
    open_commit(tmp_path, *plans, visible=True)
    assert ends(watch) == {"t-0": 5, "t-1": 4}
    shutil.rmtree(journal.parent)
    assert ends(watch) == {"t-0": 5, "t-1": 4}


def test_a_commit_between_the_listings_of_two_directories_is_seen_on_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directories = [tmp_path / "d0", tmp_path / "d1"]
    partitions = [
        LogBuilder(path).partition("t", number, [[batch(0, 3)]])
        for number, path in enumerate(directories)
    ]
    watch = LogWatch(map(str, directories))
    assert ends(watch) == {"t-0": 3, "t-1": 3}
    opened = LogWatch._open
    commits: list[int] = []

    def commit_then_open(self: LogWatch, place: Any, state: Any) -> WatchedPartitionLog:
        log = opened(self, place, state)
        if place.topic_partition == T0 and not commits:
            _ = log.log_end_offset
            commits.append(1)
            for partition, path in zip(partitions, directories, strict=True):
                append(partition, batch(3, 2))
                versions = Path(path / VERSIONS_FILE_NAME)
                versions.write_bytes(Versions(counter=1).to_bytes())
        return log

    monkeypatch.setattr(LogWatch, "_open", commit_then_open)
    assert ends(watch) == {"t-0": 5, "t-1": 5}


def test_commits_to_partitions_that_are_not_chosen_make_no_look_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, _ = build(tmp_path, [batch(0, 3)])
    busy = log.partition("busy", 0, [[batch(0)]])
    settle(tmp_path)
    commits: list[str] = []

    def commit(path: str, storage: object) -> CommitState:
        commits.append(path)
        append(busy, batch(len(commits)))
        return CommitState(len(commits))

    monkeypatch.setattr(log_directory, "commit_state", commit)
    chosen = LogWatch([str(tmp_path)], choose=lambda found: {T0} & found.keys())
    with counted_reads() as reads:
        assert chosen.refresh()[T0].log_end_offset == 3
    assert len(commits) == 4
    assert reads.count("list t-0") == reads.count("walk t-0") == 1
    assert "walk busy-0" not in reads
    monkeypatch.setattr(log_watch, "LISTING_ATTEMPTS", 5)
    with pytest.raises(SegmentLogError, match="commits follow each other faster"):
        LogWatch([str(tmp_path)]).refresh()


def test_a_segment_that_a_look_missed_under_both_names_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = LogBuilder(tmp_path)
    directory = log.partition("t", 0, [[batch(0, 3)], [batch(3, 3)], [batch(6, 3)]])
    plain = directory / segment_file_name(3)
    plain.rename(f"{plain}.swap")
    settle(tmp_path)
    real, met = os.listdir, list[str]()

    def listdir(path: str) -> list[str]:
        names = real(path)
        if str(path) == str(directory) and not met:
            met.append(path)
            Path(f"{plain}.swap").rename(plain)
            return [name for name in names if not name.startswith(plain.name)]
        return names

    monkeypatch.setattr(os, "listdir", listdir)
    found = LogWatch([str(tmp_path)]).refresh()[T0]
    assert (met, found.base_offsets.tolist()) == ([str(directory)], [0, 3, 6])


# What a look costs


def test_a_look_at_ten_thousand_segments_that_did_not_change_costs_no_more_than_at_ten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def calls_of_a_look(segments_count: int) -> Counter[str]:
        path = tmp_path / str(segments_count)
        directory = LogBuilder(path).partition("t", 0, [[batch(0)]])
        for base_offset in range(1, segments_count):
            append(directory, batch(base_offset), base_offset=base_offset)
        settle(path)
        watch = LogWatch([str(path)])
        assert ends(watch) == {"t-0": segments_count}
        calls: Counter[str] = Counter()
        with monkeypatch.context() as patched:
            for name in ("stat", "lstat", "open", "scandir", "listdir", "preadv", "pread"):
                count_calls(patched, name, calls)
            assert ends(watch) == {"t-0": segments_count}
        return calls

    few = calls_of_a_look(10)
    assert few == calls_of_a_look(10_000)
    assert few["scandir"] == few["listdir"] == few["preadv"] == 0


def count_calls(patched: pytest.MonkeyPatch, name: str, calls: Counter[str]) -> None:
    real = getattr(os, name)

    def counted(*args: Any, **keywords: Any) -> Any:
        calls[name] += 1
        return real(*args, **keywords)

    patched.setattr(os, name, counted)


# Bytes


def sized_log(path: Path) -> WatchedPartitionLog:
    """Build three segments of ten batches each; a batch holds two records."""
    segments = [
        [batch(base, 2, size=400) for base in range(start, start + 20, 2)] for start in (0, 20, 40)
    ]
    LogBuilder(path).partition("t", 0, segments)
    return LogWatch([str(path)]).refresh()[T0]


def test_bytes_of_offsets_are_their_share_of_the_segments(tmp_path: Path) -> None:
    log = sized_log(tmp_path)
    size = len(batch(0, 2, size=400))
    assert log.estimate_bytes(0, 60).tolist() == [10 * size] * 3
    assert log.estimate_bytes(20, 40).tolist() == [10 * size]
    assert log.estimate_bytes(10, 44).tolist() == [5 * size, 10 * size, 2 * size]
    assert log.estimate_bytes(60, 60).tolist() == []


@pytest.mark.parametrize("start", [0, 1, 2, 19, 20, 37, 58])
def test_bytes_reach_as_far_as_whole_batches_do(tmp_path: Path, start: int) -> None:
    log = sized_log(tmp_path)
    size = len(batch(0, 2, size=400))
    first = start // 2
    for budget in (1, size - 1, size, size + 1, 7 * size, 10 * size, 11 * size + 3, 100 * size):
        batches = max(budget // size, 1)
        assert log.offset_after_bytes(start, budget, 60) == min(2 * (first + batches), 60)
        assert log.offset_after_bytes(start, budget, start + 1) == start + 1


def test_a_false_index_changes_no_budget(tmp_path: Path) -> None:
    false_index = b"".join(
        (i + 1).to_bytes(4, "big") + (7 + 999 * i).to_bytes(4, "big") for i in range(9)
    )
    batches = [batch(base, 2, size=400) for base in range(0, 40, 2)]
    LogBuilder(tmp_path).partition("t", 0, [SegmentSpec(batches, index=false_index)])
    log = LogWatch([str(tmp_path)]).refresh()[T0]
    size = len(batches[0])
    assert log.offset_after_bytes(4, 5 * size, 40) == 14


def test_timestamps_are_sought_from_an_offset_on(tmp_path: Path) -> None:
    batches = [batch(base, timestamp_ms=1000 * base) for base in range(6)]
    LogBuilder(tmp_path).partition("t", 0, [batches[:3], batches[3:]])
    log = LogWatch([str(tmp_path)]).refresh()[T0]
    assert log.first_offset_at(1500, 0) == 2
    assert log.first_offset_at(3500, 3) == 4
    assert log.first_offset_at(9000, 3) is None
