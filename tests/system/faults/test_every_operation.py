"""Every path that writes or mends, cut short at every one of its file operations, then run again.

What cuts it short: the end of its process, the power, an error of the system. What must hold: a
reader that comes before anybody mends sees nothing that is half; what was reported is there; the
second run ends as one that nothing had cut short; offsets and times are found where a full scan
finds them.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from pathlib import Path

import pytest

from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.upkeep.verification import verify
from tests.support.fault_layer import SOURCES, Disk, Faults, Killed
from tests.support.scenarios import MARK, Rows
from tests.support.writing_paths import (
    MARK_NAME,
    PATHS,
    EndState,
    Progress,
    WritingPath,
    check_indexes,
    check_lookups,
    check_topic_ids,
    cut_tail,
    directories,
    end_state,
    ignore,
    seen_rows,
    unsynced_files,
)

STRIDE = int(os.environ.get("SEGMENTLOG_FAULT_STRIDE", "1"))
QUICK_STRIDE = 29

POWER_CUTS = [
    ("lost", "lost"),
    ("kept", "lost"),
    ("kept", "torn"),
    ("lost", "kept"),
    ("cut", "torn"),
]
ERRORS = [
    (errno.ENOSPC, False),
    (errno.ENOSPC, True),
    (errno.EDQUOT, False),
    (errno.EIO, False),
    (errno.EROFS, True),
    (errno.EMFILE, False),
    (errno.EMFILE, True),
]


@pytest.fixture(autouse=True)
def _no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is synced is told by `Disk`; the real disk would only be slow."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture(params=PATHS, ids=lambda path: path.name.replace(" ", "-"))
def path(request: pytest.FixtureRequest) -> WritingPath:
    found: WritingPath = request.param
    return found


@dataclass(frozen=True, slots=True)
class Bench:
    """A path with its folder as it was before, and as a run that nothing cuts short leaves it."""

    path: WritingPath
    template: Path
    root: Path
    links: Path
    before: Rows | None
    after: EndState
    operations: list[str]

    @classmethod
    def make(cls, path: WritingPath, folder: Path) -> Bench:
        template, root, links = (folder / name for name in ("template", "root", "links"))
        template.mkdir()
        path.prepare(template)
        before = seen_rows(template)
        shutil.copytree(template, root)
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch)
            path.run(root, ignore)
        bench = cls(path, template, root, links, before, end_state(root), faults.names)
        bench.check_sound(0)
        return bench

    def reset(self) -> None:
        for folder in (self.root, self.links):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.template, self.root)
        self.links.mkdir()

    def check_seen(self, reported: int) -> None:
        """Look as a reader who comes before anybody mends."""
        seen, allows = seen_rows(self.root), self.path.allows
        if seen is None:
            assert allows == "damaged"
            return
        assert sum(map(len, seen.values())) >= reported
        if allows == "whole":
            assert with_rows(seen) in (with_rows(self.before or {}), with_rows(self.after.rows))
        for partition, rows in seen.items():
            after = self.after.rows[partition]
            before = (self.before or self.after.rows).get(partition, [])
            if allows == "prefix":
                assert rows == after[: len(rows)]
                assert len(rows) >= len(before)
            elif allows == "between":
                assert set(after) <= set(rows) <= set(before)

    def check_again(self, phase: int, *, power_was_lost: bool = False) -> None:
        """Run it again, and compare with a run that nothing cut short."""
        self.path.run(self.root, ignore)
        found = end_state(self.root)
        # The next write to them makes them again.
        may_differ = unsynced_files(self.root) if power_was_lost else set()
        assert found.rows == self.after.rows
        if self.path.is_exact:
            assert found.files.keys() == self.after.files.keys()
            changed = {path for path, data in found.files.items() if data != self.after.files[path]}
            assert changed - may_differ == set()
        elif not power_was_lost:
            check_indexes(self.root)
        self.check_sound(phase, may_differ)

    def check_sound(self, phase: int, may_differ: AbstractSet[str] = frozenset()) -> None:
        places = directories(self.root)
        check_lookups(places, phase)
        check_topic_ids(self.root)
        wrong = [
            finding
            for finding in verify(places)
            if not finding.is_harmless and finding.path not in may_differ
        ]
        assert list(map(str, wrong)) == []
        for place in places:
            mark = Path(place) / MARK_NAME
            assert not mark.exists() or mark.read_bytes() == MARK
        if self.path.keeps_mark:
            assert (self.root / "d0" / MARK_NAME).exists()


def with_rows(rows: Rows) -> Rows:
    """Leave out partitions without rows, which are made one by one."""
    return {partition: found for partition, found in rows.items() if found}


def operations_of(bench: Bench, stride: int) -> Iterator[int]:
    """Give every `stride`-th operation, and the end, where nothing is left to cut short."""
    yield from range(0, len(bench.operations), stride)
    yield len(bench.operations)


def kill(bench: Bench, operation: int, *, tear: bool = False, disk: Disk | None = None) -> Progress:
    """Run until the process dies; give what was reported."""
    progress = Progress()
    with pytest.MonkeyPatch.context() as patch:
        Faults(patch, kill_at=operation, tear=tear, disk=disk)
        try:
            bench.path.run(bench.root, progress.report)
        except Killed:
            pass
    return progress


def run_kills(bench: Bench, stride: int) -> int:
    points = 0
    for operation in operations_of(bench, stride):
        for tear in (False, True):
            bench.reset()
            bench.check_seen(kill(bench, operation, tear=tear).written)
            bench.check_again(operation)
            points += 1
    return points


def run_power_cuts(bench: Bench, stride: int) -> int:
    points = 0
    for operation in operations_of(bench, stride):
        for names, data in POWER_CUTS:
            bench.reset()
            disk = Disk(bench.root, bench.links)
            durable = kill(bench, operation, disk=disk).durable
            disk.lose_power(operation, names=names, data=data)
            # Of what was not synced the power may leave some sectors: bad bytes, until it is cut.
            if data == "torn" and bench.path.allows == "prefix" and seen_rows(bench.root) is None:
                cut_tail(bench.root)
            bench.check_seen(durable)
            if operation == len(bench.operations):
                assert seen_rows(bench.root) == bench.after.rows
            bench.check_again(operation, power_was_lost=True)
            points += 1
    return points


def run_errors(bench: Bench, stride: int, error_code: int, *, is_lasting: bool) -> int:
    """Fail at each operation that can; the error is one that tells, and nothing is lost."""
    points = 0
    for operation in failing_operations(bench, error_code)[::stride]:
        bench.reset()
        progress = Progress()
        raised: Exception | None = None
        with pytest.MonkeyPatch.context() as patch:
            faults = Faults(patch, fail_at=operation, error_code=error_code, is_lasting=is_lasting)
            try:
                bench.path.run(bench.root, progress.report)
            except (SegmentLogError, OSError) as error:
                raised = error
        assert faults.failed
        if raised is not None:
            assert os.strerror(error_code) in str(raised)
        bench.check_seen(progress.written)
        bench.check_again(operation)
        points += 1
    return points


def failing_operations(bench: Bench, error_code: int) -> list[int]:
    """Number the operations that such an error can come from; reads count where it can be one."""
    bench.reset()
    with pytest.MonkeyPatch.context() as patch:
        faults = Faults(patch, error_code=error_code)
        bench.path.run(bench.root, ignore)
    return [number for number, name in enumerate(faults.names) if name in SOURCES[error_code]]


CountPoints = Callable[..., None]


def test_killed_at_some_operations_it_ends_as_if_nothing_was(
    path: WritingPath, tmp_path: Path
) -> None:
    assert run_kills(Bench.make(path, tmp_path), QUICK_STRIDE) > 0


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_killed_at_every_operation_it_ends_as_if_nothing_was(
    path: WritingPath, tmp_path: Path, count_points: CountPoints
) -> None:
    bench = Bench.make(path, tmp_path)
    count_points(path.name, "kill", len(bench.operations), run_kills(bench, STRIDE))


def test_losing_power_at_some_operations_it_ends_as_if_nothing_was(
    path: WritingPath, tmp_path: Path
) -> None:
    assert run_power_cuts(Bench.make(path, tmp_path), 2 * QUICK_STRIDE) > 0


@pytest.mark.faults
@pytest.mark.timeout(1800)
def test_losing_power_at_every_operation_it_ends_as_if_nothing_was(
    path: WritingPath, tmp_path: Path, count_points: CountPoints
) -> None:
    bench = Bench.make(path, tmp_path)
    count_points(path.name, "power", len(bench.operations), run_power_cuts(bench, STRIDE))


@pytest.mark.faults
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    ("error_code", "is_lasting"),
    ERRORS,
    ids=lambda value: (
        errno.errorcode[value] if type(value) is int else ("lasting" if value else "once")
    ),
)
def test_an_error_at_every_operation_loses_nothing(
    path: WritingPath,
    tmp_path: Path,
    count_points: CountPoints,
    error_code: int,
    is_lasting: bool,
) -> None:
    bench = Bench.make(path, tmp_path)
    points = run_errors(bench, STRIDE, error_code, is_lasting=is_lasting)
    variant = errno.errorcode[error_code] + (" lasting" if is_lasting else "")
    count_points(path.name, variant, len(bench.operations), points)
