"""Leader epochs of batches compared with each other and with the checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.log.findings import FindingKind
from tests.support.forging import build, findings, flip
from tests.support.reading import batch

# What no row tells: epochs, snapshots, indexes


def test_a_leader_epoch_between_others_is_found(tmp_path: Path) -> None:
    batches = [batch(5 * number, 5) for number in range(4)]
    log = build(tmp_path, batches)
    assert findings(tmp_path) == []
    flip(log, len(batches[0]) + 13, 0)
    (one,) = findings(tmp_path)
    assert (one.kind, one.path, one.position) == (
        FindingKind.LEADER_EPOCH,
        str(log),
        len(batches[0]),
    )
    assert read_arrow(tmp_path).read_all().num_rows == 20


@pytest.mark.parametrize(
    "text",
    ["", "0\n1\n3 0\n", "0\n2\n0 0\n1 7\n", "0\n2\n0 0\n1 99\n", "0\n2\n0 5\n1 3\n"],
    ids=["empty", "another epoch", "amid a batch", "after the end", "out of order"],
)
def test_a_checkpoint_of_other_leader_epochs_is_found(tmp_path: Path, text: str) -> None:
    log = build(tmp_path, [batch(0, 5), batch(5, 5)])
    checkpoint = log.parent / "leader-epoch-checkpoint"
    checkpoint.write_text(text)
    (one,) = findings(tmp_path)
    assert (one.kind, one.path) == (FindingKind.LEADER_EPOCH, str(checkpoint))
