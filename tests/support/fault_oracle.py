"""What must come of a single fault: which rows, which errors, which findings.

- A FAILFAST read gives all rows of the log, or an error that names the place. A fault that leaves
  what a crash leaves (`is_end_of_a_crash`) is a normal end: all rows in front of it, and a warning.
- A PERMISSIVE read gives all rows of the batches that the fault did not touch, and none that the
  log never had; what is missing is told, as a row of `_corrupt_record` or as a warning.
  Read committed: rows whose own transaction's marker is bad may be given or not, and where no other
  marker of that producer follows, those after its begin are held back; both are told.
- Deep verification reports the fault in one line for each file that it touches, and nothing else.

What no reader can know is decided by `unknowable`, case by case, with the reason.
"""

from __future__ import annotations

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

import spark_segmentlog
from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.formats.checkpoints import (
    parse_leader_epochs,
    parse_meta_properties,
    parse_offset_checkpoint,
    parse_topic_id,
)
from spark_segmentlog.log.formats.offset_index import OffsetIndex
from spark_segmentlog.log.formats.producer_snapshot import parse_producer_snapshot
from spark_segmentlog.log.formats.time_index import TimeIndex
from spark_segmentlog.log.io.reading import LOCAL
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.record.plain.legacy import iterate_messages
from tests.support.single_faults import FIELDS_V2, TOP_FILES, Damage, Fault, Original

ISOLATION_LEVELS: Final = ("read_uncommitted", "read_committed")
COLUMNS: Final = ("offset", "key", "value", "timestamp", "timestampType")
PLACE: Final = re.compile(r"position \d+|offsets? \[?-?\d+|file /|director")

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What a read gave: rows in their order, or an error, and what it told besides."""

    rows: list[Row]
    corrupt: list[dict[str, Any]]
    warnings: list[str]
    error: SegmentLogError | None = None

    @property
    def tells(self) -> bool:
        """Whether anything was said."""
        return bool(self.corrupt or self.warnings or self.error)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What an original gives when it is whole."""

    original: Original
    rows: dict[str, list[Row]]
    findings: Counter[str]

    def untouched(self, fault: Fault, isolation_level: str) -> list[Row]:
        """Give the rows of the batches that a fault does not touch."""
        bad: list[tuple[int, int]] = []
        for path, table in self.original.tables.items():
            before = -1
            for row in range(len(table)):
                last = int(table.last_offset[row])
                if fault.touches(path, int(table.position[row]), int(table.size_bytes[row])):
                    is_wrapper = int(table.records_count[row]) < 0
                    bad.append((before + 1 if is_wrapper else int(table.base_offset[row]), last))
                before = last
        rows = self.rows[isolation_level]
        return [row for row in rows if not any(low <= row[0] <= high for low, high in bad)]

    def undecided(self, fault: Fault) -> tuple[set[int], int, int]:
        """Tell whose transactions end in what a fault touches.

        Returns
        -------
        offsets : set of int
            Of records whose own marker is touched: whether they were aborted cannot be known.
        held_from : int
            First offset of a transaction that stays open since no other marker of its producer
            follows: rows from there on are held back.
        freed_from : int
            First offset of touched data of a transaction that is open at the end: without it,
            nothing may hold rows back from there on.
        """
        touched: dict[int, int] = {}
        waiting: dict[int, list[int]] = {}
        lost: dict[int, list[int]] = {}
        offsets: set[int] = set()
        for path in self.original.logs:
            table = self.original.tables[path]
            for row in np.flatnonzero(table.is_transactional).tolist():
                producer_id = int(table.producer_id[row])
                is_touched = fault.touches(
                    path, int(table.position[row]), int(table.size_bytes[row])
                )
                if not table.is_control[row]:
                    if not is_touched:
                        span = range(int(table.base_offset[row]), int(table.last_offset[row]) + 1)
                        waiting.setdefault(producer_id, []).extend(span)
                    else:
                        touched.setdefault(producer_id, int(table.base_offset[row]))
                    continue
                touched.pop(producer_id, None)
                if is_touched:
                    ended = waiting.pop(producer_id, [])
                    offsets.update(ended)
                    lost.setdefault(producer_id, []).extend(ended)
                else:
                    waiting.pop(producer_id, None)
                    lost.pop(producer_id, None)
        held_from = min(
            (lost_range[0] for lost_range in lost.values() if lost_range), default=1 << 62
        )
        return offsets, held_from, min(touched.values(), default=1 << 62)


