"""``segmentlog lag``: which consumer group is how far behind."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow.fs import FileSystem, LocalFileSystem

from spark_segmentlog.log.io import remote
from spark_segmentlog.log.io.storage_options import StorageOptions
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from spark_segmentlog.testing.system_records import offset_commit
from tests.support.running import batches, flip, objects, run


@pytest.fixture
def log(tmp_path: Path) -> Path:
    builder = LogBuilder(tmp_path)
    builder.partition("t", 0, [batches(9)])
    commits = [
        offset_commit("a", "t", 0, 4),
        offset_commit("b", "t", 0, 9),
        offset_commit("b", "u", 2, 1),
    ]
    data = [v2_batch([commit], base_offset=offset) for offset, commit in enumerate(commits)]
    builder.partition("__consumer_offsets", 0, [data])
    return tmp_path


def test_groups_and_what_is_left_to_read(log: Path) -> None:
    ran = run("lag", log)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert [line.split() for line in ran.lines] == [
        ["group", "topic", "partition", "committed", "log", "end", "lag"],
        ["a", "t", "0", "4", "9", "5"],
        ["b", "t", "0", "9", "9", "0"],
        ["b", "u", "2", "1", "-", "-"],
    ]


def test_a_log_elsewhere_is_reached_as_the_options_say(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bucket is a stand-in: a folder, which notes how it was asked for."""
    seen: set[StorageOptions] = set()

    def bucket(uri: str, options: StorageOptions) -> tuple[FileSystem, str]:
        seen.add(options)
        return LocalFileSystem(), uri.replace("s3://bucket", str(log))

    monkeypatch.setattr(remote, "open_bucket", bucket)
    options = ("--endpoint", "http://minio:9000", "--region", "eu-west-1", "--anonymous")
    assert objects("lag", "s3://bucket/", *options) == objects("lag", log)
    assert seen == {
        StorageOptions(endpoint="http://minio:9000", region="eu-west-1", is_anonymous=True)
    }


def test_groups_and_topics_are_chosen(log: Path) -> None:
    chosen = {
        "group": "b",
        "topic": "t",
        "partition": 0,
        "committedOffset": 9,
        "logEndOffset": 9,
        "lag": 0,
    }
    assert objects("lag", log, "--group", "b", "--topic", "t") == [chosen]
    assert objects("lag", log, "--group", "c") == []


def test_bad_bytes_are_stepped_over(log: Path) -> None:
    flip(log / "__consumer_offsets-0" / "00000000000000000000.log", 65)
    ran = run("lag", log)
    assert ran.exit_code == 0
    assert [line.split()[0] for line in ran.lines[1:]] == ["b", "b"]


def test_a_log_without_offsets_is_an_error(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[v2_batch([RecordSpec(value=b"v")])]])
    ran = run("lag", tmp_path)
    assert ran.exit_code == 2
    assert "not in this log: __consumer_offsets" in ran.stderr
