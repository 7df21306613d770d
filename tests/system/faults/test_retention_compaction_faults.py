"""Retention and compaction, cut short after every single file operation.

Each state is looked at three times: by a reader of this library, which must not write; by a model
of a broker's start (LogLoader); and by the next pass, which must end what was begun.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from spark_segmentlog.log.io import files
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.log.upkeep.compaction import compact
from spark_segmentlog.log.upkeep.compaction_config import CompactionConfig
from spark_segmentlog.log.upkeep.retention import apply_retention
from spark_segmentlog.log.upkeep.retention_config import RetentionConfig
from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    LogBuilder,
    SegmentSpec,
    control_batch,
    v2_batch,
)
from tests.support.cleaning import (
    DAY_MS,
    NOW_MS,
    PARTITION,
    Row,
    check_indexes,
    checkpoint,
    plain_batches,
    record,
    rows,
    segment_offsets,
    split_log,
    temporary_names,
)
from tests.support.power_loss import Disk, PowerLoss
from tests.support.project import PROJECT

Key = bytes | None
Value = tuple[int, bytes | None, bytes | None]

MERGING = CompactionConfig(file_delete_delay_ms=0)
# Groups of two segments, so that a crash can lie between two of them.
STEPWISE = replace(MERGING, segment=SegmentConfig(segment_bytes=700))
RETENTION = RetentionConfig(retention_ms=1000, file_delete_delay_ms=0)


@pytest.fixture(autouse=True)
def no_real_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk of these tests is a model; syncs of the real one only cost time."""
    monkeypatch.setattr(files, "fsync", lambda descriptor: None)
    monkeypatch.setattr(files, "fsync_directory", lambda path: None)


def build_keyed_log(root: Path) -> Path:
    """Five closed segments with overwritten keys, tombstones, transactions and a producer's end."""
    values = [
        (b"a", b"1" * 100),
        (b"b", b"1" * 100),
        (b"c", b"1"),
        (b"a", None),
        (b"d", b"1"),
        (b"b", b"2"),
        (b"d", None),
        (b"e", b"1"),
    ]
    first = plain_batches(values[:2])
    second = plain_batches(values[2:4], base_offset=2, codec="lz4")
    third = [
        v2_batch(
            [record(b"c", b"aborted"), record(b"x", b"aborted")],
            base_offset=4,
            transactional=True,
            producer_id=7,
            producer_epoch=0,
            base_sequence=0,
        ),
        control_batch(ABORT, base_offset=6, producer_id=7, producer_epoch=0, timestamp_ms=NOW_MS),
        v2_batch(
            [record(b"f", b"committed")],
            base_offset=7,
            transactional=True,
            producer_id=8,
            producer_epoch=0,
            base_sequence=0,
        ),
        control_batch(COMMIT, base_offset=8, producer_id=8, producer_epoch=0, timestamp_ms=NOW_MS),
    ]
    fourth = plain_batches(values[4:6], base_offset=9)
    fifth = plain_batches(values[6:], base_offset=11, codec="zstd")
    log = LogBuilder(root)
    directory = log.partition(
        "t",
        0,
        [first, second, third, fourth, fifth, plain_batches([(b"z", b"end")], base_offset=13)],
        snapshots=True,
    )
    log.clean_shutdown()
    return directory


def build_aged_log(root: Path, *, all_old: bool) -> Path:
    log = LogBuilder(root)
    ages = (5000, 4000, 3000, 2000 if all_old else 0)
    directory = log.partition(
        "t",
        0,
        [
            SegmentSpec(
                [
                    v2_batch(
                        [record(b"k", b"v", NOW_MS - age)] * 2,
                        base_offset=2 * place,
                        producer_id=3,
                        producer_epoch=0,
                        base_sequence=2 * place,
                    )
                ]
            )
            for place, age in enumerate(ages)
        ],
        leader_epochs=[(0, 0), (1, 3)],
        snapshots=True,
    )
    log.clean_shutdown()
    return directory


def run_compaction(root: Path, config: CompactionConfig = STEPWISE, now_ms: int = NOW_MS) -> None:
    compact([str(root)], None, config, now_ms)


