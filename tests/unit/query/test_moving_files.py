"""Reads and views of places that are named by their path, and of files that are renamed."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import DataLossError, EmptyLogDirectoryError
from spark_segmentlog.log.directory.journal import COMMIT_DIRECTORY_NAME
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec, segment_file_name
from tests.support.metadata_log import metadata_log, topic
from tests.support.moving import delete, merge_in_between, when_touched
from tests.support.running import batches, objects
from tests.support.stream import Stream

BASES = (0, 10, 20, 30)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    log = LogBuilder(tmp_path / "logs")
    return log.partition("t", 0, [batches(10, base_offset=base) for base in BASES])


def column(path: Path | list[Path], name: str = "offset", **options: Any) -> list[Any]:
    return list(read_arrow(path, **options).read_all()[name].to_pylist())


# Files that are renamed


@pytest.fixture
def merged_in_between(directory: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Segments 10 and 20 become one when a reader comes to the second of them."""
    return merge_in_between(monkeypatch, directory)


def test_rows_are_all_there(directory: Path, merged_in_between: list[str]) -> None:
    assert column(directory.parent) == list(range(40))
    assert merged_in_between


@pytest.mark.parametrize("options", [{}, {"starting_offsets": {"t": {"0": 5}}}], ids=str)
def test_the_view_of_batches_gives_each_once(
    directory: Path, merged_in_between: list[str], options: dict[str, Any]
) -> None:
    first = 5 if options else 0
    found = column(directory.parent, "baseOffset", view="batches", **options)
    assert found == list(range(first, 40))
    assert merged_in_between


def test_the_view_of_segments_is_of_one_moment(
    directory: Path, merged_in_between: list[str]
) -> None:
    rows = read_arrow(directory.parent, view="segments").read_all().to_pylist()
    assert merged_in_between
    assert [(row["baseOffset"], row["endOffset"]) for row in rows] == [(0, 10), (10, 30), (30, 40)]
    assert [row["sizeBytes"] for row in rows] == [
        sum(map(len, batches(count))) for count in (10, 20, 10)
    ]


