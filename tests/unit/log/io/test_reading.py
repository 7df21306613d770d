"""Reading the local disk, and which paths lie on it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_segmentlog.errors import LogPermissionError
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.io.remote import resolve_storage
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.reading import batch, offsets


def test_a_file_that_may_not_be_read_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, flags: int) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "open", refuse)
    for read in (LOCAL.open_input, LOCAL.read_file, lambda path: LOCAL.read_start(path, 1)):
        with pytest.raises(LogPermissionError, match=r"no permission to read .*x"):
            read(str(tmp_path / "x"))


def test_file_uris_are_local_paths(tmp_path: Path) -> None:
    LogBuilder(tmp_path / "logs").partition("t", 0, [[batch(0, 5)]])
    for uri in (f"file://{tmp_path}/logs", f"file:{tmp_path}/logs", f"{tmp_path}/logs"):
        assert resolve_storage(uri)[0] is LOCAL
        (log,) = LogManager.open(uri).topic_partitions.values()
        assert offsets(log) == [0, 1, 2, 3, 4]


def test_a_local_path_with_a_colon_is_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    LogBuilder(tmp_path / "a1:b").partition("t", 0, [[batch(0)]])
    monkeypatch.chdir(tmp_path)
    assert resolve_storage("a1:b") == (LOCAL, "a1:b")
    assert len(LogManager.open("a1:b").topic_partitions) == 1