def run_retention(root: Path) -> None:
    apply_retention([str(root)], None, RETENTION, NOW_MS)


# Who looks


def values(found: list[Row]) -> list[Value]:
    return [(row.offset, row.key, row.value) for row in found]


def read(root: Path, isolation_level: str = "read_uncommitted") -> list[Value]:
    """Read as this library does, which writes nothing."""
    before = _names(root)
    log = LogManager.open([str(root)]).topic_partitions[PARTITION]
    found = scan(log, isolation_level)
    assert _names(root) == before
    return found


def scan(log: PartitionLog, isolation_level: str = "read_uncommitted") -> list[Value]:
    options = ScanOptions(columns=("offset", "key", "value"), isolation_level=isolation_level)
    found = [
        (row["offset"], row["key"], row["value"])
        for arrow_batch in log.scan(options=options)
        for row in arrow_batch.to_pylist()
    ]
    offsets = [offset for offset, _, _ in found]
    assert offsets == sorted(set(offsets))
    return found


def start_broker(root: Path) -> list[Value]:
    """Do what LogLoader does with a partition directory, then read it."""
    directory = root / "t-0"
    _remove_void_files(directory)
    swapped = [name for name in os.listdir(directory) if name.endswith(".log.swap")]
    if swapped:
        first = min(_offset(name) for name in swapped)
        end = max(_next_offset(directory / name) for name in swapped)
        for name in os.listdir(directory):
            if (
                not name.endswith(".swap")
                and name[:20].isdecimal()
                and first <= _offset(name) < end
            ):
                (directory / name).unlink()
    for name in os.listdir(directory):
        if name.endswith(".swap"):
            (directory / name).rename(directory / name.removesuffix(".swap"))
    for name in os.listdir(directory):
        if name.endswith("index") and not (directory / f"{name[:20]}.log").exists():
            (directory / name).unlink()
    start = checkpoint(directory, "log-start-offset-checkpoint") or 0
    return [value for value in values(rows(directory)) if value[0] >= start]


def _remove_void_files(directory: Path) -> None:
    names = os.listdir(directory)
    cleaned = [_offset(name) for name in names if name.endswith(".cleaned")]
    for name in names:
        is_void = name.endswith(".swap") and bool(cleaned) and _offset(name) >= min(cleaned)
        if is_void or name.endswith((".deleted", ".cleaned")):
            (directory / name).unlink()


def _offset(name: str) -> int:
    return int(name[:20])


def _next_offset(path: Path) -> int:
    batches = split_log(path.read_bytes())
    if not batches:
        return _offset(path.name)
    last = batches[-1]
    return int.from_bytes(last[:8], "big") + int.from_bytes(last[23:27], "big") + 1


def _names(root: Path) -> list[str]:
    return sorted(str(path) for path in root.rglob("*") if path.name != ".lock")


# What must hold


def check_compacted_state(root: Path, before: list[Value], after: list[Value]) -> None:
    """No row is new or changed, none that compaction keeps is missing."""
    for seen in (read(root), start_broker(_copy(root))):
        assert set(after) <= set(seen) <= set(before)
    aborted = {(4, b"c", b"aborted"), (5, b"x", b"aborted")}
    assert set(read(root, "read_committed")) == set(read(root)) - aborted


def check_compacted_end(root: Path, after: list[Value], config: CompactionConfig) -> None:
    run_compaction(root, config)
    directory = root / "t-0"
    assert values(rows(directory)) == after
    assert temporary_names(directory) == []
    check_indexes(directory)
    assert checkpoint(directory, "cleaner-offset-checkpoint") == 13


def check_retained_state(root: Path, before: list[Value], after: list[Value]) -> None:
    """All rows of before, or those of after, for the reader and for the broker."""
    assert read(root) in (before, after)
    assert start_broker(_copy(root)) in (before, after)


def check_retained_end(root: Path, after: list[Value]) -> None:
    run_retention(root)
    directory = root / "t-0"
    assert read(root) == after
    assert temporary_names(directory) == []
    assert segment_offsets(directory) == [after[0][0] if after else 8]
    epoch_rows = (directory / "leader-epoch-checkpoint").read_text().splitlines()[2:]
    assert epoch_rows == [f"1 {after[0][0] if after else 8}"]


