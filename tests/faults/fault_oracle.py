"""What must come of a single fault: which rows, which errors, which findings.

- A FAILFAST read gives all rows of the log, or an error that names the place.
- A PERMISSIVE read gives all rows of the batches that the fault did not touch, and none that the
  log never had; what is missing is told, as a row of `_corrupt_record` or as a warning.
- Deep verification reports the fault in one line, and nothing else.

What no reader can know is decided by `unknowable`, case by case, with the reason.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import spark_segmentlog
from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.checkpoints import (
    parse_leader_epochs,
    parse_meta_properties,
    parse_offset_checkpoint,
    parse_partition_metadata,
)
from spark_segmentlog.log.files import LOCAL
from spark_segmentlog.log.findings import Finding
from spark_segmentlog.log.offset_index import OffsetIndex
from spark_segmentlog.log.time_index import TimeIndex
from spark_segmentlog.log.verification import verify
from tests.faults.single_faults import SHOWN_BYTES, Damage, Fault, Original

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
        return [it for it in rows if not any(low <= it[0] <= high for low, high in bad)]

    def blurs_transactions(self, fault: Fault) -> bool:
        """Tell whether a fault touches a part of a transaction, or its end.

        What is open, and what was aborted, cannot be known for sure then.
        """
        return any(
            fault.touches(path, int(table.position[row]), int(table.size_bytes[row]))
            for path, table in self.original.tables.items()
            for row in np.flatnonzero(table.is_transactional).tolist()
        )


def learn(original: Original, directory: Path) -> Truth:
    """Read an original, and what verification says of it as it is."""
    # In a folder of its own, since other log directories beside one may be of the same broker.
    copy = original.copy(directory / "log")
    rows = {}
    for level in ISOLATION_LEVELS:
        reading = read(copy, original, mode="FAILFAST", isolation_level=level)
        assert reading.error is None, (original.name, reading.error)
        rows[level] = reading.rows
    findings = Counter(_described(it, copy) for it in verify(str(copy), deep=True))
    return Truth(original=original, rows=rows, findings=findings)


def read(log_directory: Path, original: Original, *, mode: str, isolation_level: str) -> Reading:
    """Read the partition of a copy."""
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
                subscribe=original.partition.rpartition("-")[0],
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
    copy = truth.original.copy(directory / "log")
    fault.apply(copy)
    broken = [
        text
        for level in ISOLATION_LEVELS
        for text in (
            *_judge_failfast(truth, fault, copy, level),
            *_judge_permissive(truth, fault, copy, level),
        )
    ]
    return [*broken, *_judge_verification(truth, fault, copy)]


def _judge_failfast(truth: Truth, fault: Fault, copy: Path, level: str) -> Iterator[str]:
    reading = read(copy, truth.original, mode="FAILFAST", isolation_level=level)
    expected = truth.rows[level]
    if reading.error is not None:
        if not PLACE.search(str(reading.error)):
            yield f"place: {level} error names no place: {reading.error}"
        if reading.rows != expected[: len(reading.rows)]:
            yield f"failfast: {level} wrong rows before the error"
    elif reading.rows != expected:
        yield f"failfast: {level} {_difference(reading.rows, expected)} and no error"


def _judge_permissive(truth: Truth, fault: Fault, copy: Path, level: str) -> Iterator[str]:
    reading = read(copy, truth.original, mode="PERMISSIVE", isolation_level=level)
    if reading.error is not None:
        yield f"permissive: {level} error {reading.error!r}"
        return
    expected, good = truth.rows[level], truth.untouched(fault, level)
    offsets = [it[0] for it in reading.rows]
    if offsets != sorted(set(offsets)):
        yield f"permissive: {level} offsets are given twice or do not ascend"
    known = set(expected)
    is_blurred = level == "read_committed" and truth.blurs_transactions(fault)
    if is_blurred:
        known |= set(truth.rows["read_uncommitted"])
    others = [it[0] for it in reading.rows if it not in known]
    if others:
        yield f"permissive: {level} rows that the log has not, offsets {_shown(others)}"
    given = set(reading.rows)
    lacking = [it[0] for it in good if it not in given]
    if lacking and not is_blurred:
        yield f"permissive: {level} good rows are missing, offsets {_shown(lacking)}"
    if len(given) < len(expected) and not reading.tells:
        yield f"untold: {level} {len(expected) - len(given)} rows are missing and nothing says so"


def _judge_verification(truth: Truth, fault: Fault, copy: Path) -> Iterator[str]:
    found = Counter(_described(it, copy) for it in verify(str(copy), deep=True))
    more = sorted((found - truth.findings).elements())
    if not more:
        yield "verify: reports nothing"
    elif len(more) > (2 if fault.damage is Damage.SWAP else 1):
        yield f"verify: reports {len(more)} lines: {more}"
    elif not any(path and path in more[0] for path in (fault.path, fault.other)):
        yield f"verify: names another place: {more}"


def _described(finding: Finding, copy: Path) -> str:
    return str(finding).replace(f"{copy}/", "")


def _difference(rows: list[Row], expected: list[Row]) -> str:
    lacking = [it[0] for it in expected if it not in set(rows)]
    added = [it[0] for it in rows if it not in set(expected)]
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


def unknowable(original: Original, fault: Fault) -> str:
    """Tell why no reader can know of a fault; an empty text where one can."""
    if not (original.log_directory / fault.path).exists():
        return ""
    if fault.path.endswith(".log"):
        return _unknowable_of_log(original, fault)
    name = fault.path.rpartition("/")[2]
    if name.endswith(".index") and _has_fewer_entries(original, fault):
        return "how far apart the entries of an offset index are is its writer's choice"
    if name.endswith("index") and _is_in_padding(original, fault):
        return "the zeros behind the entries of an index are read by nobody"
    if name.endswith(".timeindex") and _is_without_entries(original, fault):
        return "a crash leaves time indexes without entries"
    if name == ".kafka_cleanshutdown":
        return "a directory without the mark is one after a crash, and what is in it binds nobody"
    if fault.damage is Damage.REMOVE:
        return _REMOVABLE.get(name if "/" not in fault.path else _ending(name), "")
    if _is_well_formed(original, fault, name):
        return "a small file that still holds together says something else, and nothing else knows"
    return ""


_REMOVABLE: Final = {
    ".snapshot": "brokers delete snapshots, and take older ones",
    "leader-epoch-checkpoint": "brokers before 0.11 had none",
    "partition.metadata": "brokers before 2.8 had none",
    **dict.fromkeys(
        (
            "recovery-point-offset-checkpoint",
            "replication-offset-checkpoint",
            "log-start-offset-checkpoint",
            "cleaner-offset-checkpoint",
            "meta.properties",
        ),
        "a directory that no broker has used yet, and a copy of one, have none",
    ),
}


def _is_in_padding(original: Original, fault: Fault) -> bool:
    data = (original.log_directory / fault.path).read_bytes()
    used = len(data.rstrip(b"\0"))
    return fault.damage is Damage.FLIP and len(data) > SHOWN_BYTES and fault.position >= used + 12


def _is_without_entries(original: Original, fault: Fault) -> bool:
    if original.is_clean or fault.damage in (Damage.REMOVE, Damage.SWAP):
        return False
    after = fault.changed((original.log_directory / fault.path).read_bytes())
    return len(after) % 12 == 0 and not after.strip(b"\0")


def _has_fewer_entries(original: Original, fault: Fault) -> bool:
    if fault.damage in (Damage.REMOVE, Damage.SWAP):
        return False
    before = (original.log_directory / fault.path).read_bytes()
    after = fault.changed(before)
    entries = after.rstrip(b"\0")
    return len(after) % 8 == 0 and before.startswith(entries) and len(entries) % 8 == 0


def _ending(name: str) -> str:
    return name if "-" in name or name == "partition.metadata" else name[name.rindex(".") :]


def _unknowable_of_log(original: Original, fault: Fault) -> str:
    if fault.damage is not Damage.WRITE and not len(original.tables[fault.path]):
        return "an empty log that is gone has taken nothing along"
    if fault.damage is Damage.WRITE:
        return "no batch names its partition, and all of those are good"
    if fault.kind == "flip leader epoch":
        return "no checksum covers a batch's leader epoch, and no row has it"
    if fault.kind == "flip base offset" and _lies_between_neighbours(original, fault):
        return "no checksum covers a base offset, and this one still lies between its neighbours"
    if fault.path == original.logs[0] and fault.damage is Damage.REMOVE and len(original.logs) > 1:
        return "retention deletes first segments"
    if _is_a_gap(original, fault):
        return "compaction leaves such gaps at a segment's end, and no index names what was there"
    if _looks_like_a_crash(original, fault):
        return "the last batches are as a crash leaves them, behind the recovery point"
    return ""


def _lies_between_neighbours(original: Original, fault: Fault) -> bool:
    table = original.tables[fault.path]
    row = int(np.searchsorted(table.position, fault.position, side="right")) - 1
    place = fault.position - int(table.position[row])
    shift = 8 * (7 - place) + fault.length
    offset = int(table.base_offset[row] if table.magic[row] == 2 else table.last_offset[row])
    moved = (offset ^ 1 << shift) - offset
    first, last = int(table.base_offset[row]) + moved, int(table.last_offset[row]) + moved
    number = original.logs.index(fault.path)
    base_offset = int(Path(fault.path).stem)
    before = int(table.last_offset[row - 1]) if row else base_offset - 1
    if row + 1 < len(table):
        behind = int(table.base_offset[row + 1])
    elif number + 1 < len(original.logs):
        behind = int(Path(original.logs[number + 1]).stem)
    else:
        behind = base_offset + (1 << 31)
    return before < first and last < behind


def _is_a_gap(original: Original, fault: Fault) -> bool:
    """Tell whether a closed segment ends early, with a whole batch, and its indexes earlier."""
    table = original.tables[fault.path]
    rows = np.flatnonzero(table.position >= fault.position)
    is_cut = fault.damage is Damage.CUT or fault.position + fault.length >= table.end_position
    is_at_batch = len(rows) > 0 and int(table.position[rows[0]]) == fault.position
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


def _looks_like_a_crash(original: Original, fault: Fault) -> bool:
    """Tell whether only what the last batches were is gone, where a crash may have taken it."""
    if original.is_clean or fault.path != original.logs[-1]:
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


def _is_well_formed(original: Original, fault: Fault, name: str) -> bool:
    """Tell whether a small file still is one of its kind after a fault."""
    path = original.log_directory / fault.path
    if not path.exists():
        return False
    after = fault.changed(path.read_bytes()) if fault.damage is not Damage.SWAP else b""
    text = after.decode(errors="replace")
    if name.endswith(".snapshot"):
        return fault.damage is Damage.SWAP
    if not after:
        # A broker takes an empty checkpoint for one without entries.
        return name.endswith("-checkpoint")
    if name == "leader-epoch-checkpoint":
        return parse_leader_epochs(text) is not None
    if name == "partition.metadata":
        return parse_partition_metadata(text) is not None
    if name == "meta.properties":
        return parse_meta_properties(text) is not None
    if name.endswith("-offset-checkpoint"):
        return parse_offset_checkpoint(text) is not None
    return False
