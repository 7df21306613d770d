"""Verification finds what is wrong, recovery mends it, and takes nothing away unasked."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.errors import CommitPendingError, CorruptRecordError, RecoveryError
from spark_segmentlog.log.directory.journal import Journal
from spark_segmentlog.log.directory.open_commit import read_open_commit
from spark_segmentlog.log.findings import FindingKind
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.reading import Storage
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.upkeep import recovery
from spark_segmentlog.log.upkeep.mender import Mender
from spark_segmentlog.log.upkeep.recovery import recover, reindex
from spark_segmentlog.log.upkeep.recovery_action import RecoveryAction, RecoveryKind
from spark_segmentlog.log.upkeep.swap import Replacement, find_replacement, finish_replacement
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.after_commit import storage_after
from spark_segmentlog.log.write.open_commits import finish_open_commits
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    offset_index_bytes,
    time_index_bytes,
    v2_batch,
)
from tests.support.broker_data import unpack
from tests.support.running import contents
from tests.support.scenarios import make_decided, make_scenario, read_rows

T0 = TopicPartition("t", 0)


NAME = "00000000000000000000"


def batches(count: int, *, base_offset: int = 0, value: bytes = b"v" * 500) -> list[bytes]:
    return [
        v2_batch(
            [RecordSpec(value=value, timestamp_ms=1000 + (offset * 7) % 10)],
            base_offset=base_offset + offset,
        )
        for offset in range(count)
    ]


def offsets(directory: Path) -> list[int]:
    return [offset for offset, _, _ in read_rows([str(directory)])[T0]]


def kinds(directory: Path) -> set[FindingKind]:
    return {finding.kind for finding in verify(str(directory))}


def three_segments(directory: Path) -> list[Path]:
    log = LogBuilder(directory)
    log.partition("t", 0, [batches(20), batches(20, base_offset=20), batches(20, base_offset=40)])
    return sorted((directory / "t-0").glob("*.log"))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize(
    "producer", ["kafka-4.3.1", "kafka-4.3.1-java-transactions", "kafka-2.8.2"]
)
@pytest.mark.parametrize("state", ["clean", "crashed"])
def test_nothing_is_wrong_with_what_brokers_wrote(
    producer: str, state: str, tmp_path: Path
) -> None:
    log = unpack(producer, state, tmp_path)
    assert [str(finding) for finding in verify(log.log_directories, deep=True)] == []


def test_well_formed_indexes_that_lie_are_found_and_made_anew(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    data = batches(40)
    size = len(data[0])
    lies: dict[str, dict[str, Any]] = {
        "between batches": {"index": (30).to_bytes(4, "big") + (size * 30 + 1).to_bytes(4, "big")},
        "below the batch": {"index": (29).to_bytes(4, "big") + (size * 30).to_bytes(4, "big")},
        "no batch ends": {"index": (99).to_bytes(4, "big") + (size * 30).to_bytes(4, "big")},
        "after the last batch": {"index": (39).to_bytes(4, "big") + (size * 40).to_bytes(4, "big")},
        "largest timestamp up to there": {
            "time_index": (1005).to_bytes(8, "big") + (30).to_bytes(4, "big")
        },
        "lies after": {"time_index": (1009).to_bytes(8, "big") + (90).to_bytes(4, "big")},
    }
    for message, files_of_index in lies.items():
        shutil.rmtree(directory, ignore_errors=True)
        LogBuilder(directory).partition("t", 0, [SegmentSpec(data, **files_of_index)])
        (finding,) = verify(str(directory))
        assert message in finding.detail
        assert not finding.is_harmless
        (action,) = recover(str(directory), index_interval_bytes=4096)
        assert (action.kind, action.is_done) == (RecoveryKind.REBUILD_INDEXES, True)
        assert kinds(directory) == set()
        assert (directory / "t-0" / f"{NAME}.index").read_bytes() == offset_index_bytes(data, 0)
        assert (directory / "t-0" / f"{NAME}.timeindex").read_bytes() == time_index_bytes(data, 0)


def test_an_unsorted_index_a_missing_one_and_one_without_its_end_are_found(tmp_path: Path) -> None:
    directory = tmp_path / "log"
    data = batches(40)
    entries = offset_index_bytes(data, 0)
    assert len(entries) >= 16
    swapped = entries[8:16] + entries[:8]
    for spec, kind in (
        (SegmentSpec(data, index=swapped), FindingKind.OFFSET_INDEX),
        (SegmentSpec(data, index=False), FindingKind.MISSING_INDEX),
        (SegmentSpec(data, time_index=False), FindingKind.MISSING_INDEX),
        (SegmentSpec(batches(2), final_time_entry=False), FindingKind.TIME_INDEX),
    ):
        shutil.rmtree(directory, ignore_errors=True)
        log = LogBuilder(directory)
        log.partition("t", 0, [spec])
        log.clean_shutdown()
        assert kinds(directory) == {kind}
        assert [action.kind for action in recover(str(directory), dry_run=True)] == [
            RecoveryKind.REBUILD_INDEXES
        ]
        assert kinds(directory) == {kind}
        recover(str(directory))
        assert kinds(directory) == set()


def test_zero_padded_indexes_and_older_brokers_entries_are_right(tmp_path: Path) -> None:
    data = batches(40)
    size = len(data[0])
    appended = (14).to_bytes(4, "big") + (size * 10).to_bytes(4, "big")
    LogBuilder(tmp_path).partition(
        "t", 0, [SegmentSpec(data, index=appended + bytes(800), index_size_bytes=1200)]
    )
    assert kinds(tmp_path) == set()


def test_a_time_index_entry_may_name_the_record_or_the_last_of_its_batch(tmp_path: Path) -> None:
    records = [RecordSpec(value=b"v", timestamp_ms=ms) for ms in (5, 9, 7)]
    data = [v2_batch(records, codec="lz4"), v2_batch(records[:1], base_offset=3)]
    for offset, is_right in ((1, True), (2, True), (4, False)):
        entry = (9).to_bytes(8, "big") + offset.to_bytes(4, "big")
        LogBuilder(tmp_path).partition("t", 0, [SegmentSpec(data, time_index=entry)])
        assert kinds(tmp_path) == (set() if is_right else {FindingKind.TIME_INDEX})


def test_zeros_of_a_preallocated_segment_are_cut_and_take_nothing_along(tmp_path: Path) -> None:
    first, second = batches(3), batches(3, base_offset=3)
    log = LogBuilder(tmp_path)
    directory = log.partition(
        "t",
        0,
        [SegmentSpec(first, tail=bytes(5000)), SegmentSpec(second, tail=bytes(1 << 20))],
    )
    # A broker that recovers would cut the first segment there, and delete the second.
    assert kinds(tmp_path) == {FindingKind.TORN_SEGMENT}
    told = recover(str(tmp_path))
    assert [(action.kind, action.is_done) for action in told] == [(RecoveryKind.CUT, False)] * 2
    assert offsets(tmp_path) == list(range(6))
    done = recover(str(tmp_path), truncate=True)
    assert all(action.is_done for action in done)
    assert {action.kind for action in done} == {RecoveryKind.CUT, RecoveryKind.REBUILD_INDEXES}
    logs = [path.read_bytes() for path in sorted(directory.glob("*.log"))]
    assert logs == [b"".join(first), b"".join(second)]
    assert offsets(tmp_path) == list(range(6))
    assert kinds(tmp_path) == set()


def test_segments_that_a_cut_takes_along_are_named_before(tmp_path: Path) -> None:
    first, second, third = three_segments(tmp_path)
    for bad in (first.read_bytes()[:-10], first.read_bytes() + b"\xff" * 50):
        first.write_bytes(bad)
        actions = recover(str(tmp_path), dry_run=True)
        (told,) = [action for action in actions if action.kind is RecoveryKind.DELETE_SEGMENT]
        assert told.path == str(second)
        assert told.detail.startswith(f"2 segments after bad bytes, up to {third.name}")


def test_bad_bytes_are_only_reported_unless_told_otherwise(tmp_path: Path) -> None:
    first, second, third = three_segments(tmp_path)
    flip(second, len(second.read_bytes()) // 2)
    before = [path.read_bytes() for path in (first, second, third)]
    assert kinds(tmp_path) == {FindingKind.CORRUPT_BATCH}
    ways: list[dict[str, Any]] = [{}, {"truncate": True}, {"dry_run": True, "delete_later": True}]
    for options in ways:
        actions = recover(str(tmp_path), **options)
        cut = next(action for action in actions if action.kind is RecoveryKind.CUT)
        assert not cut.is_done
        assert "good batches after them included" in cut.detail
        assert [path.read_bytes() for path in (first, second, third)] == before
    actions = recover(str(tmp_path), truncate=True, delete_later=True)
    assert all(action.is_done for action in actions)
    assert offsets(tmp_path) == list(range(30))
    assert not third.exists()
    assert third.with_name(third.name + ".deleted").exists()
    assert kinds(tmp_path) == set()


@pytest.mark.parametrize("mend", [recover, reindex])
def test_a_segment_that_keeps_bad_bytes_keeps_its_indexes(
    tmp_path: Path, mend: Callable[[str], list[RecoveryAction]]
) -> None:
    _, second, _ = three_segments(tmp_path)
    flip(second, len(second.read_bytes()) // 2)
    indexes = [second.with_suffix(suffix) for suffix in (".index", ".timeindex")]
    before = [path.read_bytes() for path in indexes]
    mend(str(tmp_path))
    assert [path.read_bytes() for path in indexes] == before
    indexes[0].unlink()
    actions = [action for action in mend(str(tmp_path)) if action.path == str(second)]
    rebuilt = next(action for action in actions if action.kind is RecoveryKind.REBUILD_INDEXES)
    assert not rebuilt.is_done
    assert "bad bytes are among them" in rebuilt.detail
    assert not indexes[0].exists()


def test_a_compaction_that_was_cut_short_is_ended(tmp_path: Path) -> None:
    first, _, _ = three_segments(tmp_path)
    kept = batches(7)
    first.with_name(first.name + ".swap").write_bytes(b"".join(kept))
    actions = recover(str(tmp_path))
    assert actions[0].kind is RecoveryKind.END_COMPACTION
    assert first.read_bytes() == b"".join(kept)
    assert not first.with_name(first.name + ".swap").exists()
    assert kinds(tmp_path) == set()


def put(folder: Path, base_offset: int, data: list[bytes], suffix: str) -> None:
    """Leave a segment that a cleaner made, as it stands before it has its name."""
    made = {
        ".log": b"".join(data),
        ".index": offset_index_bytes(data, base_offset),
        ".timeindex": time_index_bytes(data, base_offset),
    }
    for kind, content in made.items():
        (folder / f"{base_offset:020d}{kind}{suffix}").write_bytes(content)


def only_cleaned(folder: Path) -> None:
    put(folder, 0, batches(10), ".cleaned")


def merged_beside_plain(folder: Path) -> None:
    put(folder, 0, [*batches(7), *batches(20, base_offset=20)], ".swap")


def merged_beside_a_rest(folder: Path) -> None:
    merged_beside_plain(folder)
    for path in folder.glob(f"{0:020d}.*[gx]"):
        path.rename(f"{path}.deleted")


def split_beside_plain(folder: Path) -> None:
    put(folder, 0, batches(10), ".swap")
    put(folder, 10, batches(10, base_offset=10), ".swap")


def swap_alone(folder: Path) -> None:
    for path in folder.glob(f"{20:020d}.*"):
        path.rename(f"{path}.swap")


def swap_without_index(folder: Path) -> None:
    swap_alone(folder)
    (folder / f"{20:020d}.index.swap").unlink()


def swap_with_a_lie(folder: Path) -> None:
    merged_beside_plain(folder)
    (folder / f"{0:020d}.index.swap").write_bytes(bytes([0, 0, 0, 9, 0, 0, 0, 9]))


def swap_with_a_torn_end(folder: Path) -> None:
    merged_beside_plain(folder)
    path = folder / f"{0:020d}.log.swap"
    path.write_bytes(path.read_bytes()[:-10])


def swap_with_a_bad_batch(folder: Path) -> None:
    merged_beside_plain(folder)
    flip(folder / f"{0:020d}.log.swap", 700)


def swap_of_indexes(folder: Path) -> None:
    for kind in (".index", ".timeindex"):
        (folder / f"{20:020d}{kind}.swap").write_bytes(b"")


def void_swap(folder: Path) -> None:
    put(folder, 0, batches(10), ".cleaned")
    put(folder, 10, batches(10, base_offset=10), ".swap")


def nothing_else(folder: Path) -> None:
    pass


def a_bad_batch(folder: Path) -> None:
    flip(folder / f"{40:020d}.log", 700)


def a_bad_batch_that_is_replaced(folder: Path) -> None:
    for path in folder.glob(f"{0:020d}.log"):
        flip(path, 700)


def a_torn_end(folder: Path) -> None:
    path = folder / f"{40:020d}.log"
    path.write_bytes(path.read_bytes()[:-10])


def an_index_that_is_missing(folder: Path) -> None:
    (folder / f"{40:020d}.timeindex").unlink()


CUT_SHORT = [
    only_cleaned,
    merged_beside_plain,
    merged_beside_a_rest,
    split_beside_plain,
    swap_alone,
    swap_without_index,
    swap_with_a_lie,
    swap_with_a_torn_end,
    swap_with_a_bad_batch,
    swap_of_indexes,
    void_swap,
]
BESIDES = [
    nothing_else,
    a_bad_batch,
    a_bad_batch_that_is_replaced,
    a_torn_end,
    an_index_that_is_missing,
]
WAYS: dict[str, dict[str, Any]] = {
    "keep": {"truncate": True},
    "delete": {"truncate": True, "delete_later": True},
    "cut-out": {"truncate": True, "cut_bad_batches": True},
}


@pytest.mark.parametrize("cut_short", CUT_SHORT)
@pytest.mark.parametrize("besides", BESIDES)
@pytest.mark.parametrize("way", WAYS)
def test_a_compaction_that_was_cut_short_is_told_as_it_is_ended(
    tmp_path: Path,
    cut_short: Callable[[Path], None],
    besides: Callable[[Path], None],
    way: str,
) -> None:
    three_segments(tmp_path)
    cut_short(tmp_path / "t-0")
    besides(tmp_path / "t-0")
    before = contents(tmp_path)
    told = recover(str(tmp_path), dry_run=True, **WAYS[way])
    assert contents(tmp_path) == before
    done = recover(str(tmp_path), **WAYS[way])
    assert [str(action) for action in told] == [str(action) for action in done]
    assert told == [replace(action, is_done=False) for action in done]
    assert told[0].kind is RecoveryKind.END_COMPACTION
    assert done[0].is_done
    left = [str(action) for action in done if action.is_left]
    assert [str(action) for action in recover(str(tmp_path), dry_run=True, **WAYS[way])] == left


@pytest.mark.parametrize("dry_run", [True, False], ids=["told", "done"])
def test_a_replacement_whose_end_is_not_known_is_refused(tmp_path: Path, dry_run: bool) -> None:
    three_segments(tmp_path)
    merged_beside_plain(tmp_path / "t-0")
    (tmp_path / "t-0" / f"{0:020d}.index.swap").unlink()
    magic_position = len(batches(1)[0]) + 16
    flip(tmp_path / "t-0" / f"{0:020d}.log.swap", magic_position)
    (tmp_path / "t-0" / f"{50:020d}.log.cleaned").touch()
    before = contents(tmp_path / "t-0")
    with pytest.raises(CorruptRecordError, match=r"\.log\.swap"):
        recover(str(tmp_path), dry_run=dry_run)
    assert contents(tmp_path / "t-0") == before


def test_where_the_lock_cannot_be_told_a_compaction_may_be_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_segments(tmp_path)
    merged_beside_plain(tmp_path / "t-0")
    for answer in (True, None):
        monkeypatch.setattr(recovery, "is_locked", lambda _, answer=answer: answer)
        assert recover(str(tmp_path), dry_run=True) == []


def test_a_compaction_that_ends_meanwhile_was_not_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock is free again once a cleaner, whose files were seen, is done."""
    three_segments(tmp_path)
    merged_beside_plain(tmp_path / "t-0")
    seen: list[str] = []

    def find(directory: str, storage: Storage) -> Replacement | None:
        found = find_replacement(directory, storage)
        if not seen:
            finish_replacement(directory)
        seen.append(directory)
        return found

    monkeypatch.setattr(recovery, "find_replacement", find)
    assert recover(str(tmp_path), dry_run=True) == []
    assert seen[1:]