def _copy(root: Path) -> Path:
    target = root.with_name(root.name + "-copy")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(root, target)
    return target


def count_operations(root: Path, run: Callable[[Path], None]) -> list[str]:
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(root)
        disk.watch(patch)
        run(root)
    return disk.operations


def run_whole_compaction(
    root: Path, run: Callable[[Path], None]
) -> tuple[list[Value], list[str], list[Value]]:
    """Compact a log that nothing cuts short: rows before, operations, rows after."""
    before = values(rows(build_keyed_log(root)))
    operations = count_operations(root, run)
    return before, operations, values(rows(root / "t-0"))


def run_whole_retention(root: Path, *, all_old: bool) -> tuple[list[Value], list[str], list[Value]]:
    """Apply retention that nothing cuts short: rows before, operations, rows after."""
    build_aged_log(root, all_old=all_old)
    before = read(root)
    operations = count_operations(root, run_retention)
    return before, operations, read(root)


def run_until(root: Path, run: Callable[[Path], None], operation: int) -> Disk:
    """Run up to an operation, after which the process is gone."""
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(root, stop_after=operation)
        disk.watch(patch)
        with pytest.raises(PowerLoss):
            run(root)
    return disk


# The process is killed: what it wrote is there


@pytest.mark.parametrize(
    "config", [pytest.param(MERGING, marks=pytest.mark.faults), STEPWISE], ids=["one", "several"]
)
def test_a_compaction_killed_after_any_operation_loses_no_latest_value(
    tmp_path: Path, config: CompactionConfig
) -> None:
    def run(root: Path) -> None:
        run_compaction(root, config)

    before, operations, after = run_whole_compaction(tmp_path / "whole", run)
    assert len(after) < len(before)
    for operation in range(len(operations)):
        root = tmp_path / str(operation)
        build_keyed_log(root)
        listed_before = LogManager.open([str(root)]).topic_partitions[PARTITION]
        run_until(root, run, operation)
        check_compacted_state(root, before, after)
        # A task whose files were renamed after it was planned finds its offsets again.
        assert set(after) <= set(scan(listed_before)) <= set(before)
        check_compacted_end(root, after, config)
        shutil.rmtree(root)


@pytest.mark.parametrize("all_old", [False, True], ids=["some", "all"])
def test_a_retention_pass_killed_after_any_operation_is_before_or_after(
    tmp_path: Path, all_old: bool
) -> None:
    before, operations, after = run_whole_retention(tmp_path / "whole", all_old=all_old)
    assert len(after) == (0 if all_old else 2)
    for operation in range(len(operations)):
        root = tmp_path / str(operation)
        build_aged_log(root, all_old=all_old)
        run_until(root, run_retention, operation)
        check_retained_state(root, before, after)
        check_retained_end(root, after)
        shutil.rmtree(root)


def test_tombstones_never_go_before_what_they_delete(tmp_path: Path) -> None:
    """The second pass, in which horizons are over, killed after any operation."""

    def second(root: Path) -> None:
        run_compaction(root, STEPWISE, NOW_MS + DAY_MS)

    def build(root: Path) -> list[Value]:
        directory = build_keyed_log(root)
        run_compaction(root)
        return values(rows(directory))

    whole = tmp_path / "whole"
    before = build(whole)
    operations = count_operations(whole, second)
    after = values(rows(whole / "t-0"))
    assert {key for _, key, value in before if value is None} == {b"a", b"d"}
    assert all(value is not None for _, _, value in after)
    for operation in range(len(operations)):
        root = tmp_path / str(operation)
        build(root)
        run_until(root, second, operation)
        for seen in (read(root), start_broker(_copy(root))):
            assert set(after) <= set(seen) <= set(before)
        second(root)
        assert values(rows(root / "t-0")) == after
        shutil.rmtree(root)


KILLED = """
import os, signal, sys
from pathlib import Path
import pytest
from tests.system.faults import test_retention_compaction_faults as faults
from tests.support.power_loss import Disk

root, run, operation = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
disk = Disk(root, operation, stop=lambda: os.kill(os.getpid(), signal.SIGKILL))
disk.watch(pytest.MonkeyPatch())
getattr(faults, run)(root)
"""


