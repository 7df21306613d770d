"""Producer snapshots compared with the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.findings import FindingKind
from tests.support.reading import batch
from tests.support.verifying import build, found, spec


@pytest.mark.parametrize("damage", ["cut", "flip"])
def test_a_producer_snapshot_that_does_not_hold_together(tmp_path: Path, damage: str) -> None:
    directory = build(tmp_path, spec([batch(0, 1)]), recovery_point=1)
    path = directory / "00000000000000000001.snapshot"
    content = path.read_bytes()
    path.write_bytes(content[:-1] if damage == "cut" else bytes([content[0] ^ 1]) + content[1:])
    (one,) = found(tmp_path)
    assert (one.kind, one.path, one.is_harmless) == (
        FindingKind.PRODUCER_SNAPSHOT,
        str(path),
        True,
    )
