"""Where a broker would cut a log, or delete all of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.findings import FindingKind, Severity
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec
from tests.support.refusals import (
    T0,
    WRITERS,
    append,
    commit,
    findings,
    only,
    refused,
    rows,
)
from tests.support.scenarios import read_rows


def crashed(path: Path, *, cut_bytes: int = 5, recovery_point: int | None = None) -> Path:
    log = LogBuilder(path)
    log.partition("t", 0, [rows(0), SegmentSpec(rows(3), cut_bytes=cut_bytes), rows(6)])
    if recovery_point is not None:
        log.recovery_points({("t", 0): recovery_point})
    return path


@pytest.mark.parametrize("recovery_point", [None, 0, 5])
def test_nothing_is_appended_after_what_a_broker_would_cut(
    tmp_path: Path, recovery_point: int | None
) -> None:
    path = crashed(tmp_path / "d0", recovery_point=recovery_point)
    finding = findings(path)[FindingKind.TORN_SEGMENT]
    size = (path / "t-0" / "00000000000000000003.log").stat().st_size
    batch = len(rows(3)[0])
    assert (finding.severity, finding.position) == (Severity.LOSS, 2 * batch)
    assert (size, finding.path[-8:]) == (3 * batch - 5, "0003.log")
    (verified,) = (finding for finding in verify(str(path)) if finding.refuses_writes)
    assert (verified.kind, verified.severity) == (FindingKind.CORRUPT_BATCH, Severity.LOSS)
    assert (verified.position, verified.broker) == (finding.position, finding.broker)
    refused(FindingKind.TORN_SEGMENT, WRITERS, path)
    recover(str(path), truncate=True, delete_later=True)
    assert findings(path) == {}
    append(path)
    assert [offset for offset, _, _ in read_rows([str(path)])[T0]] == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_broker_cuts_nothing_below_the_recovery_point_or_after_a_clean_stop(
    tmp_path: Path, is_clean: bool
) -> None:
    path = crashed(tmp_path / "d0", recovery_point=0 if is_clean else 6)
    if is_clean:
        LogBuilder(path).clean_shutdown()
    assert findings(path) == {}
    append(path)


def test_closed_segments_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = crashed(tmp_path / "d0", cut_bytes=0)
    append(path)
    opened: list[str] = []
    real = type(LOCAL).open_input

    def note(storage: object, name: str) -> object:
        opened.append(name)
        return real(LOCAL, name)

    monkeypatch.setattr(type(LOCAL), "open_input", note)
    commit(path)
    assert [name for name in opened if "0000.log" in name or "0003.log" in name] == []


def test_a_log_that_ends_below_its_start_is_not_written(cluster: Path) -> None:
    LogBuilder(cluster).log_start_offsets({("t", 0): 30})
    assert "deletes all" in only(FindingKind.LOG_START, cluster).broker
    refused(FindingKind.LOG_START, WRITERS, cluster)