def learn(original: Original, directory: Path) -> Truth:
    """Read an original, and what verification says of it as it is."""
    # In a folder of its own, since other log directories beside one may be of the same broker.
    (copy,) = original.copy(directory / "log")
    rows = {}
    for level in ISOLATION_LEVELS:
        reading = read(copy, original, mode="FAILFAST", isolation_level=level)
        assert reading.error is None, (original.name, reading.error)
        rows[level] = reading.rows
    return Truth(original=original, rows=rows, findings=_findings([copy]))


@cache
def _directory_findings(broker: Path) -> Counter[str]:
    """Verify the log directories of a broker as they are."""
    return _findings(sorted(path for path in broker.iterdir() if path.is_dir()), deep=False)


def _findings(log_directories: list[Path], *, deep: bool = True) -> Counter[str]:
    paths = [str(path) for path in log_directories]
    found = verify(paths, deep=deep)
    return Counter(str(finding).replace(f"{log_directories[0].parent}/", "") for finding in found)


def read(log_directory: Path, original: Original, *, mode: str, isolation_level: str) -> Reading:
    """Read the partition of a copy."""
    topic, _, partition = original.partition.rpartition("-")
    columns = [*COLUMNS, "_corrupt_record"] if mode == "PERMISSIVE" else list(COLUMNS)
    with _listening() as warnings:
        rows: list[Row] = []
        corrupt: list[dict[str, Any]] = []
        error = None
        try:
            reader = spark_segmentlog.read_arrow(
                str(log_directory),
                columns=columns,
                mode=mode,
                fail_on_data_loss=mode == "FAILFAST",
                kafka_isolation_level=isolation_level,
                assign=json.dumps({topic: [int(partition)]}),
            )
            for batch in reader:
                lists = [batch.column(name).to_pylist() for name in columns]
                for values in zip(*lists, strict=True):
                    if mode == "PERMISSIVE" and values[-1] is not None:
                        corrupt.append(values[-1])
                    else:
                        rows.append(values[: len(COLUMNS)])
        except SegmentLogError as caught:
            error = caught
    return Reading(rows=rows, corrupt=corrupt, warnings=warnings, error=error)


def judge(truth: Truth, fault: Fault, directory: Path) -> list[str]:
    """Apply a fault to a copy; gives what does not hold then, each with the promise in front."""
    copies = truth.original.copy(directory, whole=fault.is_of_directory)
    copy = copies[0]
    fault.apply(copy)
    broken = [
        text
        for level in ISOLATION_LEVELS
        for text in (
            *_judge_failfast(truth, fault, copy, level),
            *_judge_permissive(truth, fault, copy, level),
        )
    ]
    return [*broken, *_judge_verification(truth, fault, copies)]


def _judge_failfast(truth: Truth, fault: Fault, copy: Path, level: str) -> Iterator[str]:
    reading = read(copy, truth.original, mode="FAILFAST", isolation_level=level)
    expected = truth.rows[level]
    if reading.error is not None:
        if not PLACE.search(str(reading.error)):
            yield f"place: {level} error names no place: {reading.error}"
        if reading.rows != expected[: len(reading.rows)]:
            yield f"failfast: {level} wrong rows before the error"
    elif is_end_of_a_crash(truth.original, fault):
        yield from _compare("failfast", truth, fault, reading, level)
    elif reading.rows != expected:
        yield f"failfast: {level} {_difference(reading.rows, expected)} and no error"


