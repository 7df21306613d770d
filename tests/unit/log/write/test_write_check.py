"""What is refused before a write: what a broker, or a reader, would not see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog.log.findings import FindingKind
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.refusals import (
    WRITERS,
    append,
    findings,
    refused,
    retain,
    rows,
)


@pytest.mark.parametrize("write", WRITERS)
def test_a_write_writes_a_topic_id_that_is_missing(
    cluster: Path, write: Callable[..., None]
) -> None:
    path = cluster / "t-0" / "partition.metadata"
    right = path.read_bytes()
    path.unlink()
    write(cluster)
    assert path.read_bytes() == right
    assert findings(cluster) == {}


@pytest.mark.parametrize("alias", ["d0/t-1", "d0/a-0", "d1/a-0"])
def test_a_link_that_makes_one_folder_two_partitions_is_found_and_not_written(
    tmp_path: Path, alias: str
) -> None:
    paths = [tmp_path / name for name in ("d0", "d1")]
    path = LogBuilder(paths[0]).partition("t", 0, [rows(0)])
    LogBuilder(paths[1]).partition("u", 0, [rows(0)])
    (tmp_path / alias).symlink_to(path)
    found = findings(*paths)
    assert set(found) == {FindingKind.PARTITION_TWICE, FindingKind.LINK}
    refused(FindingKind.PARTITION_TWICE, (*WRITERS, retain), *paths)
    (tmp_path / alias).unlink()
    append(*paths)


def test_a_link_in_another_directory_of_the_broker_is_not_written(
    cluster: Path, tmp_path: Path
) -> None:
    LogBuilder(tmp_path / "d1").meta_properties(directory_id="Z3hPaRdTEc6lPrkbjWq1cA")
    (tmp_path / "d1" / "gone-0").symlink_to(cluster / "t-0")
    refused(FindingKind.PARTITION_TWICE, (*WRITERS, retain), cluster)