def test_a_torn_tail_is_cut_when_told_to(tmp_path: Path) -> None:
    first, _, third = three_segments(tmp_path)
    whole = third.read_bytes()
    third.write_bytes(whole[:-10])
    assert FindingKind.TORN_TAIL in kinds(tmp_path)
    (report, *_) = recover(str(tmp_path))
    assert (report.kind, report.is_done) == (RecoveryKind.CUT, False)
    (cut, *_) = recover(str(tmp_path), truncate=True)
    assert (cut.kind, cut.is_done) == (RecoveryKind.CUT, True)
    assert offsets(tmp_path) == list(range(59))
    assert kinds(tmp_path) == set()
    assert first.exists()


def test_a_segment_beyond_31_bits_and_offsets_out_of_order_are_found(tmp_path: Path) -> None:
    early = RecordSpec(timestamp_ms=1000)
    far = [v2_batch([early], base_offset=base) for base in (0, 3_000_000_000, 3_000_000_001)]
    LogBuilder(tmp_path).partition("t", 0, [SegmentSpec(far, index=False, time_index=False)])
    assert FindingKind.OFFSET_ORDER in kinds(tmp_path)
    back = [*batches(3, base_offset=5), *batches(1)]
    LogBuilder(tmp_path / "back").partition("t", 0, [SegmentSpec(back, base_offset=0)])
    assert kinds(tmp_path / "back") & {FindingKind.OFFSET_ORDER, FindingKind.CORRUPT_BATCH}