def _judge_permissive(truth: Truth, fault: Fault, copy: Path, level: str) -> Iterator[str]:
    reading = read(copy, truth.original, mode="PERMISSIVE", isolation_level=level)
    if reading.error is not None:
        yield f"permissive: {level} error {reading.error!r}"
    else:
        yield from _compare("permissive", truth, fault, reading, level)


def _compare(
    promise: str, truth: Truth, fault: Fault, reading: Reading, level: str
) -> Iterator[str]:
    """Compare rows with those that a fault leaves, and make sure that others are told of."""
    known, good = set(truth.rows[level]), truth.untouched(fault, level)
    offsets = [row[0] for row in reading.rows]
    if offsets != sorted(set(offsets)):
        yield f"{promise}: {level} offsets are given twice or do not ascend"
    if level == "read_committed":
        undecided, held_from, freed_from = truth.undecided(fault)
        known |= {
            row
            for row in truth.rows["read_uncommitted"]
            if row[0] in undecided or row[0] >= freed_from
        }
        good = [row for row in good if row[0] not in undecided and row[0] < held_from]
    others = [row[0] for row in reading.rows if row not in known]
    if others:
        yield f"{promise}: {level} rows that the log has not, offsets {_shown(others)}"
    given = set(reading.rows)
    lacking = [row[0] for row in good if row not in given]
    if lacking:
        yield f"{promise}: {level} good rows are missing, offsets {_shown(lacking)}"
    if reading.rows != truth.rows[level] and not reading.tells:
        yield f"untold: {level} {_difference(reading.rows, truth.rows[level])}, nothing says so"


def _judge_verification(truth: Truth, fault: Fault, copies: list[Path]) -> Iterator[str]:
    if fault.is_of_directory:
        before = _directory_findings(truth.original.log_directory.parent)
        more = sorted((_findings(copies, deep=False) - before).elements())
    else:
        more = sorted((_findings(copies) - truth.findings).elements())
    # A swap damages two files; each may be told of.
    if not more:
        yield "verify: reports nothing"
    elif len(more) > (2 if fault.damage is Damage.SWAP else 1):
        yield f"verify: reports {len(more)} lines: {more}"
    elif not all(
        any(damaged and damaged in line for damaged in (fault.path, fault.other)) for line in more
    ):
        yield f"verify: names another place: {more}"


def _difference(rows: list[Row], expected: list[Row]) -> str:
    lacking = [record[0] for record in expected if record not in set(rows)]
    added = [row[0] for row in rows if row not in set(expected)]
    return f"rows lacking {_shown(lacking)}, added {_shown(added)}"


def _shown(offsets: list[int]) -> str:
    return f"{offsets[:5]}{'...' if len(offsets) > 5 else ''} ({len(offsets)})"


