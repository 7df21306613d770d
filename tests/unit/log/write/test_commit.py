"""Staged batches become part of their logs: where they go, what is refused, who sees them when."""

from __future__ import annotations

import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from spark_segmentlog.errors import (
    CommitPendingError,
    LogLockedError,
    NotALogDirectoryError,
    StagingError,
    UnknownTopicOrPartitionError,
    UnsafeTargetError,
)
from spark_segmentlog.log.directory.commit_steps import AdoptStep, CopyStep
from spark_segmentlog.log.directory.journal import CommitPhase, Journal, journal_path
from spark_segmentlog.log.directory.open_commit import CommitState, read_commit_state
from spark_segmentlog.log.directory.versions import Versions, read_versions
from spark_segmentlog.log.formats.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    format_offset_checkpoint,
    parse_leader_epochs,
    parse_offset_checkpoint,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import OffsetRange, TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.append_state import absent_append_state
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.open_commits import discard_write, locked_for_writing
from spark_segmentlog.log.write.plan import StagedSpan, plan_partition
from spark_segmentlog.log.write.prepare import CommitRequest
from spark_segmentlog.log.write.staged_file import StagedExtent
from spark_segmentlog.log.write.staged_leftovers import list_staged
from spark_segmentlog.log.write.targets import read_target_layout
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.broker_data import unpack
from tests.support.noting import note_calls
from tests.support.scenarios import MARK, START_MS, Writing, make_scenario, read_rows, stage

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def directory(tmp_path: Path) -> str:
    path = tmp_path / "log"
    path.mkdir()
    return str(path)


def commit(directory: str, counts: dict[TopicPartition, int], **settings: Any) -> CommitRequest:
    request = stage([directory], [Writing(counts)], **settings)
    commit_staged_batches(request)
    return request


def keys(directory: str, topic_partition: TopicPartition) -> list[bytes | None]:
    return [key for _, key, _ in read_rows([directory])[topic_partition]]


def segment_names(directory: str, topic_partition: TopicPartition) -> list[str]:
    return sorted(path.name for path in (Path(directory) / str(topic_partition)).glob("*.log"))


def test_rows_are_there_in_the_order_of_tasks_with_dense_offsets(directory: str) -> None:
    request = stage([directory], [Writing({T0: 30}), Writing({T0: 5, T1: 7})])
    shuffled = replace(request, staged=request.staged[::-1])
    result = commit_staged_batches(shuffled)
    assert result.offset_ranges == (OffsetRange(T0, 0, 35), OffsetRange(T1, 0, 7))
    found = read_rows([directory])[T0]
    assert [offset for offset, _, _ in found] == list(range(35))
    expected = [f"t-0/0#{row}".encode() for row in range(30)]
    assert keys(directory, T0) == expected + [f"t-0/1#{row}".encode() for row in range(5)]
    assert list(verify(directory)) == []


def test_a_new_topic_has_all_its_partitions_with_one_topic_id(directory: str) -> None:
    commit(directory, {TopicPartition("t", 2): 1}, new_partition_count=4)
    folders = [Path(directory) / f"t-{partition}" for partition in range(4)]
    ids = {(folder / "partition.metadata").read_text() for folder in folders}
    assert len(ids) == 1
    for folder in folders:
        epochs = parse_leader_epochs((folder / "leader-epoch-checkpoint").read_text())
        assert epochs is not None
        assert [(entry.epoch, entry.start_offset) for entry in epochs] == [(0, 0)]
        assert (folder / "00000000000000000000.log").exists()
    assert list(verify(directory)) == []