def test_a_bad_record_in_a_good_batch_is_found_by_a_deep_look(tmp_path: Path) -> None:
    data = v2_batch([RecordSpec(value=b"v")] * 3, count=5, last_offset_delta=6)
    LogBuilder(tmp_path).partition("t", 0, [[data]])
    assert kinds(tmp_path) == set()
    assert {finding.kind for finding in verify(str(tmp_path), deep=True)} == {
        FindingKind.CORRUPT_BATCH
    }


def test_an_open_commit_is_found_and_ended(tmp_path: Path) -> None:
    scenario = make_scenario(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "copy_range", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "x")))
        with pytest.raises(CommitPendingError):
            scenario.commit()
    before = scenario.rows()
    found = {finding.kind for finding in verify(scenario.directories)}
    assert {FindingKind.OPEN_COMMIT, FindingKind.STAGED_FILE} <= found
    planned = recover(scenario.directories[1:], dry_run=True)
    assert [(action.kind, action.is_done, action.path) for action in planned] == [
        (RecoveryKind.END_COMMIT, False, directory) for directory in scenario.directories
    ]
    assert scenario.rows() == before
    ended = recover(scenario.directories[1:])
    assert {action.kind for action in ended} == {RecoveryKind.END_COMMIT}
    assert scenario.rows() != before
    assert list(verify(scenario.directories)) == []


