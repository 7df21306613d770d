"""Which partitions are cleaned, under which lock, and when old files go."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from spark_segmentlog.errors import LogLockedError, UnknownTopicOrPartitionError, UnsafeTargetError
from spark_segmentlog.log.io.lock import locked
from spark_segmentlog.log.upkeep.retention import apply_retention
from spark_segmentlog.log.upkeep.retention_config import RetentionConfig
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.cleaning import (
    NOW_MS,
    aged,
    build,
    run_retention,
    segment_offsets,
    temporary_names,
)

KEEP = RetentionConfig(retention_ms=-1, file_delete_delay_ms=0)


START_FILE = "log-start-offset-checkpoint"


def no_old_file(directory: Path) -> bool:
    return temporary_names(directory) == []


def test_other_partitions_keep_their_log_start_offsets(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, aged([5000, 0]))
    log.partition("u", 3, aged([0, 0]))
    log.log_start_offsets({("u", 3): 1, ("gone", 0): 7})
    apply_retention([str(tmp_path)], ["t"], replace(KEEP, retention_ms=1000), NOW_MS)
    text = (tmp_path / START_FILE).read_text()
    assert sorted(text.splitlines()[2:]) == ["gone 0 7", "t 0 2", "u 3 1"]


def test_leader_epochs_start_where_the_log_starts(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    directory = log.partition(
        "t", 0, aged([5000, 5000, 5000, 0]), leader_epochs=[(1, 0), (4, 2), (5, 5), (6, 7)]
    )
    run_retention(directory, replace(KEEP, retention_ms=1000))
    assert (directory / "leader-epoch-checkpoint").read_text() == "0\n2\n5 6\n6 7\n"


def test_renamed_files_stay_for_the_delay_and_go_with_a_later_pass(tmp_path: Path) -> None:
    directory = build(tmp_path, aged([5000, 0]))
    config = replace(KEEP, retention_ms=1000, file_delete_delay_ms=60_000)
    now_ms = time.time_ns() // 10**6
    first = apply_retention([str(tmp_path)], None, config, NOW_MS)[0]
    assert first.waiting_files == 3
    assert temporary_names(directory) == [
        f"{0:020d}.{kind}.deleted" for kind in ("index", "log", "timeindex")
    ]
    keep = replace(KEEP, file_delete_delay_ms=60_000)
    assert run_retention(directory, keep, now_ms=now_ms + 1000).removed_files == 0
    assert run_retention(directory, keep, now_ms=now_ms + 70_000).removed_files == 3
    assert no_old_file(directory)


def test_waiting_when_asked_leaves_no_file_behind(tmp_path: Path) -> None:
    directory = build(tmp_path, aged([5000, 0]))
    config = replace(KEEP, retention_ms=1000, file_delete_delay_ms=30, wait_for_deletion=True)
    run_retention(directory, config)
    assert no_old_file(directory)


def test_a_directory_that_another_writer_holds_is_refused(tmp_path: Path) -> None:
    directory = build(tmp_path, aged([5000, 0]))
    config = replace(KEEP, retention_ms=1000, lock_timeout_ms=10)
    failed: list[BaseException] = []

    def attempt() -> None:
        try:
            run_retention(directory, config)
        except LogLockedError as error:
            failed.append(error)

    with locked([str(tmp_path)]):
        thread = threading.Thread(target=attempt)
        thread.start()
        thread.join()
    assert len(failed) == 1
    assert segment_offsets(directory) == [0, 2]


def test_internal_and_unknown_topics_are_refused(tmp_path: Path) -> None:
    directory = build(tmp_path, aged([5000, 0]))
    config = replace(KEEP, retention_ms=1000)
    for topic in INTERNAL_TOPICS:
        LogBuilder(tmp_path).partition(topic, 0, aged([5000, 5000, 0]))
        with pytest.raises(UnsafeTargetError):
            apply_retention([str(tmp_path)], [topic], config, NOW_MS)
    with pytest.raises(UnknownTopicOrPartitionError):
        apply_retention([str(tmp_path)], ["other"], config, NOW_MS)
    assert segment_offsets(directory) == [0, 2]


def test_a_cluster_whose_metadata_is_not_there_is_refused_unless_allowed(tmp_path: Path) -> None:
    directory = build(tmp_path / "d0", aged([5000, 5000, 0]))
    log = LogBuilder(tmp_path / "d0")
    log.meta_properties()
    config = replace(KEEP, retention_ms=1000)
    with pytest.raises(UnsafeTargetError):
        run_retention(directory, config)
    assert segment_offsets(directory) == [0, 2, 4]
    # Rows at or above the high watermark may still be cut by another replica.
    log.high_watermarks({("t", 0): 3})
    run_retention(directory, replace(config, allow_replicated=True))
    assert segment_offsets(directory) == [2, 4]
