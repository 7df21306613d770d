"""A finding as text and as JSON."""

from __future__ import annotations

from spark_segmentlog.log.findings import MENDS, Finding, FindingKind, Level


def test_every_kind_has_a_level_and_what_mends_it() -> None:
    assert MENDS.keys() == set(FindingKind)
    levels = {kind: Finding(kind=kind, path="", detail="").level for kind in FindingKind}
    assert levels[FindingKind.CORRUPT_BATCH] is Level.ERROR
    assert levels[FindingKind.OFFSET_INDEX] is Level.WARNING
    assert levels[FindingKind.MISSING_INDEX] is Level.NOTE
    assert levels[FindingKind.FOREIGN_FOLDER] is Level.ERROR