@contextmanager
def _listening() -> Iterator[list[str]]:
    """Collect what the library warns of."""
    heard: list[str] = []

    class Ear(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    ear, logger = Ear(logging.WARNING), logging.getLogger("spark_segmentlog")
    logger.addHandler(ear)
    try:
        yield heard
    finally:
        logger.removeHandler(ear)


@dataclass(frozen=True, slots=True)
class Unknowable:
    """Why nothing can tell of a fault.

    Attributes
    ----------
    reason : str
    hides_rows : bool
        Whether rows may differ too; else all of them are there, and verification alone is silent.
    """

    reason: str
    hides_rows: bool = False

    def excuses(self, broken: str) -> bool:
        """Tell whether a promise that does not hold is one that nobody could keep."""
        return self.hides_rows or broken == "verify: reports nothing"


def unknowable(original: Original, fault: Fault) -> Unknowable | None:
    """Tell why no reader can know of a fault; None where one can."""
    if not (original.log_directory / fault.path).exists():
        return None
    if fault.path.endswith(".log"):
        return _unknowable_of_log(original, fault)
    name = fault.path.rpartition("/")[2]
    kind = name if "/" not in fault.path else _ending(name)
    if fault.damage is Damage.REMOVE:
        return _unknowable_removal(original, kind)
    if kind in (".index", ".timeindex"):
        return _unknowable_of_index(original, fault, kind)
    judge_content = _CONTENTS.get(kind)
    if judge_content is None:
        return None
    path = original.log_directory / fault.path
    if fault.damage is Damage.SWAP:
        pairs = [(fault.path, fault.other), (fault.other, fault.path)]
        contents = [(name, (original.log_directory / other).read_bytes()) for name, other in pairs]
    else:
        contents = [(fault.path, fault.changed(path.read_bytes()))]
    reasons = [judge_content(original, name, content) for name, content in contents]
    return Unknowable(reasons[0]) if all(reasons) else None


_REMOVABLE: Final = {
    ".kafka_cleanshutdown": "a directory without the mark is one after a crash",
    ".snapshot": "brokers delete snapshots, and other writers leave none",
}


def _unknowable_removal(original: Original, kind: str) -> Unknowable | None:
    reason = _REMOVABLE.get(kind, "")
    if kind == "meta.properties" and not all(map(original.size, TOP_FILES[:4])):
        reason = "a copy of partitions has none"
    if kind == "partition.metadata" and not original.has_metadata:
        reason = "brokers before 2.8 had none"
    if kind == "leader-epoch-checkpoint" and not _epochs(original):
        reason = "a log without leader epochs needs no checkpoint of them"
    return Unknowable(reason) if reason else None


def _unknowable_of_index(original: Original, fault: Fault, kind: str) -> Unknowable | None:
    entry_bytes = {".index": 8, ".timeindex": 12}[kind]
    before = (original.log_directory / fault.path).read_bytes()
    if fault.damage is Damage.SWAP:
        after = (original.log_directory / fault.other).read_bytes()
    else:
        after = fault.changed(before)
    if len(after) % entry_bytes:
        return None
    used, kept = (len(content.rstrip(b"\0")) for content in (before, after))
    if before[: max(used, kept)] == after[: max(used, kept)] or used == kept == 0:
        return Unknowable("how many zeros an index has after its entries is its writer's choice")
    if fault.damage is Damage.SWAP or not before.startswith(after[:kept]) or kept % entry_bytes:
        return None
    if kind == ".index":
        return Unknowable("how far apart the entries of an offset index are is its writer's choice")
    # Only a segment that was closed ends its time index with its largest timestamp.
    is_closed = original.end_of_segment(fault.path) < original.end_offset
    is_flushed = is_closed and original.end_of_segment(fault.path) <= original.recovery_point
    if original.is_clean or is_flushed:
        return None
    return Unknowable("a crash takes entries of time indexes, or comes before they are written")


def _ending(name: str) -> str:
    return name if "-" in name or name == "partition.metadata" else name[name.rindex(".") :]


# Whether the content of a small file may be right, as far as the rest of the log tells: the reason.

ContentJudge = Callable[[Original, str, bytes], str]
_ONLY_HERE: Final = "what it says now is as possible as what it said, and nothing else knows"


def _of_snapshot(original: Original, path: str, content: bytes) -> str:
    before = parse_producer_snapshot((original.log_directory / path).read_bytes())
    after = parse_producer_snapshot(content)
    if before is None or after is None:
        return ""
    kept = [record for record in before if record in after]
    is_idle = all(not record.is_in_transaction for record in before if record not in after)
    is_part = len(kept) == len(after) and is_idle
    return "a broker forgets producers that are silent for long" if is_part else ""


def _of_leader_epochs(original: Original, path: str, content: bytes) -> str:
    entries = parse_leader_epochs(content.decode(errors="replace")) if content else []
    if entries is None:
        return ""
    batches = _epochs(original)
    starts = [entry.start_offset for entry in entries]
    if not entries:
        return "" if batches else _ONLY_HERE
    is_ascending = starts == sorted(starts) and min(starts[0], entries[0].epoch) >= 0
    if not is_ascending or (original.is_clean and starts[-1] > original.end_offset):
        return ""
    for first, last, epoch in batches:
        covering = [entry for entry in entries if entry.start_offset <= first]
        is_newer = not original.is_clean and last >= original.recovery_point
        if covering and covering[-1].epoch != epoch and not is_newer:
            return ""
        if any(first < entry.start_offset <= last for entry in entries[1:]):
            return ""
    return _ONLY_HERE


def _of_clean_mark(original: Original, path: str, content: bytes) -> str:
    try:
        is_object = not content or isinstance(json.loads(content), dict)
    except ValueError:
        return ""
    return "what is in the mark of a clean stop binds nobody" if is_object else ""


def _of_offsets(original: Original, path: str, content: bytes) -> str:
    offsets = parse_offset_checkpoint(content.decode(errors="replace")) if content else {}
    if offsets is None:
        return ""
    ends = original.ends
    names = {*ends, "__cluster_metadata-0"}
    is_of_all = path.startswith(("recovery-point", "replication"))
    if not content and not path.startswith("cleaner") and original.are_checkpoints_written:
        return ""
    if original.is_clean and is_of_all and not set(ends) <= set(map(str, offsets)):
        return ""
    is_possible = all(
        (str(partition) in names or not original.is_clean)
        and 0 <= offset <= ends.get(str(partition), offset)
        for partition, offset in offsets.items()
    )
    return _ONLY_HERE if is_possible else ""


def _of_partition_metadata(original: Original, path: str, content: bytes) -> str:
    is_one = parse_topic_id(content.decode(errors="replace")) is not None
    return f"{_ONLY_HERE}: ZooKeeper had it" if is_one and not original.has_metadata else ""


def _of_meta_properties(original: Original, path: str, content: bytes) -> str:
    is_one = parse_meta_properties(content.decode(errors="replace")) is not None
    return f"{_ONLY_HERE}: directories of several brokers may lie together" if is_one else ""


_CONTENTS: Final[Mapping[str, ContentJudge]] = {
    ".kafka_cleanshutdown": _of_clean_mark,
    ".snapshot": _of_snapshot,
    "leader-epoch-checkpoint": _of_leader_epochs,
    "partition.metadata": _of_partition_metadata,
    "meta.properties": _of_meta_properties,
    "recovery-point-offset-checkpoint": _of_offsets,
    "replication-offset-checkpoint": _of_offsets,
    "log-start-offset-checkpoint": _of_offsets,
    "cleaner-offset-checkpoint": _of_offsets,
}


def _epochs(original: Original) -> list[tuple[int, int, int]]:
    """List the first and last offset and the leader epoch of batches that have one."""
    return [
        (int(table.base_offset[row]), int(table.last_offset[row]), epoch)
        for table in (original.tables[path] for path in original.logs)
        for row, epoch in enumerate(table.partition_leader_epoch.tolist())
        if epoch >= 0
    ]


def _unknowable_of_log(original: Original, fault: Fault) -> Unknowable | None:
    if fault.damage is Damage.WRITE:
        return Unknowable("no batch names its partition, and all of those are good", True)
    if not len(original.tables[fault.path]):
        return Unknowable("an empty log that is gone has taken nothing along")
    if fault.kind == "flip base offset" and _lies_between_neighbours(original, fault):
        reason = "no checksum covers a base offset, and this one still lies between its neighbours"
        return Unknowable(reason, True)
    if fault.kind == "flip leader epoch" and _may_be_newest_epoch(original, fault):
        return Unknowable("a crash may keep the newest leader epoch out of its checkpoint")
    if _is_a_gap(original, fault):
        reason = "compaction leaves such gaps at a segment's end, and no index names what was there"
        return Unknowable(reason, True)
    return None


def _may_be_newest_epoch(original: Original, fault: Fault) -> bool:
    table = original.tables[fault.path]
    row = int(np.searchsorted(table.position, fault.position, side="right")) - 1
    is_last = fault.path == original.logs[-1] and row == len(table) - 1
    place = fault.position - int(table.position[row]) - FIELDS_V2["leader epoch"][0]
    epoch = int(table.partition_leader_epoch[row])
    is_higher = 0 <= epoch < epoch ^ 1 << 8 * (3 - place) + fault.length < 1 << 31
    is_flushed = original.is_clean or int(table.last_offset[row]) < original.recovery_point
    return is_last and is_higher and not is_flushed


def is_end_of_a_crash(original: Original, fault: Fault) -> bool:
    """Tell whether a fault takes the last batches, from where nothing was flushed on.

    That is what a crash does, and so a normal end of a log: all rows in front of it are given. A
    warning tells of it, since the high watermark does.
    """
    if original.is_clean or fault.path != original.logs[-1] or not fault.path.endswith(".log"):
        return False
    table = original.tables[fault.path]
    touched = [
        row
        for row in range(len(table))
        if fault.touches(fault.path, int(table.position[row]), int(table.size_bytes[row]))
    ]
    if not touched or touched[-1] != len(table) - 1:
        return False
    is_to_the_end = fault.damage is Damage.CUT or len(touched) == 1
    is_to_the_end |= fault.position + fault.length >= table.end_position
    first_offset = max(int(table.base_offset[touched[0]]), int(Path(fault.path).stem))
    return is_to_the_end and first_offset >= original.recovery_point


def _exact_span(original: Original, path: str, row: int) -> tuple[int, int]:
    """Give the first and last offset of a batch; those of a wrapper are in its messages."""
    table = original.tables[path]
    if int(table.records_count[row]) >= 0:
        return int(table.base_offset[row]), int(table.last_offset[row])
    start = int(table.position[row])
    data = (original.log_directory / path).read_bytes()[start : start + int(table.size_bytes[row])]
    offsets = [message.offset for message in iterate_messages(data)]
    return offsets[0], offsets[-1]


def _lies_between_neighbours(original: Original, fault: Fault) -> bool:
    table = original.tables[fault.path]
    row = int(np.searchsorted(table.position, fault.position, side="right")) - 1
    place = fault.position - int(table.position[row])
    shift = 8 * (7 - place) + fault.length
    offset = int(table.base_offset[row] if table.magic[row] == 2 else table.last_offset[row])
    moved = (offset ^ 1 << shift) - offset
    first, last = (offset + moved for offset in _exact_span(original, fault.path, row))
    number = original.logs.index(fault.path)
    base_offset = int(Path(fault.path).stem)
    before = int(table.last_offset[row - 1]) if row else base_offset - 1
    if row + 1 < len(table):
        after = _exact_span(original, fault.path, row + 1)[0]
    elif number + 1 < len(original.logs):
        after = int(Path(original.logs[number + 1]).stem)
    else:
        after = base_offset + (1 << 31)
    return before < first and last < after


def _is_a_gap(original: Original, fault: Fault) -> bool:
    """Tell whether a closed segment ends early, with a whole batch, and its indexes earlier."""
    table = original.tables[fault.path]
    position = fault.position
    if fault.damage is Damage.ZERO:
        # A batch begins with the zeros of its offset.
        data = (original.log_directory / fault.path).read_bytes()
        position = len(data[:position].rstrip(b"\0"))
    rows = np.flatnonzero(table.position >= position)
    is_cut = fault.damage is Damage.CUT or fault.position + fault.length >= table.end_position
    is_at_batch = len(rows) > 0 and int(table.position[rows[0]]) <= fault.position
    if fault.damage is Damage.FLIP or not is_cut or not is_at_batch:
        return False
    if fault.path == original.logs[-1]:
        return False
    base_offset = int(Path(fault.path).stem)
    lost = int(table.last_offset[rows[0] - 1]) + 1 - base_offset if rows[0] else 0
    stem = str(original.log_directory / fault.path).removesuffix(".log")
    with (
        OffsetIndex(LOCAL.open_input(f"{stem}.index"), base_offset) as index,
        TimeIndex(LOCAL.open_input(f"{stem}.timeindex"), base_offset) as times,
    ):
        entries = index.entries()
        named = entries["position"] >= fault.position
        return not named.any() and not (times.entries()["relative_offset"] >= lost).any()
