"""A stopped broker's directory, what is found in it, and that writers are refused."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from spark_segmentlog.errors import PreflightError
from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.upkeep.retention import apply_retention
from spark_segmentlog.log.upkeep.retention_config import RetentionConfig
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.log.write.preflight import preflight
from spark_segmentlog.testing.builder import RecordSpec, v2_batch
from tests.support.metadata_log import identifier
from tests.support.scenarios import Writing, stage

T0 = TopicPartition("t", 0)


def text_of(number: int) -> str:
    return base64.urlsafe_b64encode(identifier(number)).rstrip(b"=").decode()


def rows(start: int, count: int = 3) -> list[bytes]:
    return [
        v2_batch([RecordSpec(value=b"row %d" % offset)], base_offset=offset)
        for offset in range(start, start + count)
    ]


def findings(*paths: Path) -> dict[FindingKind, Finding]:
    return {finding.kind: finding for finding in preflight([str(path) for path in paths])}


def only(kind: FindingKind, *paths: Path) -> Finding:
    """Give the one finding of some paths, and see that verification names it too."""
    (finding,) = preflight([str(path) for path in paths])
    assert finding.kind is kind
    is_verified = finding in list(verify([str(path) for path in paths]))
    assert is_verified == (kind is not FindingKind.CLUSTER_METADATA)
    return finding


def append(*paths: Path) -> None:
    with open_log(list(paths)) as log:
        log.append("t", pa.record_batch({"value": [b"new"]}), partition=0)


def commit(*paths: Path) -> None:
    directories = [str(path) for path in paths]
    commit_staged_batches(stage(directories, [Writing({T0: 7})]))


def retain(*paths: Path) -> None:
    apply_retention([str(path) for path in paths], ["t"], RetentionConfig(retention_ms=1), 10**15)


WRITERS = (append, commit)


def contents(path: Path) -> dict[str, bytes]:
    """All files but those that a writer locks, and what it staged."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in path.rglob("*")
        if file.is_file() and not file.name.startswith((".lock", ".segmentlog-"))
    }


def refused(kind: FindingKind, writers: tuple[Callable[..., None], ...], *paths: Path) -> None:
    """See that writers are refused by such a finding, and leave everything as it was."""
    before = [contents(path) for path in paths]
    for write in writers:
        with pytest.raises(PreflightError) as caught:
            write(*paths)
        assert {finding.kind for finding in caught.value.findings} == {kind}
        assert [contents(path) for path in paths] == before
