"""What is found wrong: how it is worded, how bad it is, and that a reader is told what to do."""

from __future__ import annotations

import pickle

import pytest

from spark_segmentlog.errors import PreflightError
from spark_segmentlog.log.findings import Finding, FindingKind, Level, refuse


def test_a_kind_is_its_text_and_tells_what_takes_it_away() -> None:
    assert FindingKind("torn tail") is FindingKind.TORN_TAIL
    assert pickle.loads(pickle.dumps(FindingKind.LINK)) is FindingKind.LINK
    assert all(kind.mend for kind in FindingKind)


def test_a_finding_names_file_position_offsets_and_what_a_broker_does() -> None:
    finding = Finding(
        kind=FindingKind.CORRUPT_BATCH,
        path="/t-0/0.log",
        detail="record batch crc mismatch",
        position=8192,
        start_offset=57,
        end_offset=60,
        broker="a broker cuts the log there",
    )
    assert str(finding) == (
        f"{FindingKind.CORRUPT_BATCH}: record batch crc mismatch (file /t-0/0.log, position 8192, "
        "offsets 57 to 59 are missing); a broker cuts the log there"
    )
    assert str(Finding(kind=FindingKind.LINK, path="/a", detail="b")).endswith(": b (file /a)")


@pytest.mark.parametrize(
    ("kind", "level"),
    [
        (FindingKind.MISSING_INDEX, Level.NOTE),
        (FindingKind.CORRUPT_BATCH, Level.ERROR),
        (FindingKind.LOST_OFFSETS, Level.ERROR),
        (FindingKind.META_PROPERTIES, Level.ERROR),
        (FindingKind.OFFSET_INDEX, Level.WARNING),
    ],
)
def test_levels(kind: FindingKind, level: Level) -> None:
    finding = Finding(kind=kind, path="x", detail="y")
    assert finding.level is level
    assert finding.is_harmless == (level is Level.NOTE)
    assert " " not in finding.code


def test_only_what_refuses_writes_is_refused() -> None:
    harmless = Finding(kind=FindingKind.STAGED_FILE, path="x", detail="y")
    stopping = Finding(kind=FindingKind.TOPIC_ID, path="x", detail="y", refuses_writes=True)
    refuse([harmless])
    with pytest.raises(PreflightError) as caught:
        refuse([harmless, stopping])
    assert list(caught.value.findings) == [stopping]
