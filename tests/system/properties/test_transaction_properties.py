"""Reads of random transactions equal the model's, whatever stands beside the log.

Every start and end offset; by one scan, by tasks of one segment and of few offsets, by streams; in
a directory that was shut cleanly and in one that was not; with transaction indexes and snapshots
that are right, missing, cut, of other segments or made up.
"""

from __future__ import annotations

import struct
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.log.partition.log_watch import LogWatch
from spark_segmentlog.log.partition.scan import scan_segments
from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.query.options import parse_read_options
from spark_segmentlog.query.read_plan import plan_splits
from spark_segmentlog.query.schema import default_schema, shape_rows
from spark_segmentlog.query.split_reader import ReadRequest, read_split
from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    AbortedTransactionSpec,
    LogBuilder,
    ProducerStateSpec,
    RecordSpec,
    SegmentSpec,
    control_batch,
    transaction_index_bytes,
    v2_batch,
)
from spark_segmentlog.testing.model import LogRow, PartitionModel
from tests.support.broker_data import unpack
from tests.support.reading import column, offsets, open_one, scan_options
from tests.support.stream import Stream

PRODUCERS = (1, 2, 3)
MAX_STEPS = 14
INDEX_INTERVAL_BYTES = 120

Step = tuple[str, int | None, int, int]

epochs = st.integers(0, 2)
steps = st.one_of(
    st.tuples(st.just("data"), st.sampled_from((None, *PRODUCERS)), st.integers(1, 3), epochs),
    st.tuples(st.just("data"), st.sampled_from(PRODUCERS), st.integers(1, 3), epochs),
    st.tuples(st.sampled_from(("abort", "commit")), st.sampled_from(PRODUCERS), st.just(1), epochs),
    st.tuples(st.just("emptied data"), st.sampled_from(PRODUCERS), st.integers(1, 2), epochs),
    st.tuples(st.just("emptied marker"), st.sampled_from(PRODUCERS), st.just(1), epochs),
    st.tuples(st.just("gone"), st.none(), st.integers(1, 3), epochs),
    st.tuples(st.just("roll"), st.none(), st.just(0), epochs),
)
small_offsets = st.integers(-2, 30)
index_entries = st.lists(
    st.builds(
        AbortedTransactionSpec,
        producer_id=st.sampled_from((*PRODUCERS, 9)),
        first_offset=small_offsets,
        last_offset=small_offsets,
        last_stable_offset=small_offsets,
    ),
    max_size=3,
).map(transaction_index_bytes)
# False for none, True for the right one, a number for that of another segment.
indexes = st.one_of(
    st.booleans(), st.integers(0, 3), index_entries, st.binary(max_size=80), st.just(bytes(34))
)
made_up_snapshots = st.dictionaries(
    st.integers(0, 30),
    st.lists(
        st.builds(
            ProducerStateSpec,
            producer_id=st.sampled_from((*PRODUCERS, 9)),
            last_offset=small_offsets,
            current_txn_first_offset=small_offsets,
        ),
        max_size=3,
    ),
    max_size=4,
)
surroundings = st.fixed_dictionaries(
    {
        "clean": st.booleans(),
        "recovery_point": st.none() | st.integers(0, 30),
        "indexes": st.lists(indexes, min_size=MAX_STEPS + 1, max_size=MAX_STEPS + 1),
        "snapshots": st.booleans() | made_up_snapshots,
    }
)


