"""Every path on which the library writes or mends, each as something that can be run again.

A path has a folder to begin with, and a run of it that ends in the same state however often it was
cut short and begun again: a commit has an application and a version, an append goes on at the log's
end. What a run was told to be done it reports, so that it can be looked for after a crash.
"""

from __future__ import annotations

import shutil
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.log.upkeep.compaction import compact
from spark_segmentlog.log.upkeep.compaction_config import CompactionConfig
from spark_segmentlog.log.upkeep.recovery import recover, reindex
from spark_segmentlog.log.upkeep.retention import apply_retention
from spark_segmentlog.log.upkeep.retention_config import RetentionConfig
from spark_segmentlog.log.upkeep.salvage import UNFINISHED_SUFFIX, salvage
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.log.write.open_commits import locked_for_writing
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from tests.support.fault_layer import Faults, Killed
from tests.support.scenarios import MARK, START_MS, Rows, Writing, read_indexes, read_rows, stage

T0 = TopicPartition("t", 0)
NOW_MS = START_MS + 86_400_000
INDEX_INTERVAL_BYTES = 200
OPTIONS: dict[str, Any] = {
    "segment_bytes": 700,
    "batch_size": 400,
    "index_interval_bytes": INDEX_INTERVAL_BYTES,
}
WIDE: dict[str, Any] = {**OPTIONS, "segment_bytes": 1 << 20}
SMALL = SegmentConfig(segment_bytes=1000, index_interval_bytes=INDEX_INTERVAL_BYTES)
LOOKED_UP = 5
SALVAGED_FROM = "source"
MARK_NAME = ".kafka_cleanshutdown"
# What differs from run to run: locks, counters, when a segment was made, a new topic's random id.
DIFFERENT = (
    *(".lock", ".segmentlog-writer", ".segmentlog-versions", ".segmentlog-tail"),
    *("partition.metadata", MARK_NAME),
)

