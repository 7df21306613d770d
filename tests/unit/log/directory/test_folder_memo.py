"""What was read of folders is kept for as long as they do not change."""

from __future__ import annotations

import os
from pathlib import Path

from spark_segmentlog.log.directory.folder_memo import FolderMemo, RememberingReader
from spark_segmentlog.log.io.reading import LOCAL


def names(memo: FolderMemo, path: Path) -> list[str]:
    return sorted(RememberingReader(memo).list_directories(LOCAL, str(path))[1])


def settle(path: Path, seconds: int = 1) -> None:
    os.utime(path, (seconds, seconds))


def test_a_folder_at_rest_is_read_once(tmp_path: Path) -> None:
    memo, reads = FolderMemo(), list[int]()
    settle(tmp_path)

    def read() -> int:
        reads.append(1)
        return len(reads)

    assert [memo.get(LOCAL, str(tmp_path), "kind", read) for _ in range(3)] == [1, 1, 1]
    assert memo.get(LOCAL, str(tmp_path), "other kind", read) == 2


def test_a_folder_that_changed_is_read_again(tmp_path: Path) -> None:
    memo = FolderMemo()
    (tmp_path / "a").touch()
    settle(tmp_path)
    assert names(memo, tmp_path) == ["a"]
    (tmp_path / "b").touch()
    settle(tmp_path, 2)
    assert names(memo, tmp_path) == ["a", "b"]


def test_a_folder_that_changed_a_moment_ago_is_not_believed(tmp_path: Path) -> None:
    memo = FolderMemo()
    status = tmp_path.stat()
    assert names(memo, tmp_path) == []
    (tmp_path / "a").touch()
    os.utime(tmp_path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert names(memo, tmp_path) == ["a"]


def test_what_nobody_asks_for_any_more_is_forgotten(tmp_path: Path) -> None:
    memo, reads = FolderMemo(), list[int]()
    settle(tmp_path)

    def look() -> int:
        memo.get(LOCAL, str(tmp_path), "kind", lambda: reads.append(1))
        return len(reads)

    assert look() == 1
    memo.forget_unused()
    assert look() == 1
    memo.forget_unused()
    memo.forget_unused()
    assert look() == 2