def test_a_commit_that_cannot_be_ended_is_refused_in_a_dry_run_too(tmp_path: Path) -> None:
    scenario = make_decided(tmp_path)
    (changed, *_) = Path(scenario.directories[1]).glob("old-0/*.log")
    changed.write_bytes(b"")
    before = contents(tmp_path)
    errors = []
    for dry_run in (True, False):
        with pytest.raises(RecoveryError) as caught:
            recover(scenario.directories, dry_run=dry_run)
        errors.append(str(caught.value))
    assert errors[0] == errors[1]
    after = contents(tmp_path)
    assert {path: after[path] for path in before} == before


def a_missing_index(directories: list[str]) -> Path:
    """Take an index away from a partition that the commit writes."""
    (path, *_) = Path(directories[1]).glob("old-0/*.index")
    path.unlink()
    return path


def test_where_somebody_has_the_lock_an_open_commit_is_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = make_decided(tmp_path)
    a_missing_index(scenario.directories)
    other = LogBuilder(scenario.directories[1]).partition("other", 0, [batches(3)])
    (other / f"{NAME}.index").unlink()
    for answer in (True, None):
        monkeypatch.setattr(recovery, "is_locked", lambda _, answer=answer: answer)
        (told,) = recover(scenario.directories, dry_run=True)
        assert (told.kind, told.path) == (
            RecoveryKind.REBUILD_INDEXES,
            str(other / f"{NAME}.log"),
        )