# Takes how many rows there are, and whether a power cut leaves them.
Report = Callable[[int, bool], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class WritingPath:
    """One way to write.

    Attributes
    ----------
    prepare : callable
        Makes the log directories, in folders of a folder that is empty.
    run : callable
        Does the work in such a folder; told of a function that takes how many rows last.
    allows : str
        What a reader may see after a crash: all rows of before or all of after ("whole"), some of
        them in their order ("prefix"), those of after and any of before ("between"), or an error of
        bad bytes too ("damaged").
    is_exact : bool
        Whether the files end the same, byte for byte, and not the rows alone.
    keeps_mark : bool
        Whether the clean-shutdown mark is there at the end, also when it was cut short before.
    """

    name: str
    prepare: Callable[[Path], None]
    run: Callable[[Path, Report], None]
    allows: str
    is_exact: bool = True
    keeps_mark: bool = True


@dataclass(slots=True)
class Progress:
    """How many rows a run was told to be there, and to last, over all partitions."""

    written: int = 0
    durable: int = 0

    def report(self, rows: int, is_durable: bool) -> None:
        self.written = rows
        if is_durable:
            self.durable = rows


def ignore(rows: int, is_durable: bool) -> None:
    """Take a report that nobody wants."""


@dataclass(frozen=True, slots=True)
class EndState:
    """What a folder holds once a path has been run: its rows, and its files."""

    rows: Rows
    files: dict[str, bytes] = field(repr=False)


def directories(root: Path) -> list[str]:
    """List the log directories, but for one that is only read, and one that is half made."""
    return [
        str(path)
        for path in sorted(root.iterdir())
        if path.name != SALVAGED_FROM and path.suffix != UNFINISHED_SUFFIX
    ]


def end_state(root: Path) -> EndState:
    return EndState(read_rows(directories(root)), kept_files(root))


def kept_files(root: Path) -> dict[str, bytes]:
    """Give all that a broker, or a reader, finds: what waits to be unlinked is no part of it."""
    return {
        str(path): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file()
        and not path.name.endswith((".deleted", ".tmp", ".staged"))
        and path.name not in DIFFERENT
    }


def unsynced_files(root: Path) -> set[str]:
    """Name what a power cut may take: a last segment's indexes, where there is no mark."""
    return {
        str(last)
        for directory in root.iterdir()
        if not (directory / MARK_NAME).exists()
        for folder in directory.glob("*-*/")
        for suffix in (".index", ".timeindex")
        for last in sorted(folder.glob(f"*{suffix}"))[-1:]
    }


def check_topic_ids(root: Path) -> None:
    """Check that all partitions of a topic have one id."""
    ids: dict[str, set[str]] = defaultdict(set)
    for path in root.glob("*/*/partition.metadata"):
        ids[path.parent.name.rpartition("-")[0]].add(path.read_text())
    assert all(len(found) == 1 for found in ids.values()), ids


def seen_rows(root: Path) -> Rows | None:
    """Read as a reader does that mends nothing; None for an error of bad bytes."""
    try:
        return read_rows(directories(root))
    except CorruptRecordError:
        return None


# Lookups


def check_lookups(places: list[str], phase: int) -> None:
    """Compare a share of the time and offset lookups with a full scan."""
    manager = LogManager.open(places)
    for topic_partition, (start, end) in manager.offset_bounds().items():
        log = manager.partition_log(topic_partition)
        found = _offsets_and_times(log, start, end)
        _check_times(log, found, phase)
        for offset, _ in found[phase % LOOKED_UP :: LOOKED_UP]:
            assert _offsets_and_times(log, offset, offset + 1)[0][0] == offset


def _offsets_and_times(log: PartitionLog, start: int, end: int) -> list[tuple[int, int]]:
    rows: list[tuple[int, int]] = []
    options = ScanOptions(columns=("offset", "timestamp"))
    for batch in log.scan(start_offset=start, end_offset=end, options=options):
        times = batch.column("timestamp").cast(pa.int64()).to_numpy() // 1000
        rows.extend(zip(batch.column("offset").to_pylist(), times.tolist(), strict=True))
    return rows


def _check_times(log: PartitionLog, rows: list[tuple[int, int]], phase: int) -> None:
    for wanted in [0, *sorted({time for _, time in rows})[phase % LOOKED_UP :: LOOKED_UP]]:
        first = next((offset for offset, time in rows if time >= wanted), None)
        found = log.offset_for_timestamp(wanted)
        assert (found and found[0]) == first, (log.topic_partition, wanted)
    latest = max((time for _, time in rows), default=0)
    assert log.offset_for_timestamp(latest + 1) is None


def check_indexes(root: Path) -> None:
    """Compare the indexes with rebuilt ones."""
    found = read_indexes(directories(root))
    reindex(directories(root), index_interval_bytes=INDEX_INTERVAL_BYTES)
    assert read_indexes(directories(root)) == found


# Appends


def rows_from(offset: int, count: int) -> pa.RecordBatch:
    """Make rows that are told by their offset, every fifth with a key of its own."""
    offsets = np.arange(offset, offset + count)
    keys = [f"own{offset}" if offset % 5 == 0 else f"k{offset % 3}" for offset in offsets]
    return pa.record_batch(
        {
            "key": pa.array([key.encode() for key in keys], pa.binary()),
            "value": pa.array([f"{offset}/".encode() * 8 for offset in offsets], pa.binary()),
            "timestamp": pa.array(START_MS + offsets * 17 + offsets * 7 % 50),
        }
    )


def append_up_to(root: Path, end: int, options: dict[str, Any], report: Report) -> None:
    """Append six rows at a time after those that are there."""
    with open_log(str(root / "d0"), **options) as log:
        log.create_topic("t", 1)
        done = log.log_end_offset("t", 0)
        while done < end:
            log.append("t", rows_from(done, min(6, end - done)))
            done = log.log_end_offset("t", 0)
            report(done, False)
            if done % 12 == 0:
                log.flush()
                report(done, True)
    report(end, True)


def make_log(root: Path, rows: int = 36, *, marked: bool = True) -> Path:
    append_up_to(root, rows, OPTIONS, ignore)
    mark = root / "d0" / MARK_NAME
    if marked:
        mark.write_bytes(MARK)
    return root / "d0" / "t-0"


def make_marked(root: Path) -> None:
    make_log(root)


def make_torn(root: Path) -> None:
    """A log whose writer died: half a batch at its end, the last indexes empty."""
    folder = make_log(root, 24, marked=False)
    last = sorted(folder.glob("*.log"))[-1]
    last.write_bytes(last.read_bytes() + last.read_bytes()[:100])
    for suffix in (".index", ".timeindex"):
        last.with_suffix(suffix).write_bytes(b"")
    (folder / ".segmentlog-tail").unlink(missing_ok=True)


def cut_tail(root: Path) -> None:
    """Open the log, which cuts off what is no whole batch, and append nothing."""
    with open_log(str(root / "d0")) as log:
        log.log_end_offset("t", 0)


def append(root: Path, report: Report) -> None:
    append_up_to(root, 60, WIDE, report)


def roll(root: Path, report: Report) -> None:
    append_up_to(root, 60, OPTIONS, report)


def create(root: Path, report: Report) -> None:
    with open_log(str(root / "d0")) as log:
        log.create_topic("made", 3)


# Commits

OLD, NEW = TopicPartition("old", 0), TopicPartition("new", 0)


def make_two(root: Path) -> None:
    """Two log directories, the first cleanly shut, with a topic of one partition in it."""
    for name in ("d0", "d1"):
        (root / name).mkdir()
    _stage_and_commit(root, [Writing({OLD: 8})])
    (root / "d0" / MARK_NAME).write_bytes(MARK)


def _stage_and_commit(root: Path, tasks: list[Writing], **request: Any) -> None:
    # As every write does before it is planned: a commit that is open is ended first.
    with locked_for_writing(directories(root)):
        pass
    commit_staged_batches(
        stage(directories(root), tasks, config=SMALL, new_partition_count=1, **request)
    )


def commit(root: Path, report: Report) -> None:
    """Append to the last segment, make one of a staged file, and make a topic elsewhere."""
    tasks = [Writing({OLD: 2, NEW: 2}), Writing({OLD: 9})]
    _stage_and_commit(root, tasks, application="app", version=3)
    report(21, True)


def overwrite(root: Path, report: Report) -> None:
    tasks = [Writing({OLD: 3})]
    _stage_and_commit(root, tasks, overwrite=True, application="app", version=3)
    report(3, True)


def make_open_commit(root: Path) -> None:
    """A commit that died after its first copy."""
    make_two(root)
    with pytest.MonkeyPatch.context() as patch:
        counting = root.with_name(root.name + "-counting")
        shutil.copytree(root, counting)
        faults = Faults(patch)
        commit(counting, ignore)
        shutil.rmtree(counting)
    die_at(root, commit, faults.names.index("copy_range") + 1)


def end_commit(root: Path, report: Report) -> None:
    recover(directories(root))
    report(21, True)


def die_at(root: Path, run: Callable[[Path, Report], None], operation: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Faults(patch, kill_at=operation)
        with pytest.raises(Killed):
            run(root, ignore)


# Retention and compaction


def retain(root: Path, report: Report) -> None:
    config = RetentionConfig(retention_bytes=700, retention_ms=-1, file_delete_delay_ms=0)
    apply_retention(directories(root), ["t"], config, now_ms=NOW_MS)


def retain_nothing(root: Path, report: Report) -> None:
    config = RetentionConfig(retention_ms=1000, file_delete_delay_ms=0)
    apply_retention(directories(root), ["t"], config, now_ms=NOW_MS)


def compact_all(root: Path, report: Report) -> None:
    config = CompactionConfig(file_delete_delay_ms=0, segment=SMALL)
    compact(directories(root), ["t"], config, now_ms=NOW_MS)


def make_open_compaction(root: Path) -> None:
    """A compaction that died when all new segments were there, and none of the old ones gone."""
    folder = make_log(root)
    for operation in range(1000):
        shutil.rmtree(root / "d0")
        make_log(root)
        die_at(root, compact_all, operation)
        names = [path.name for path in folder.iterdir()]
        is_swapped = any(name.endswith(".log.swap") for name in names)
        if is_swapped and not any(name.endswith(".cleaned") for name in names):
            return


def end_compaction(root: Path, report: Report) -> None:
    recover(directories(root), index_interval_bytes=INDEX_INTERVAL_BYTES)


# Mending


def make_damaged(root: Path) -> None:
    """Bad bytes in the middle of the second segment, others after it."""
    folder = make_log(root)
    second = sorted(folder.glob("*.log"))[1]
    data = bytearray(second.read_bytes())
    data[len(data) // 2 + 80] ^= 0xFF
    second.write_bytes(data)


def make_unindexed(root: Path) -> None:
    """Indexes that are missing, empty, flipped or of another segment."""
    folder = make_log(root)
    indexes = [sorted(folder.glob(f"*{suffix}")) for suffix in (".index", ".timeindex")]
    indexes[0][0].unlink()
    indexes[1][0].write_bytes(indexes[1][1].read_bytes())
    indexes[0][1].write_bytes(b"")
    data = bytearray(indexes[1][1].read_bytes())
    data[0] ^= 0x40
    indexes[1][1].write_bytes(data)


def cut(root: Path, report: Report) -> None:
    recover(
        directories(root),
        truncate=True,
        delete_later=True,
        index_interval_bytes=INDEX_INTERVAL_BYTES,
    )


def cut_bad(root: Path, report: Report) -> None:
    recover(
        directories(root),
        truncate=True,
        cut_bad_batches=True,
        index_interval_bytes=INDEX_INTERVAL_BYTES,
    )


def make_damaged_twice(root: Path) -> None:
    """Bad bytes in the middle of the second segment, and of the last one, which ends torn."""
    make_damaged(root)
    last = sorted((root / "d0" / "t-0").glob("*.log"))[-1]
    data = bytearray(last.read_bytes())
    data[80] ^= 0xFF
    last.write_bytes(data + data[:100])


def mend(root: Path, report: Report) -> None:
    recover(directories(root), truncate=True, index_interval_bytes=INDEX_INTERVAL_BYTES)


def make_indexes(root: Path, report: Report) -> None:
    reindex(directories(root), index_interval_bytes=INDEX_INTERVAL_BYTES)


# Salvage


def make_source(root: Path) -> None:
    """A damaged log, an empty folder for what is good of it, and a log beside that."""
    make_damaged(root)
    (root / "d0").rename(root / SALVAGED_FROM)
    (root / "d0").mkdir()
    LogBuilder(root / "d1").partition("u", 0, [[v2_batch([RecordSpec(value=b"beside")])]])


def salvage_all(root: Path, report: Report) -> None:
    """Salvage, as a person does who deletes what an earlier run left half made."""
    target = root / "d0"
    shutil.rmtree(f"{target}{UNFINISHED_SUFFIX}", ignore_errors=True)
    if not (target.exists() and any(target.iterdir())):
        salvage(str(root / SALVAGED_FROM), str(target))
    report(1, True)


def _path(
    name: str,
    prepare: Callable[[Path], None],
    run: Callable[[Path, Report], None],
    allows: str = "whole",
    **options: bool,
) -> WritingPath:
    return WritingPath(name=name, prepare=prepare, run=run, allows=allows, **options)


PATHS = [
    _path("commit", make_two, commit),
    _path("overwrite", make_two, overwrite),
    _path("recover commit", make_open_commit, end_commit),
    _path("append", make_marked, append, "prefix", is_exact=False, keeps_mark=False),
    _path("roll", make_marked, roll, "prefix", is_exact=False, keeps_mark=False),
    _path("append to torn", make_torn, append, "prefix", is_exact=False, keeps_mark=False),
    _path("create", make_marked, create, keeps_mark=False),
    _path("retain", make_marked, retain),
    _path("retain nothing", make_marked, retain_nothing),
    _path("compact", make_marked, compact_all, "between"),
    _path("recover compaction", make_open_compaction, end_compaction, "between"),
    _path("recover cut", make_damaged, cut, "damaged", keeps_mark=False),
    _path("recover bad batches", make_damaged_twice, cut_bad, "damaged", keeps_mark=False),
    _path("recover tail", make_torn, mend, keeps_mark=False),
    _path("recover indexes", make_unindexed, mend),
    _path("reindex", make_marked, make_indexes),
    _path("salvage", make_source, salvage_all, keeps_mark=False),
]
