"""What writes that failed left staged: found by its names, and removed."""

from __future__ import annotations

import os
from pathlib import Path

from spark_segmentlog.log.write.staged_leftovers import (
    discard_staged,
    list_staged,
    new_write_id,
    sweep_staged,
)
from tests.support.staging import DAY_SECONDS, stage_partitions


def test_old_staging_is_swept_and_younger_is_not(tmp_path: Path) -> None:
    staged = stage_partitions(tmp_path, 1, 10)
    (tmp_path / ".segmentlog-not-one-of-ours").touch()
    path = Path(staged.files[0].path)
    mtime = path.stat().st_mtime
    sweep_staged([str(tmp_path)], now_seconds=mtime + 7 * DAY_SECONDS - 1)
    assert path.exists()
    sweep_staged([str(tmp_path)], now_seconds=mtime + 7 * DAY_SECONDS + 1)
    assert os.listdir(tmp_path) == [".segmentlog-not-one-of-ours"]


def test_staging_of_earlier_versions_of_an_application_is_swept(tmp_path: Path) -> None:
    for application, version in (("a", 1), ("a", 2), ("a", 3), ("b", 1)):
        stage_partitions(tmp_path, 1, 10, write_id=new_write_id(application, version))
    stage_partitions(tmp_path, 1, 10)
    sweep_staged([str(tmp_path)], application="a", version=2)
    assert len(list(list_staged(str(tmp_path)))) == 3


def test_a_write_is_discarded_by_its_id(tmp_path: Path) -> None:
    write_id = new_write_id()
    stage_partitions(tmp_path, 1, 10, write_id=write_id)
    stage_partitions(tmp_path, 1, 10, write_id=write_id, task_id=4)
    other = stage_partitions(tmp_path, 1, 10)
    discard_staged([str(tmp_path)], [write_id])
    assert [path for path, _ in list_staged(str(tmp_path))] == [other.files[0].path]