@dataclass(slots=True)
class TransactionLog:
    """Batches by segment, with the model that they were appended to."""

    segments: list[list[bytes]] = field(default_factory=lambda: [[]])
    bases: list[int] = field(default_factory=lambda: [0])
    model: PartitionModel = field(default_factory=PartitionModel)
    gone: int = 0

    def apply(self, step: tuple[str, int | None, int, int]) -> None:
        kind, producer_id, count, epoch = step
        if kind == "gone":
            # Offsets are missing in front of a batch only: the last one tells where a log ends.
            self.gone += count
            return
        self.model.skip_offsets(self.gone if kind != "roll" else 0)
        self.gone = 0 if kind != "roll" else self.gone
        base = self.model.log_end_offset
        if kind == "roll":
            if base > self.bases[-1]:
                self.segments.append([])
                self.bases.append(base)
        elif kind in ("abort", "commit"):
            assert producer_id is not None
            marker = COMMIT if kind == "commit" else ABORT
            self._add(
                control_batch(
                    marker, base_offset=base, producer_id=producer_id, producer_epoch=epoch
                )
            )
            self.model.end_transaction(producer_id, commit=kind == "commit")
        elif kind == "emptied marker":
            self._add(_batch(base, 0, producer_id, epoch, last_offset_delta=0, control=True))
            self.model.skip_offsets(1)
        else:
            self._take_data(kind, producer_id, count, epoch)

    def _take_data(self, kind: str, producer_id: int | None, count: int, epoch: int) -> None:
        base = self.model.log_end_offset
        held = 0 if kind == "emptied data" else count
        self._add(_batch(base, held, producer_id, epoch, last_offset_delta=count - 1))
        rows = [LogRow(offset=base + place, timestamp_ms=0) for place in range(held)]
        self.model.append(rows, next_offset=base + count, producer_id=producer_id)

    def _add(self, batch: bytes) -> None:
        self.segments[-1].append(batch)

    def write(self, path: Path, state: dict[str, object]) -> None:
        """Write it with what stands beside it."""
        builder = LogBuilder(path)
        right = self._right_indexes(path)
        chosen = state["indexes"]
        assert isinstance(chosen, list)
        specs = []
        for place, batches in enumerate(self.segments):
            index = chosen[place]
            if not isinstance(index, bool | bytes):
                index = right[index % len(right)]
            specs.append(
                SegmentSpec(
                    batches,
                    base_offset=self.bases[place],
                    transaction_index=index,
                    index_interval_bytes=INDEX_INTERVAL_BYTES,
                )
            )
        builder.partition("t", 0, specs, snapshots=state["snapshots"])  # type: ignore[arg-type]
        if state["clean"]:
            builder.clean_shutdown()
        if isinstance(state["recovery_point"], int):
            end = self.model.log_end_offset
            builder.recovery_points({("t", 0): min(state["recovery_point"], end)})

    def _right_indexes(self, path: Path) -> list[bytes]:
        with tempfile.TemporaryDirectory(dir=path.parent) as other:
            specs = [
                SegmentSpec(batches, base_offset=base)
                for batches, base in zip(self.segments, self.bases, strict=True)
            ]
            directory = LogBuilder(other).partition("t", 0, specs)
            paths = [directory / f"{base:020d}.txnindex" for base in self.bases]
            return [path.read_bytes() if path.exists() else b"" for path in paths]


def _batch(base: int, count: int, producer_id: int | None, epoch: int, **fields: Any) -> bytes:
    records = [RecordSpec(value=b"%d" % (base + place), timestamp_ms=0) for place in range(count)]
    return v2_batch(
        records,
        base_offset=base,
        transactional=producer_id is not None,
        producer_id=-1 if producer_id is None else producer_id,
        producer_epoch=-1 if producer_id is None else epoch,
        **fields,
    )


@st.composite
def transaction_logs(draw: st.DrawFn) -> TransactionLog:
    """Logs of up to some thirty offsets, most of them in transactions."""
    log = TransactionLog()
    for step in draw(st.lists(steps, max_size=MAX_STEPS)):
        log.apply(step)
    return log


def _split_offsets(path: Path, **options: str) -> list[int]:
    """Read with the options of a batch, each split as a task of its own."""
    given = {"path": str(path), "kafka.isolation.level": "read_committed", **options}
    parsed = parse_read_options(given)
    request = ReadRequest(options=parsed, shape=shape_rows(default_schema(parsed), parsed))
    return [
        offset
        for split in plan_splits(parsed)
        for offset in column(read_split(split, request), "offset")
    ]


def _written(log: TransactionLog, directory: str, state: dict[str, object]) -> Path:
    path = Path(directory) / "log"
    log.write(path, state)
    return path


