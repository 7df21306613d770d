"""Which partition directories a path names, and what one is that names none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_segmentlog.errors import (
    EmptyLogDirectoryError,
    LogPathNotFoundError,
    LogPermissionError,
    NotALogDirectoryError,
)
from spark_segmentlog.log.directory.paths import MOST_BELOW
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec, segment_file_name
from tests.support.directories import names_of
from tests.support.reading import batch, offsets, open_one


def test_a_partition_directory_a_file_and_globs_name_what_they_match(two_directories: Path) -> None:
    d0 = two_directories / "d0"
    assert offsets(open_one(d0 / "a-0")) == [0, 1, 2, 3, 4]
    assert offsets(open_one(d0 / "a-0" / segment_file_name(0))) == [0, 1, 2]
    assert offsets(open_one(d0 / "a-0" / segment_file_name(3))) == [3, 4]
    assert offsets(open_one(d0 / "a-0" / "*.log")) == [0, 1, 2, 3, 4]
    assert names_of(LogManager.open(two_directories / "d*")) == ["a-0", "a-1", "my-topic-2-10"]
    assert names_of(LogManager.open(two_directories / "*" / "a-*")) == ["a-0", "a-1"]


def test_what_is_named_twice_is_read_once(two_directories: Path) -> None:
    d0 = two_directories / "d0"
    os.symlink(d0, two_directories / "link")
    paths = [d0, d0 / "a-0", two_directories / "link", d0 / "a-0" / segment_file_name(0)]
    manager = LogManager.open(paths)
    assert names_of(manager) == ["a-0", "my-topic-2-10"]
    assert offsets(manager.partition_log(TopicPartition("a", 0))) == [0, 1, 2, 3, 4]


def test_dots_and_brackets_in_paths_are_part_of_names(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path / "kafka.logs-1.2" / "[x]")
    builder.partition("my.topic.v1", 3, [[batch(0)]])
    file = builder.path / "my.topic.v1-3" / segment_file_name(0)
    assert open_one(file).topic_partition == TopicPartition("my.topic.v1", 3)
    assert names_of(LogManager.open(builder.path)) == ["my.topic.v1-3"]
    assert names_of(LogManager.open(tmp_path / "kafka.logs-1.2" / "[[]x]")) == ["my.topic.v1-3"]


def test_a_log_directory_may_be_named_like_a_partition(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path / "kafka-logs-1")
    builder.partition("a", 0, [[batch(0)]])
    assert names_of(LogManager.open(builder.path)) == ["a-0"]


def test_other_files_and_folders_are_left_alone(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("a", 0, [[batch(0)]])
    (tmp_path / ".lock").touch()
    (tmp_path / "lost+found").mkdir()
    (tmp_path / "b-0").touch()
    (tmp_path / "a-0" / "notes.txt").touch()
    (tmp_path / "a-0" / "00000000000000000000-0000000001.checkpoint").touch()
    (tmp_path / "a-0" / "99999999999999999999.log").touch()
    assert names_of(LogManager.open(tmp_path)) == ["a-0"]
    assert len(open_one(tmp_path).segments) == 1


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(LogPathNotFoundError, match="nothing does not exist"):
        LogManager.open(tmp_path / "nothing")
    with pytest.raises(LogPathNotFoundError, match=r"x\* matches nothing"):
        LogManager.open(tmp_path / "x*")
    with pytest.raises(LogPathNotFoundError, match="at least one"):
        LogManager.open([])


def test_one_of_several_log_directories_may_hold_no_partition_yet(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "a").partition("t", 0, [[batch(0)]])
    empty = tmp_path / "b"
    empty.mkdir()
    both = [str(tmp_path / "a"), str(empty)]
    assert names_of(LogManager.open(both)) == names_of(LogManager.open(both[::-1])) == ["t-0"]
    (empty / ".lock").touch()
    assert names_of(LogManager.open(both)) == ["t-0"]
    with pytest.raises(EmptyLogDirectoryError):
        LogManager.open(str(empty))
    (empty / ".lock").unlink()
    (empty / "notes.txt").touch()
    with pytest.raises(EmptyLogDirectoryError, match=r"b holds no partition"):
        LogManager.open(both)


def test_a_folder_of_log_directories_names_them(tmp_path: Path) -> None:
    for name in ("d0", "d1"):
        LogBuilder(tmp_path / name).partition("t", 0, [[batch(0)]])
    (tmp_path / "other").mkdir()
    with pytest.raises(EmptyLogDirectoryError) as caught:
        LogManager.open(f"{tmp_path}/")
    below = f"{tmp_path}/d0, {tmp_path}/d1"
    assert str(caught.value).endswith(f"or a segment; log directories lie in it: name {below}")
    for number in range(MOST_BELOW):
        (tmp_path / f"a{number}").mkdir()
    with pytest.raises(EmptyLogDirectoryError, match=r"or a segment$"):
        LogManager.open(tmp_path)


def test_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(EmptyLogDirectoryError, match="holds no partition"):
        LogManager.open(tmp_path)
    LogBuilder(tmp_path).partition("a", 0, [[batch(0)]], directory_suffix=".0a1b-delete")
    with pytest.raises(EmptyLogDirectoryError, match="1 are partitions that a broker was deleting"):
        LogManager.open(tmp_path)


def test_a_file_where_a_folder_should_be(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(NotALogDirectoryError, match=r"notes\.txt is a file, but no segment"):
        LogManager.open(tmp_path / "notes.txt")


def test_a_segment_in_a_folder_that_names_no_partition(tmp_path: Path) -> None:
    (tmp_path / "copied").mkdir()
    path = tmp_path / "copied" / segment_file_name(0)
    path.write_bytes(batch(0))
    for named in (path, tmp_path / "copied"):
        with pytest.raises(NotALogDirectoryError, match="'copied' is no partition directory"):
            LogManager.open(named)


def test_a_folder_that_may_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    LogBuilder(tmp_path).partition("a", 0, [[batch(0)]])

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(LogPermissionError, match="no permission to read"):
        LogManager.open(tmp_path)


def test_deleted_partitions_can_be_read_on_request(tmp_path: Path) -> None:
    builder = LogBuilder(tmp_path)
    builder.partition("gone", 0, [[batch(0, 3)]], directory_suffix=".0a1b-delete")
    builder.partition("anew", 0, [[batch(0, 9)]], directory_suffix=".0c1d-delete")
    builder.partition("anew", 0, [[batch(0, 2)]])
    builder.log_start_offsets({("gone", 0): 2})
    assert names_of(LogManager.open(tmp_path)) == ["anew-0"]
    manager = LogManager.open(tmp_path, include_deleted=True)
    assert names_of(manager) == ["anew-0", "gone-0"]
    assert offsets(manager.partition_log(TopicPartition("anew", 0))) == [0, 1]
    assert offsets(manager.partition_log(TopicPartition("gone", 0))) == [0, 1, 2]
    assert offsets(open_one(tmp_path / "gone-0.0a1b-delete", include_deleted=True)) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["delete", "future", "stray"])
def test_a_directory_beside_the_log_is_read_by_its_own_path(tmp_path: Path, kind: str) -> None:
    builder = LogBuilder(tmp_path)
    name = f"my.topic-3.0a1b-{kind}"
    builder.partition("my.topic", 3, [[batch(0, 3)], [batch(3, 2)]], directory_suffix=name[10:])
    builder.log_start_offsets({("my.topic", 3): 4})
    builder.clean_shutdown()
    with pytest.raises(EmptyLogDirectoryError, match=rf"read by its own path, as .*/{name}"):
        LogManager.open(tmp_path)
    for path in (tmp_path / name, tmp_path / f"*-{kind}", tmp_path / name / segment_file_name(0)):
        log = open_one(path)
        assert log.topic_partition == TopicPartition("my.topic", 3)
    # What the log directory says is of the live log.
    log = open_one(tmp_path / name)
    assert (log.log_start_offset, log.log_end_offset) == (0, 5)
    assert not log.segments[0].is_index_trusted
    assert offsets(log) == [0, 1, 2, 3, 4]
    # A glob that is not about them passes them by.
    builder.partition("my.topic", 3, [[batch(0, 1)]])
    builder.log_start_offsets({})
    assert offsets(open_one(tmp_path / "my*")) == [0]


@pytest.mark.parametrize("suffix", [".deleted", ".swap", ".cleaned"])
def test_a_file_on_its_way_is_read_by_its_own_path(tmp_path: Path, suffix: str) -> None:
    builder = LogBuilder(tmp_path)
    old = SegmentSpec([batch(0, 3)], suffix=suffix)
    directory = builder.partition("t", 0, [old, [batch(3, 2)], [batch(5, 1)]])
    builder.log_start_offsets({("t", 0): 4})
    name = f"{segment_file_name(0)}{suffix}"
    for path in (directory / name, directory / f"*.log{suffix}"):
        log = open_one(path)
        expected = [] if suffix == ".swap" else [0, 1, 2]
        assert offsets(log) == expected
        assert [segment.log_path for segment in log.segments] == [str(directory / name)]
        assert log.segments[0].end_offset_bound == 3
    assert offsets(open_one(directory / "0*.log*")) == [4, 5]