def test_a_large_staged_file_becomes_a_segment_without_a_copy(
    directory: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = SegmentConfig(segment_bytes=128 * 1024)
    tasks = [Writing({T0: 1200}) for _ in range(8)]
    request = stage(
        [directory], tasks, config=config, new_partition_count=1, batch_size_bytes=16 * 1024
    )
    inodes = {os.stat(file.path).st_ino for write in request.staged for file in write.files}
    assert len(inodes) == 8

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("bytes were copied")

    written: list[int] = []
    write_all = files.write_all

    def note(descriptor: int, data: bytes, position: int) -> None:
        if os.readlink(f"/proc/self/fd/{descriptor}").endswith(".staged"):
            written.append(len(data))
        write_all(descriptor, data, position)

    monkeypatch.setattr(files, "copy_range", refuse)
    monkeypatch.setattr(files, "write_all", note)
    commit_staged_batches(request)
    logs = list((Path(directory) / "t-0").glob("*.log"))
    assert {path.stat().st_ino for path in logs} == inodes
    batches = sum(file.batch_count for write in request.staged for file in write.files)
    assert written == [16] * batches
    assert len(read_rows([directory])[T0]) == 9600
    assert list(verify(directory, deep=True)) == []


def test_the_first_file_of_a_new_partition_becomes_its_segment_and_what_follows_is_copied_behind(
    directory: str,
) -> None:
    tasks = [Writing({T0: 30}), Writing({T0: 20})]
    config = SegmentConfig()
    request = stage([directory], tasks, config=config, new_partition_count=1)
    first, _ = (os.stat(write.files[0].path) for write in request.staged)
    commit_staged_batches(request)
    assert segment_names(directory, T0) == [f"{0:020d}.log"]
    segment = os.stat(Path(directory) / "t-0" / f"{0:020d}.log")
    assert (segment.st_ino, segment.st_nlink) == (first.st_ino, 1)
    commit(directory, {T0: 5}, config=config)
    assert segment_names(directory, T0) == [f"{0:020d}.log"]
    assert len(keys(directory, T0)) == 55
    assert list(verify(directory, deep=True)) == []


@pytest.mark.parametrize(
    ("segment_mib", "staged_mib", "is_renamed"),
    [(1024, 32, True), (1024, 31, False), (64, 16, True), (64, 15, False)],
)
def test_a_file_behind_a_segment_is_renamed_from_a_size_on(
    segment_mib: int, staged_mib: int, is_renamed: bool
) -> None:
    extent = StagedExtent(
        partition_index=0,
        size_bytes=staged_mib << 20,
        batch_count=1,
        offset_count=10,
        first_timestamp=START_MS,
        largest_timestamp=START_MS,
    )
    placed = [
        StagedSpan(
            extent=extent,
            staged_path=f"/logs/{number}",
            position=0,
            inode=number,
            first_header=bytes(61),
            header_checksum=0,
            is_whole_file=True,
        )
        for number in range(2)
    ]
    planned = plan_partition(
        absent_append_state("/logs", T0),
        placed,
        config=SegmentConfig(segment_bytes=segment_mib << 20),
        exists=False,
        overwrite=False,
        partition_metadata=None,
        now_ms=START_MS,
    )
    assert planned.base_offsets == (0, 10)
    kinds = [AdoptStep, AdoptStep if is_renamed else CopyStep]
    assert [type(step) for step in planned.plan.steps] == kinds


def test_small_extents_fill_segments_and_roll_where_they_are_full(directory: str) -> None:
    config = SegmentConfig(segment_bytes=3000, index_interval_bytes=100)
    for number in range(12):
        commit(directory, {T0: 10}, config=config, label=f"{number}:", new_partition_count=1)
    sizes = [
        os.path.getsize(Path(directory) / "t-0" / name) for name in segment_names(directory, T0)
    ]
    assert len(sizes) > 2
    assert max(sizes) <= 3000
    assert len(keys(directory, T0)) == 120
    assert list(verify(directory)) == []


def test_a_segment_that_is_too_old_is_rolled(directory: str) -> None:
    config = SegmentConfig(segment_ms=20)
    commit(directory, {T0: 7}, config=config)
    assert len(segment_names(directory, T0)) == 2
    commit(directory, {T0: 1}, config=config)
    assert len(segment_names(directory, T0)) == 2
    assert list(verify(directory)) == []


def test_an_offset_that_an_index_cannot_say_rolls(directory: str) -> None:
    near = 2**31 - 5
    first = [v2_batch([RecordSpec(timestamp_ms=START_MS)], base_offset=it) for it in (0, near)]
    LogBuilder(directory).partition("t", 0, [first])
    for _ in range(3):
        commit(directory, {T0: 3}, config=SegmentConfig())
    assert segment_names(directory, T0) == [f"{base:020}.log" for base in (0, 2**31 - 1)]
    found = [offset for offset, _, _ in read_rows([directory])[T0]]
    assert found == [0, *range(near, near + 10)]
    assert list(verify(directory)) == []


def test_a_version_that_is_committed_is_skipped_whole(directory: str) -> None:
    commit(directory, {T0: 3}, application="app", version=5)
    for version in (5, 4):
        request = stage([directory], [Writing({T0: 3, T1: 1})], application="app", version=version)
        assert commit_staged_batches(request).is_skipped
        assert list(list_staged(directory)) == []
    commit(directory, {T0: 2}, application="other", version=1)
    commit(directory, {T0: 1}, application="app", version=6)
    assert len(keys(directory, T0)) == 6
    versions = read_versions(directory)
    assert versions.counter == 3
    assert {name: entry.version for name, entry in versions.applications.items()} == {
        "app": 6,
        "other": 1,
    }


def test_a_version_without_rows_is_committed_too(directory: str) -> None:
    request = stage([directory], [], application="app", version=1)
    assert not commit_staged_batches(request).is_skipped
    assert commit_staged_batches(request).is_skipped
    assert not commit_staged_batches(stage([directory], [])).is_skipped
    assert read_versions(directory).counter == 1


def test_overwrite_moves_the_log_start_and_never_restarts_offsets(directory: str) -> None:
    other = TopicPartition("other", 0)
    commit(directory, {T0: 5, T1: 4, other: 3})
    commit(directory, {T0: 2}, overwrite=True, label="new ")
    rows = read_rows([directory])
    assert [offset for offset, _, _ in rows[T0]] == [5, 6]
    assert rows[T1] == []
    assert len(rows[other]) == 3
    text = (Path(directory) / "log-start-offset-checkpoint").read_text()
    assert parse_offset_checkpoint(text) == {T0: 5, T1: 4}
    commit_staged_batches(stage([directory], [], overwrite=True, topics=("t",)))
    assert read_rows([directory])[T0] == []
    commit(directory, {T1: 1})
    assert [offset for offset, _, _ in read_rows([directory])[T1]] == [4]
    assert list(verify(directory)) == []


def test_high_watermarks_rise_with_the_end_where_a_broker_keeps_them(directory: str) -> None:
    commit(directory, {T0: 3})
    checkpoint = Path(directory) / HIGH_WATERMARK_CHECKPOINT
    assert not checkpoint.exists()
    other = TopicPartition("other", 7)
    checkpoint.write_text(format_offset_checkpoint({T0: 2, other: 5}).decode())
    commit(directory, {T0: 4, T1: 1})
    assert parse_offset_checkpoint(checkpoint.read_text()) == {T0: 7, T1: 1, other: 5}


def test_overwrite_keeps_other_log_start_offsets(directory: str) -> None:
    log = LogBuilder(directory)
    batches = [v2_batch([RecordSpec(value=b"x")] * 4)]
    log.partition("t", 0, [batches])
    log.partition("trimmed", 0, [batches])
    log.log_start_offsets({("trimmed", 0): 2})
    commit(directory, {T0: 1}, overwrite=True)
    text = (Path(directory) / "log-start-offset-checkpoint").read_text()
    assert parse_offset_checkpoint(text) == {TopicPartition("trimmed", 0): 2, T0: 4}


def test_the_last_leader_epoch_is_used_and_never_another(directory: str) -> None:
    log = LogBuilder(directory)
    log.partition("t", 0, [[v2_batch([RecordSpec(value=b"x")])]], leader_epochs=[(0, 0), (7, 1)])
    log.partition("t", 1, [[v2_batch([RecordSpec(value=b"x")] * 3)]], leader_epochs=[])
    before = (Path(directory) / "t-0" / "leader-epoch-checkpoint").read_bytes()
    commit(directory, {T0: 1, T1: 1})
    assert (Path(directory) / "t-0" / "leader-epoch-checkpoint").read_bytes() == before
    assert (Path(directory) / "t-1" / "leader-epoch-checkpoint").read_text() == "0\n1\n0 0\n"
    data = (Path(directory) / "t-0" / "00000000000000000000.log").read_bytes()
    last = data[len(v2_batch([RecordSpec(value=b"x")])) :]
    assert int.from_bytes(last[:8], "big") == 1
    assert int.from_bytes(last[12:16], "big") == 7


def test_the_clean_shutdown_mark_comes_back_with_the_same_bytes(directory: str) -> None:
    mark = Path(directory) / ".kafka_cleanshutdown"
    mark.write_bytes(MARK)
    commit(directory, {T0: 5})
    assert mark.read_bytes() == MARK


@pytest.mark.parametrize("name", ["clean", "crashed"])
def test_a_brokers_directories_are_appended_to(name: str, tmp_path: Path) -> None:
    directories = list(unpack("kafka-4.3.1", name, tmp_path).log_directories)
    orders = [TopicPartition("orders", partition) for partition in range(3)]
    before = read_rows(directories)
    request = stage(directories, [Writing(dict.fromkeys(orders, 10))], config=SegmentConfig())
    commit_staged_batches(request)
    after = read_rows(directories)
    for topic_partition, rows in before.items():
        assert after[topic_partition][: len(rows)] == rows
        added = after[topic_partition][len(rows) :]
        assert len(added) == (10 if topic_partition in orders else 0)
        if added and rows:
            assert added[0][0] == rows[-1][0] + 1
    assert [finding for finding in verify(directories) if not finding.is_harmless] == []


def test_a_torn_tail_of_a_crash_is_cut_off_by_the_commit(directory: str) -> None:
    commit(directory, {T0: 5})
    path = Path(directory) / "t-0" / "00000000000000000000.log"
    whole = path.read_bytes()
    for tail in (whole[:70], bytes(5000)):
        path.write_bytes(path.read_bytes() + tail)
        commit(directory, {T0: 1}, label="next ")
    assert len(keys(directory, T0)) == 7
    assert list(verify(directory)) == []


def test_bad_bytes_before_good_ones_are_not_built_upon(directory: str) -> None:
    log = LogBuilder(directory)
    batches = [v2_batch([RecordSpec(value=b"x" * 50)], base_offset=offset) for offset in range(4)]
    batches[1] = batches[1][:-1] + b"\xff"
    log.partition("t", 0, [batches])
    with pytest.raises(Exception, match="segmentlog recover"):
        commit(directory, {T0: 1})
    assert not Path(journal_path(directory)).exists()


def test_staged_files_that_differ_from_their_report_stop_the_commit(directory: str) -> None:
    request = stage([directory], [Writing({T0: 50})])
    path = Path(request.staged[0].files[0].path)
    whole = path.read_bytes()
    flipped = bytearray(whole)
    flipped[20] ^= 1
    for data, message in (
        (whole[:-1], "bytes, its task reported"),
        (bytes(flipped), "checksum over the batch headers"),
        (bytes(len(whole)), "no record batch"),
        (None, "missing"),
    ):
        if data is None:
            path.unlink()
        else:
            path.write_bytes(data)
        with pytest.raises(StagingError, match=message):
            commit_staged_batches(request)
    assert set(os.listdir(directory)) == {".lock", ".segmentlog-writer"}


def test_topics_that_must_not_be_written_are_refused(directory: str, tmp_path: Path) -> None:
    for topic in (*INTERNAL_TOPICS, "a/b", ""):
        with pytest.raises(UnsafeTargetError):
            stage([directory], [Writing({TopicPartition(topic, 0): 1})]) and commit_staged_batches(
                stage([directory], [Writing({TopicPartition(topic, 0): 1})])
            )
    commit(directory, {T0: 1})
    with pytest.raises(UnknownTopicOrPartitionError, match="t-9"):
        commit(directory, {TopicPartition("t", 9): 1})
    with pytest.raises(NotALogDirectoryError, match="partition directory"):
        read_target_layout([os.path.join(directory, "t-0")])


def test_a_clusters_directory_takes_its_own_topics_with_one_replica(directory: str) -> None:
    LogBuilder(directory).meta_properties()
    with pytest.raises(UnsafeTargetError, match="__cluster_metadata-0"):
        commit(directory, {T0: 1})
    assert os.listdir(directory) == ["meta.properties"]


def test_a_locked_directory_changes_nothing(directory: str) -> None:
    request = stage([directory], [Writing({T0: 5})], label="x")
    before = sorted(os.listdir(directory))
    with locked_for_writing([directory]), pytest.raises(LogLockedError):
        commit_staged_batches(replace(request, lock_timeout_ms=1))
    assert set(os.listdir(directory)) - set(before) == {".lock", ".segmentlog-writer"}
    assert not commit_staged_batches(request).is_skipped


def test_a_topic_made_meanwhile_elsewhere_is_copied_there(tmp_path: Path) -> None:
    directories = [str(tmp_path / name) for name in ("a", "b")]
    for path in directories:
        os.mkdir(path)
    config = SegmentConfig(segment_bytes=4000)
    request = stage(directories, [Writing({T0: 60})], config=config, new_partition_count=1)
    (home,) = {os.path.dirname(file.path) for file in request.staged[0].files}
    elsewhere = next(path for path in directories if path != home)
    commit_staged_batches(stage([elsewhere], [Writing({T0: 3})], new_partition_count=1))
    commit_staged_batches(request)
    assert os.listdir(home) != []
    assert len(read_rows([elsewhere])[T0]) == 63
    assert list(verify(directories)) == []


def test_readers_beside_200_commits_see_whole_ones_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    directories = [str(tmp_path / name) for name in ("a", "b")]
    for path in directories:
        os.mkdir(path)
    partitions = [TopicPartition("t", partition) for partition in range(4)]
    config = SegmentConfig(segment_bytes=6000)
    commit_staged_batches(
        stage(directories, [Writing(dict.fromkeys(partitions, 1))], new_partition_count=4)
    )
    is_over = threading.Event()
    seen: list[set[int]] = []
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not is_over.is_set():
                seen.append({len(rows) for rows in read_rows(directories).values()})
        except Exception as error:  # noqa: BLE001 - told by the assertion below
            failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(200):
        overwrite = number % 20 == 19
        commit_staged_batches(
            stage(
                directories,
                [Writing(dict.fromkeys(partitions, 1))],
                config=config,
                overwrite=overwrite,
            )
        )
    is_over.set()
    reader.join()
    assert failures == []
    assert len(seen) > 5
    assert [counts for counts in seen if len(counts) != 1] == []


def test_a_failed_commit_is_pending_and_its_staging_is_not_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario = make_scenario(tmp_path)
    before = scenario.rows()
    with pytest.MonkeyPatch.context() as patch:

        def broken(*_: object, **__: object) -> None:
            raise OSError(5, "broken")

        patch.setattr(files, "copy_range", broken)
        with pytest.raises(CommitPendingError, match="Do not write it again"):
            scenario.commit()
    assert scenario.rows() == before
    state = read_commit_state(scenario.directories[0])
    assert state.visible_ranges is not None
    assert state.visible_ranges[TopicPartition("new", 0)] is None
    assert read_commit_state(scenario.directories[1]).visible_ranges == state.visible_ranges
    discard_write(scenario.directories, scenario.request.write_ids)
    with locked_for_writing(scenario.directories[1:]):
        assert read_commit_state(scenario.directories[0]).visible_ranges is None
    assert scenario.rows() != before
    assert scenario.commit().is_skipped


def test_a_write_without_a_commit_is_discarded(directory: str) -> None:
    request = stage([directory], [Writing({T0: 5})])
    discard_write([directory], request.write_ids)
    assert os.listdir(directory) == []


def test_the_journal_reads_back_as_it_was(tmp_path: Path) -> None:
    scenario = make_scenario(tmp_path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(files, "copy_range", lambda *_, **__: (_ for _ in ()).throw(OSError(5, "x")))
        with pytest.raises(CommitPendingError):
            scenario.commit()
    for directory in scenario.directories:
        data = Path(journal_path(directory)).read_bytes()
        journal = Journal.from_bytes(data, directory, source="journal")
        assert journal.to_bytes() == data
        assert journal.phase is CommitPhase.DECIDED
        assert journal.in_phase(CommitPhase.VISIBLE).is_visible
        assert str(tmp_path).encode() not in data


@pytest.mark.parametrize(
    "data", [b"", b"{}", b"[]", b'{"format":2}', b'{"format":1}', b"\xff", b'{"format":1,"a":null}']
)
def test_a_versions_file_that_is_not_ours_is_an_error(data: bytes) -> None:
    from spark_segmentlog.errors import RecoveryError

    with pytest.raises(RecoveryError, match="file here"):
        Versions.from_bytes(data, source="here")


def test_a_directory_without_commits_says_so(directory: str) -> None:
    assert read_commit_state(directory) == CommitState(0)


def test_a_micro_batch_costs_few_syncs(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = {TopicPartition("t", partition): 3 for partition in range(12)}
    commit(directory, partitions, new_partition_count=12)
    request = stage([directory], [Writing(partitions), Writing(partitions)])
    syncs: list[str] = []
    note_calls(monkeypatch, files, "fsync", lambda _: syncs.append("file"))
    note_calls(monkeypatch, files, "fsync_directory", lambda _: syncs.append("folder"))
    commit_staged_batches(request)
    assert len(syncs) <= 12 + 2 + 8


def test_timestamps_in_the_time_index_are_those_of_records(directory: str) -> None:
    commit(directory, {T0: 40}, config=SegmentConfig(index_interval_bytes=100))
    data = (Path(directory) / "t-0" / "00000000000000000000.timeindex").read_bytes()
    entries = np.frombuffer(data, np.dtype([("timestamp", ">i8"), ("offset", ">i4")]))
    assert len(entries)
    assert set((entries["timestamp"] - 1_700_000_000_000).tolist()) <= set(range(50))


def test_a_commit_over_many_partitions_keeps_few_files_open(directory: str) -> None:
    partitions = [TopicPartition("t", number) for number in range(200)]
    tasks = [Writing(dict.fromkeys(partitions[number % 4 :: 4], 3)) for number in range(160)]
    request = stage([directory], tasks)
    with few_open_files(90):
        commit_staged_batches(request)
    counts = {
        topic_partition: len(rows) for topic_partition, rows in read_rows([directory]).items()
    }
    assert counts == dict.fromkeys(partitions, 120)


@contextmanager
def few_open_files(more: int) -> Iterator[None]:
    """Let this process open only so many files more than it has open."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    largest = max(int(name) for name in os.listdir("/dev/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (largest + 1 + more, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
