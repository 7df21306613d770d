"""Whatever rows are written come back as they were: values, order and offsets."""

from __future__ import annotations

import shutil
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog import read_arrow
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.record.write.partitioner import partition_for_key
from spark_segmentlog.testing.batches import RecordSpec
from spark_segmentlog.testing.strategies import record_specs
from tests.spark.write_fixtures import HEADERS, TIMESTAMP, Sink

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONS_COUNT = 3
TOPICS = ("t", "u.v-w")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("timestamp", TIMESTAMP),
        ("headers", HEADERS),
    ]
)


@dataclass(frozen=True, slots=True)
class Row:
    """A record and where it is to go; `extra_us` is what no record can hold of its time."""

    record: RecordSpec
    topic: str
    partition: int | None
    extra_us: int

    def to_dict(self) -> dict[str, Any]:
        time = EPOCH + timedelta(milliseconds=self.record.timestamp_ms, microseconds=self.extra_us)
        headers = [{"key": name, "value": value} for name, value in self.record.headers]
        return {
            "key": self.record.key,
            "value": self.record.value,
            "topic": self.topic,
            "partition": self.partition,
            "timestamp": time,
            "headers": headers or None,
        }

    def expected(self) -> tuple[Any, ...]:
        headers = tuple((str(name), value) for name, value in self.record.headers)
        return (self.record.key, self.record.value, self.record.timestamp_ms, headers)


ROWS = st.builds(
    Row,
    record=record_specs(any_timestamp=True),
    topic=st.sampled_from(TOPICS),
    partition=st.one_of(st.none(), st.integers(0, PARTITIONS_COUNT - 1)),
    extra_us=st.sampled_from([0, 0, 999]),
)
TASKS = st.lists(st.lists(ROWS, max_size=12), min_size=1, max_size=3)
OPTIONS = st.fixed_dictionaries(
    {
        "num.partitions": st.just(PARTITIONS_COUNT),
        "compression.type": st.sampled_from(CODECS),
        "batch.size": st.sampled_from([1, 200, 65536]),
        "segment.bytes": st.sampled_from([2_000, 1 << 30]),
        "index.interval.bytes": st.sampled_from([0, 100, 4096]),
        "segment.ms": st.sampled_from([500, 604_800_000]),
    }
)


@contextmanager
def temporary_sink() -> Iterator[Sink]:
    with pytest.MonkeyPatch.context() as patch:
        folder = Path(tempfile.mkdtemp(prefix="round-trip-"))
        try:
            yield Sink(patch, [folder / "d0", folder / "d1"])
        finally:
            shutil.rmtree(folder)


def to_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row.to_dict() for row in rows], schema=SCHEMA)


def check(written: Sequence[Sequence[Row]], table: pa.Table) -> None:
    """Compare what was written, task by task, with what is read."""
    read: dict[tuple[str, int], list[tuple[Any, ...]]] = defaultdict(list)
    for row in table.to_pylist():
        place = (row["topic"], row["partition"])
        assert row["offset"] == len(read[place]), "offsets are not dense"
        headers = tuple((it["key"], it["value"]) for it in row["headers"] or ())
        time_ms = (row["timestamp"] - EPOCH) // timedelta(milliseconds=1)
        read[place].append((row["key"], row["value"], time_ms, headers))
    # A row without key and partition may be anywhere; all others are where they must be, in order.
    for topic in TOPICS:
        everywhere = sorted(
            map(repr, (row for it, rows in read.items() if it[0] == topic for row in rows))
        )
        wanted = [row for task in written for row in task if row.topic == topic]
        assert everywhere == sorted(repr(row.expected()) for row in wanted)
        for partition in range(PARTITIONS_COUNT):
            fixed = [row.expected() for row in wanted if _partition_of(row) == partition]
            assert _is_subsequence(fixed, read[topic, partition])


def _partition_of(row: Row) -> int | None:
    if row.partition is not None or row.record.key is None:
        return row.partition
    return partition_for_key(row.record.key, PARTITIONS_COUNT)


def _is_subsequence(part: Sequence[Any], whole: Sequence[Any]) -> bool:
    rest = iter(whole)
    return all(any(it == other for other in rest) for it in part)


@settings(max_examples=50)
@given(writes=st.lists(TASKS, min_size=1, max_size=3), options=OPTIONS, two_batches=st.booleans())
def test_rows_come_back_as_they_were(
    writes: list[list[list[Row]]], options: dict[str, Any], two_batches: bool
) -> None:
    with temporary_sink() as sink:
        for tasks in writes:
            sink.save(*[_cut(to_batch(task), two_batches) for task in tasks], **options)
        written = [task for tasks in writes for task in tasks]
        if any(written):
            table = read_arrow(map(str, sink.directories), include_headers=True).read_all()
            check(written, table)
        assert list(verify([str(path) for path in sink.directories], deep=True)) == []
        assert sink.staged() == []


def _cut(batch: pa.RecordBatch, two_batches: bool) -> list[pa.RecordBatch]:
    half = batch.num_rows // 2
    return [batch.slice(0, half), batch.slice(half)] if two_batches else [batch]