@pytest.mark.parametrize("view", ["batches", "segments"])
def test_views_tell_of_what_is_lost(
    directory: Path, monkeypatch: pytest.MonkeyPatch, view: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Retention takes the first two segments when the second is about to be read."""

    def take_away() -> None:
        delete(directory, 0)
        delete(directory, 10)

    when_touched(monkeypatch, directory / segment_file_name(10), take_away)
    reader = read_arrow(directory.parent, view=view, fail_on_data_loss=False)
    with caplog.at_level(logging.WARNING):
        found = reader.read_all()["baseOffset"].to_pylist()
    lost, kept = {
        "batches": ("[10, 20)", [*range(10), *range(20, 40)]),
        "segments": ("[0, 20)", [20, 30]),
    }[view]
    assert found == kept
    assert lost in caplog.text


@pytest.mark.parametrize("view", ["batches", "segments", "transactions"])
def test_views_of_a_partition_that_vanished_are_data_loss(
    directory: Path, monkeypatch: pytest.MonkeyPatch, view: str
) -> None:
    reader = read_arrow(directory.parent, view=view)
    shutil.rmtree(directory)
    with pytest.raises(DataLossError, match=r"\[0, 40\) for topic partition t-0"):
        reader.read_all()


# Segments that hold nothing


def test_the_view_of_segments_has_the_empty_ones_that_ls_shows(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [batches(3), SegmentSpec([])])
    log.partition("t", 1, [SegmentSpec([], base_offset=7)])
    log.partition("t", 2, [batches(3)])
    names = ("topic", "partition", "baseOffset", "endOffset", "sizeBytes", "isActive")
    shown = [tuple(row[name] for name in names) for row in objects("ls", tmp_path, "--segments")]
    rows = read_arrow(tmp_path, view="segments").read_all().to_pylist()
    assert [tuple(row[name] for name in names) for row in rows] == shown
    assert [row[:4] for row in shown] == [
        ("t", 0, 0, 3),
        ("t", 0, 3, 3),
        ("t", 1, 7, 7),
        ("t", 2, 0, 3),
    ]
    below = read_arrow(tmp_path, view="segments", assign={"t": [0]}, ending_offsets={"t": {"0": 2}})
    assert below.read_all()["baseOffset"].to_pylist() == [0]


# Log directories without partitions


def test_one_of_several_directories_may_be_empty(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "d1").mkdir()
    assert column([directory.parent, tmp_path / "d1"]) == list(range(40))
    assert column([tmp_path / "d1", directory.parent]) == list(range(40))


def test_a_directory_in_which_the_first_commit_is_open_holds_nothing_yet(tmp_path: Path) -> None:
    (tmp_path / COMMIT_DIRECTORY_NAME).mkdir()
    with pytest.raises(EmptyLogDirectoryError):
        read_arrow(tmp_path)


# Places that are named


@pytest.mark.parametrize("kind", ["delete", "future", "stray"])
def test_rows_of_a_directory_beside_the_log(tmp_path: Path, kind: str) -> None:
    log = LogBuilder(tmp_path)
    name = f".0a1b-{kind}"
    path = log.partition("gone", 3, [batches(2)], directory_suffix=name)
    rows = read_arrow(path).read_all().to_pylist()
    assert [(row["topic"], row["partition"], row["offset"]) for row in rows] == [
        ("gone", 3, 0),
        ("gone", 3, 1),
    ]
    assert column(path, view="batches", name="baseOffset") == [0, 1]
    with pytest.raises(EmptyLogDirectoryError, match=f"by its own path, as {path}"):
        read_arrow(tmp_path)
    assert Stream(path, startingOffsets="earliest").run() == [[], [0, 1]]


def test_rows_of_a_deleted_file(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    path = log.partition("t", 0, [SegmentSpec(batches(3), suffix=".deleted"), batches(2)])
    assert column(path / f"{segment_file_name(0)}.deleted") == [0, 1, 2]


def test_internal_topics_are_read_by_their_own_path(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    for name in ("__consumer_offsets", "__mine", "t"):
        log.partition(name, 0, [batches(2)])
    path = tmp_path / "__consumer_offsets-0"
    for named in (path, path / segment_file_name(0), tmp_path / "__c*"):
        assert column(named) == [0, 1]
    assert column(path, subscribe_pattern=".*offsets") == [0, 1]
    assert set(column(tmp_path, "topic")) == set(column(tmp_path / "*-0", "topic")) == {"t"}
    assert set(column([tmp_path, path], "topic")) == {"t", "__consumer_offsets"}
    assert column(tmp_path, subscribe_pattern="__consumer.*|__mine", name="topic") == ["__mine"] * 2


# Tiered topics


def config(name: str, key: str, value: str) -> bytes:
    """Make a metadata record that sets a topic's configuration."""
    texts = b"".join(bytes((len(text) + 1,)) + text.encode() for text in (name, key, value))
    return bytes((1, 4, 0, 2)) + texts + b"\0"


def tiered(path: Path, *, epochs: tuple[tuple[int, int], ...] = ((0, 0), (3, 900))) -> Path:
    """Build the local part of a tiered topic: 100 of 1,000 rows, the log starts at 0."""
    log = LogBuilder(path)
    log.partition("t", 0, [batches(100, base_offset=900)], leader_epochs=epochs)
    log.log_start_offsets({("t", 0): 0})
    return path


def test_offsets_in_remote_storage_are_data_loss(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tiered(tmp_path)
    with pytest.raises(DataLossError, match=r"\[0, 900\) lie in remote storage, which is not read"):
        read_arrow(path)
    with caplog.at_level(logging.WARNING):
        assert column(path, fail_on_data_loss=False) == list(range(900, 1000))
    assert "[0, 900) lie in remote storage" in caplog.text
    assert column(path, starting_offsets={"t": {"0": 950}}) == list(range(950, 1000))
    with pytest.raises(DataLossError, match=r"offset \[17, 1000\).* lie in remote storage"):
        read_arrow(path, starting_offsets={"t": {"0": 17}})
    # Views are of the files that are here.
    assert column(path, "baseOffset", view="segments") == [900]
    (row,) = objects("ls", path, "--partitions")
    assert "remote" in row["flags"]


def test_a_stream_from_the_start_of_a_tiered_log_is_data_loss(tmp_path: Path) -> None:
    tiered(tmp_path)
    with pytest.raises(DataLossError, match=r"\[0, 900\) lie in remote storage"):
        Stream(tmp_path, startingOffsets="earliest").reader.initialOffset()
    stream = Stream(tmp_path, startingOffsets="earliest", failOnDataLoss="false")
    assert stream.reader.initialOffset() == {"t": {"0": 900}}


@pytest.mark.parametrize(
    ("epochs", "value", "is_loss"),
    [
        # A checkpoint that is older than the last pass of retention: the epochs start with the log.
        (((3, 900),), None, False),
        (((3, 900),), "false", False),
        (((3, 900),), "true", True),
        (((0, 0), (3, 900)), None, True),
        (((0, 0), (3, 900)), "false", False),
        ((), None, False),
    ],
)
def test_a_stale_checkpoint_makes_no_topic_tiered(
    tmp_path: Path, epochs: tuple[tuple[int, int], ...], value: str | None, is_loss: bool
) -> None:
    tiered(tmp_path / "d0", epochs=epochs)
    paths = [tmp_path / "d0"]
    if value is not None:
        settings = [config("t", "remote.storage.enable", value), config("t", "x", "true")]
        paths.append(Path(metadata_log(tmp_path / "d1", topic("t", 1), *settings)))
    if is_loss:
        with pytest.raises(DataLossError, match="remote storage"):
            read_arrow(paths)
    else:
        assert column(paths) == list(range(900, 1000))


def test_a_log_start_within_the_log_is_no_remote_storage(directory: Path) -> None:
    LogBuilder(directory.parent).log_start_offsets({("t", 0): 12})
    assert column(directory.parent) == list(range(12, 40))
    assert "remote" not in objects("ls", directory.parent)[0]["flags"]
