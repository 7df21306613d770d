"""Findings: what each kind says, and that it is told once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from spark_segmentlog.log.findings import Finding, FindingKind, Level
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.running import NAME, batches, flip, run


def test_every_kind_has_a_level() -> None:
    levels = {kind: Finding(kind=kind, path="", detail="").level for kind in FindingKind}
    assert levels[FindingKind.CORRUPT_BATCH] is Level.ERROR
    assert levels[FindingKind.OFFSET_INDEX] is Level.WARNING
    assert levels[FindingKind.MISSING_INDEX] is Level.NOTE
    assert levels[FindingKind.FOREIGN_FOLDER] is Level.ERROR


@pytest.mark.parametrize("verb", ["verify", "recover", "salvage"])
def test_what_a_verb_prints_is_not_warned_of_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, verb: str
) -> None:
    log = LogBuilder(tmp_path / "log")
    directory = log.partition("t", 0, [[*batches(9), b"a torn batch"]])
    flip(directory / f"{NAME}.log", 700)
    target = [tmp_path / "target"] if verb == "salvage" else []
    ran = run(verb, log.path, *target)
    assert ran.exit_code == 1
    assert "offset 1" in ran.stdout or "position 5" in ran.stdout
    assert caplog.text == ""
    assert logging.getLogger("spark_segmentlog.log.segment.walk").isEnabledFor(logging.WARNING)