def run_until_killed(root: Path, run: Callable[[Path], None], operation: int) -> None:
    process = subprocess.run(
        [sys.executable, "-c", KILLED, str(root), run.__name__, str(operation)],
        env={**os.environ, "PYTHONPATH": str(PROJECT)},
        capture_output=True,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()


@pytest.mark.faults
def test_a_process_killed_with_sigkill_leaves_a_log_that_the_next_one_ends(tmp_path: Path) -> None:
    before, operations, after = run_whole_compaction(tmp_path / "whole", run_compaction)
    for operation in range(0, len(operations), 5):
        root = tmp_path / str(operation)
        build_keyed_log(root)
        run_until_killed(root, run_compaction, operation)
        check_compacted_state(root, before, after)
        check_compacted_end(root, after, STEPWISE)
    before, operations, _ = run_whole_retention(tmp_path / "aged", all_old=True)
    for operation in range(0, len(operations), 5):
        root = tmp_path / f"aged-{operation}"
        build_aged_log(root, all_old=True)
        run_until_killed(root, run_retention, operation)
        check_retained_state(root, before, [])
        check_retained_end(root, [])


# An operation fails: the pass ends with its error, the log is still usable


@pytest.mark.faults
def test_a_failing_operation_is_an_error_and_a_later_pass_ends_it(tmp_path: Path) -> None:
    error = OSError(28, "No space left on device")
    before, operations, after = run_whole_compaction(tmp_path / "whole", run_compaction)
    for operation in range(len(operations)):
        root = tmp_path / str(operation)
        build_keyed_log(root)
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(root)
            disk.watch(patch)
            _fail_once(disk, patch, operation, error)
            with pytest.raises(OSError, match=error.strerror):
                run_compaction(root)
        check_compacted_state(root, before, after)
        check_compacted_end(root, after, STEPWISE)
        shutil.rmtree(root)


def _fail_once(disk: Disk, patch: pytest.MonkeyPatch, operation: int, error: OSError) -> None:
    names = [name for name in vars(files) if hasattr(disk, f"_{name}")]
    for name in [*names, "set_modified_time"]:
        watched = getattr(files, name)

        def failing(
            *args: object, _watched: Callable[..., object] = watched, **kwargs: object
        ) -> object:
            if len(disk.operations) == operation:
                disk.operations.append("failed")
                raise error
            return _watched(*args, **kwargs)

        patch.setattr(files, name, failing)


# The power goes: what was not synced may be lost, or torn


@pytest.mark.faults
@pytest.mark.parametrize("config", [MERGING, STEPWISE], ids=["one", "several"])
def test_a_compaction_that_loses_power_after_any_operation_loses_no_latest_value(
    tmp_path: Path, config: CompactionConfig
) -> None:
    def run(root: Path) -> None:
        run_compaction(root, config)

    before, operations, after = run_whole_compaction(tmp_path / "whole", run)
    seen: set[bytes] = set()
    for operation in range(len(operations)):
        root = tmp_path / str(operation)
        build_keyed_log(root)
        disk = run_until(root, run, operation)
        for state in disk.states(tmp_path / "states", seen):
            check_compacted_state(state, before, after)
            check_compacted_end(state, after, config)
            shutil.rmtree(state)
        shutil.rmtree(root)


@pytest.mark.faults
@pytest.mark.parametrize("all_old", [False, True], ids=["some", "all"])
def test_a_retention_pass_that_loses_power_after_any_operation_is_before_or_after(
    tmp_path: Path, all_old: bool
) -> None:
    before, operations, after = run_whole_retention(tmp_path / "whole", all_old=all_old)
    seen: set[bytes] = set()
    for operation in range(len(operations)):
        root = tmp_path / str(operation)
        build_aged_log(root, all_old=all_old)
        disk = run_until(root, run_retention, operation)
        for state in disk.states(tmp_path / "states", seen):
            check_retained_state(state, before, after)
            check_retained_end(state, after)
            shutil.rmtree(state)
        shutil.rmtree(root)