@settings(max_examples=15)
@given(transaction_logs(), surroundings)
def test_every_range_gives_the_rows_of_the_whole_read_that_lie_in_it(
    log: TransactionLog, state: dict[str, Any]
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = _written(log, directory, state)
        partition = open_one(path)
        end = log.model.log_end_offset
        stable = log.model.last_stable_offset
        assert (partition.log_end_offset, partition.last_stable_offset()) == (end, stable)
        for start in range(end + 1):
            for stop in range(start, end + 1):
                rows = log.model.rows(start, stop, read_committed=True)
                expected = [row.offset for row in rows]
                assert offsets(partition, start=start, end=stop, committed=True) == expected
                segments = partition.segments_between(start, min(stop, stable))
                wanted = scan_options(start=start, end=min(stop, stable), committed=True)
                assert column(scan_segments(segments, wanted), "offset") == expected


@settings(max_examples=15)
@given(transaction_logs(), surroundings, st.integers(1, 7))
def test_every_way_of_cutting_gives_the_rows_of_the_whole_read(
    log: TransactionLog, state: dict[str, Any], count: int
) -> None:
    expected = [row.offset for row in log.model.rows(read_committed=True)]
    with tempfile.TemporaryDirectory() as directory:
        path = _written(log, directory, state)
        for options in (
            {},
            {"minPartitions": str(5 * count)},
            {"maxRecordsPerPartition": str(count)},
            {"maxPartitionBytes": str(100 * count)},
            {"mode": "DROPMALFORMED", "maxRecordsPerPartition": str(count)},
            {"kafka.check.crcs": "false", "maxRecordsPerPartition": str(count)},
        ):
            assert _split_offsets(path, **options) == expected
        streaming: dict[str, Any] = {
            "kafka.isolation.level": "read_committed",
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(count),
        }
        stream = Stream(path, **streaming)
        assert [offset for batch in stream.run() for offset in batch] == expected


@settings(max_examples=15)
@given(st.lists(steps, max_size=MAX_STEPS), st.lists(steps, max_size=MAX_STEPS), surroundings)
def test_the_last_stable_offset_follows_a_log_that_grows(
    first: list[Step], more: list[Step], state: dict[str, Any]
) -> None:
    state = {**state, "indexes": [*state["indexes"], *state["indexes"]]}
    log = TransactionLog()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "log"
        watch = LogWatch([str(path)])
        for part in (first, more):
            for step in part:
                log.apply(step)
            log.write(path, state)
            (partition,) = watch.refresh().values()
            assert partition.last_stable_offset() == log.model.last_stable_offset


@settings(max_examples=25)
@given(transaction_logs(), surroundings)
def test_verify_names_a_wrong_transaction_index_and_recover_mends_it(
    log: TransactionLog, state: dict[str, Any]
) -> None:
    """Which ones are wrong is told by comparing bytes; an entry about what is gone may stay."""
    with tempfile.TemporaryDirectory() as directory:
        path = _written(log, directory, {**state, "snapshots": False})
        right = dict(zip(log.bases, log._right_indexes(path), strict=True))
        found = {
            finding.path
            for finding in verify(str(path))
            if str(finding.kind) == "transaction index"
        }
        for base, expected in right.items():
            index = path / "t-0" / f"{base:020d}.txnindex"
            held = index.read_bytes() if index.exists() else b""
            if str(index) in found:
                assert held != expected
            elif held != expected:
                assert _speaks_of_what_is_gone(log, held, expected)
        recover(str(path))
        assert not [
            finding for finding in verify(str(path)) if str(finding.kind) == "transaction index"
        ]


def _speaks_of_what_is_gone(log: TransactionLog, held: bytes, expected: bytes) -> bool:
    """Tell whether an index differs only where it names offsets that no batch covers any more."""
    covered = set()
    for batch in (batch for segment in log.segments for batch in segment):
        base, last_delta = struct.unpack_from(">q15xi", batch)
        covered |= set(range(base, base + last_delta + 1))
    told = {entry[3]: entry for entry in struct.iter_unpack(">hqqqq", expected)}
    entries = {entry[3]: entry for entry in struct.iter_unpack(">hqqqq", held)}
    if told.keys() - entries.keys():
        return False
    for marker, entry in entries.items():
        usual = told.get(marker, (0, entry[1], None, marker, marker + 1))
        if entry[:2] != usual[:2]:
            return False
        if any(entry[place] != usual[place] and entry[place] in covered for place in (2, 4)):
            return False
    return True


# The log of a real broker


@pytest.mark.parametrize("state", ["clean", "crashed"])
@pytest.mark.parametrize("damage", ["none", "missing", "empty", "cut", "zeroed", "flipped"])
def test_a_brokers_log_gives_the_same_rows_however_it_is_cut(
    tmp_path: Path, state: str, damage: str
) -> None:
    log = unpack("kafka-4.3.1-java-transactions", state, tmp_path)
    truth = log.truth("read_committed")
    expected = sorted(
        (topic, partition, row["offset"])
        for (topic, partition), rows in truth.items()
        for row in rows
    )
    for path in tmp_path.rglob("*.txnindex"):
        _damage(path, damage)
    for options in ({}, {"minPartitions": "200"}, {"maxRecordsPerPartition": "3"}):
        given = {
            "paths": "["
            + ",".join(f'"{log_directory}"' for log_directory in log.log_directories)
            + "]",
            "kafka.isolation.level": "read_committed",
            **options,
        }
        parsed = parse_read_options(given)
        request = ReadRequest(options=parsed, shape=shape_rows(default_schema(parsed), parsed))
        found = [
            (row["topic"], row["partition"], row["offset"])
            for split in plan_splits(parsed)
            for batch in read_split(split, request)
            for row in batch.select(["topic", "partition", "offset"]).to_pylist()
        ]
        assert sorted(found) == expected


def _damage(path: Path, damage: str) -> None:
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    elif damage == "empty":
        path.write_bytes(b"")
    elif damage == "cut":
        path.write_bytes(data[:-34])
    elif damage == "zeroed":
        path.write_bytes(bytes(len(data)))
    elif damage == "flipped":
        path.write_bytes(data[:9] + bytes([data[9] ^ 1]) + data[10:])
