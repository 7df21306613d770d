"""A commit that is cut short at every file operation: what `recover` tells of it, and then does.

What cuts it short is the end of its process, or the power; then `recover` itself may be cut short
when it ends the commit. The lines of a dry run are those of what is done, and it changes nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.formats.checkpoints import (
    HIGH_WATERMARK_CHECKPOINT,
    format_offset_checkpoint,
)
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.upkeep.recovery_action import RecoveryAction, RecoveryKind
from spark_segmentlog.log.write.commit import commit_staged_batches
from tests.support.fault_layer import Disk, Faults, Killed
from tests.support.running import contents, flip
from tests.support.scenarios import MARK, Scenario, Writing, make_scenario, stage

STRIDE = int(os.environ.get("SEGMENTLOG_FAULT_STRIDE", "1"))
QUICK_STRIDE = 67
POWER_CUTS = [("lost", "lost"), ("kept", "torn"), ("cut", "torn")]
KEEP: dict[str, Any] = {"truncate": True}
DELETE: dict[str, Any] = {"truncate": True, "delete_later": True}
CUT_OUT: dict[str, Any] = {"truncate": True, "cut_bad_batches": True}

OLD = TopicPartition("old", 0)
NEVER = -1


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def logs(root: Path, partition: str) -> list[Path]:
    return sorted(root.glob(f"*/{partition}/*.log"))


def nothing(root: Path) -> None:
    pass


def marks(root: Path) -> None:
    for folder in root.iterdir():
        (folder / ".kafka_cleanshutdown").write_bytes(MARK)


def high_watermarks(root: Path) -> None:
    for folder in root.iterdir():
        ends = {TopicPartition("old", number): 3 for number in range(2)}
        (folder / HIGH_WATERMARK_CHECKPOINT).write_bytes(format_offset_checkpoint(ends))


def torn_tails(root: Path) -> None:
    """Half a batch at the end of what is appended to, as a broker leaves it that dies."""
    for partition in ("old-0", "old-1"):
        last = logs(root, partition)[-1]
        last.write_bytes(last.read_bytes() + last.read_bytes()[:100])
    for mark in root.glob("*/.kafka_cleanshutdown"):
        mark.unlink()


def bad_batch(root: Path) -> None:
    """Bytes that are bad where nothing is written, and an index that is missing beside them."""
    first = logs(root, "old-0")[0]
    flip(first, 100)
    first.with_suffix(".index").unlink()


def longer(root: Path) -> None:
    """Another segment before that which is appended to."""
    directories = [str(path) for path in sorted(root.iterdir())]
    commit_staged_batches(stage(directories, [Writing({OLD: 60})]))


def compaction(root: Path) -> None:
    """A segment that is about to take its place in a partition that is written, not indexed."""
    first = logs(root, "old-0")[0]
    first.rename(f"{first}.swap")
    for path in sorted(first.parent.glob(f"{first.stem}.*index")):
        path.unlink()


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """How a log is before a commit, and what happens to it after that was cut short."""

    before: Callable[[Path], None] = nothing
    after: Callable[[Path], None] = nothing
    overwrite: bool = False
    options: dict[str, Any]


CASES = {
    "half-marked": Case(options=KEEP),
    "marked": Case(before=marks, options=KEEP),
    "high-watermarks": Case(before=high_watermarks, options=KEEP),
    "torn": Case(before=torn_tails, options=DELETE),
    "overwritten": Case(overwrite=True, options=KEEP),
    "compaction": Case(before=longer, after=compaction, options=KEEP),
    "bad-batch-kept": Case(after=bad_batch, options=KEEP),
    "bad-batch-deleted": Case(after=bad_batch, options=DELETE),
    "bad-batch-cut-out": Case(after=bad_batch, options=CUT_OUT),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    return CASES[request.param]


@dataclass(frozen=True, slots=True)
class Bench:
    """A staged write that can be cut short again and again."""

    case: Case
    scenario: Scenario
    links: Path

    @classmethod
    def make(cls, case: Case, folder: Path) -> Bench:
        scenario = make_scenario(folder, overwrite=case.overwrite)
        return cls(case, scenario, folder / "links")

    def cut_short(
        self, operation: int, *, tear: bool = False, power: tuple[str, str] | None = None
    ) -> int:
        """Commit until the process dies; gives the number of operations up to there."""
        self.scenario.reset()
        self.case.before(self.scenario.root)
        shutil.rmtree(self.links, ignore_errors=True)
        self.links.mkdir()
        disk = Disk(self.scenario.root, self.links)
        count = dying(self.scenario.commit, operation, tear=tear, disk=disk if power else None)
        if power is not None:
            disk.lose_power(operation, names=power[0], data=power[1])
        self.case.after(self.scenario.root)
        return count

    def mend(self, *, dry_run: bool) -> list[RecoveryAction] | str:
        """Tell, or do, what is to be done, of one of the directories; an error as its text."""
        try:
            return recover(self.scenario.directories[1:], dry_run=dry_run, **self.case.options)
        except SegmentLogError as error:
            return str(error)

    def compare(self) -> bool:
        """Compare what is told with what is done; gives whether a commit was open."""
        root = self.scenario.root
        before = state_of(root)
        told = self.mend(dry_run=True)
        assert state_of(root) == before
        done = self.mend(dry_run=False)
        assert list(map(str, told)) == list(map(str, done))
        if isinstance(told, str) or isinstance(done, str):
            return False
        assert told == [replace(action, is_done=False) for action in done]
        left = [str(action) for action in done if action.is_left]
        assert list(map(str, self.mend(dry_run=True))) == left
        return any(action.kind is RecoveryKind.END_COMMIT for action in done)


def dying(
    work: Callable[[], object], operation: int, *, tear: bool = False, disk: Disk | None = None
) -> int:
    """Work until the process dies; gives the number of operations up to there."""
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch, kill_at=operation, tear=tear, disk=disk)
        try:
            work()
        except Killed:
            pass
    return faults.count


def state_of(root: Path) -> tuple[dict[str, bytes], list[Path]]:
    return contents(root), sorted(root.rglob("*"))


def compare_all(bench: Bench, stride: int) -> int:
    """Compare at every `stride`-th operation; gives the number of commits that were open."""
    count = bench.cut_short(NEVER)
    opened = 0
    for operation in range(0, count + 1, stride):
        bench.cut_short(operation, tear=operation % 2 == 1)
        opened += bench.compare()
        for power in POWER_CUTS:
            bench.cut_short(operation, power=power)
            opened += bench.compare()
    return opened


def compare_mending(bench: Bench, stride: int) -> int:
    """Compare where mending was cut short itself, at every `stride`-th operation."""
    middle = bench.cut_short(NEVER) // 2
    bench.cut_short(middle)
    count = dying(lambda: bench.mend(dry_run=False), NEVER)
    opened = 0
    for operation in range(0, count + 1, stride):
        bench.cut_short(middle)
        dying(lambda: bench.mend(dry_run=False), operation)
        opened += bench.compare()
    return opened


def test_a_commit_cut_short_at_some_operations_is_told_as_it_is_ended(
    case: Case, tmp_path: Path
) -> None:
    bench = Bench.make(case, tmp_path)
    assert compare_all(bench, QUICK_STRIDE) > 0
    assert compare_mending(bench, QUICK_STRIDE) > 0


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_a_commit_cut_short_at_every_operation_is_told_as_it_is_ended(
    case: Case, tmp_path: Path
) -> None:
    bench = Bench.make(case, tmp_path)
    assert compare_all(bench, STRIDE) > 0
    assert compare_mending(bench, STRIDE) > 0