def test_a_commit_that_is_ended_meanwhile_was_not_cut_short(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody ends it while the files that it would leave are looked at."""
    scenario = make_decided(tmp_path)
    index = a_missing_index(scenario.directories)
    looks: list[Storage] = []

    def look(journals: Iterable[Journal]) -> Storage:
        storage = storage_after(journals)
        finish_open_commits(scenario.directories)
        index.unlink()
        looks.append(storage)
        return storage

    monkeypatch.setattr(recovery, "storage_after", look)
    (told,) = recover(scenario.directories, dry_run=True)
    assert (told.kind, told.path) == (
        RecoveryKind.REBUILD_INDEXES,
        str(index.with_suffix(".log")),
    )
    assert len(looks) == 1


def between_looks(monkeypatch: pytest.MonkeyPatch, change: Callable[[PartitionLog], None]) -> None:
    """Have something done after each look at a partition, before it is known to have been done."""
    mend = Mender.mend

    def look(mender: Mender, log: PartitionLog) -> Iterator[RecoveryAction]:
        yield from mend(mender, log)
        change(log)

    monkeypatch.setattr(Mender, "mend", look)


def test_nothing_is_told_of_a_segment_while_it_grows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, _, last = three_segments(tmp_path)
    for path in (first, last):
        path.with_suffix(".index").unlink()

    def grow(log: PartitionLog) -> None:
        (batch,) = batches(1, base_offset=log.find_next_offset())
        last.write_bytes(last.read_bytes() + batch)

    with pytest.MonkeyPatch.context() as patch:
        between_looks(patch, grow)
        assert [action.path for action in recover(str(tmp_path), dry_run=True)] == [str(first)]
    told = [action.path for action in recover(str(tmp_path), dry_run=True)]
    assert told == [str(first), str(last)]


def test_nothing_is_told_of_a_partition_that_a_commit_begins_to_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = make_scenario(tmp_path)
    a_missing_index(scenario.directories)
    (told,) = recover(scenario.directories, dry_run=True)
    assert told.kind is RecoveryKind.REBUILD_INDEXES

    def commit(log: PartitionLog) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(files, "copy_range", lambda *_, **__: (_ for _ in ()).throw(OSError(5)))
            with suppress(CommitPendingError):
                scenario.commit()

    between_looks(monkeypatch, commit)
    monkeypatch.setattr(recovery, "is_locked", lambda _: True)
    assert recover(scenario.directories, dry_run=True) == []
    assert read_open_commit(scenario.directories[1]) is not None


def test_an_empty_log_directory_has_nothing_to_recover(tmp_path: Path) -> None:
    assert recover(str(tmp_path)) == []
    assert list(verify(str(tmp_path))) == []
