"""Any rows that can be written, and whether they came back as they were."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from spark_segmentlog.testing.batches import RecordSpec
from spark_segmentlog.testing.strategies import record_specs
from tests.support.plain_partitioner import partition_for_key
from tests.support.sink import HEADERS, TIMESTAMP

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


def to_batch(rows: Sequence[Row]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([row.to_dict() for row in rows], schema=SCHEMA)


def check(written: Sequence[Sequence[Row]], table: pa.Table) -> None:
    """Compare what was written, task by task, with what is read."""
    read: dict[tuple[str, int], list[tuple[Any, ...]]] = defaultdict(list)
    for row in table.to_pylist():
        place = (row["topic"], row["partition"])
        assert row["offset"] == len(read[place]), "offsets are not dense"
        headers = tuple((header["key"], header["value"]) for header in row["headers"] or ())
        time_ms = (row["timestamp"] - EPOCH) // timedelta(milliseconds=1)
        read[place].append((row["key"], row["value"], time_ms, headers))
    # A row without key and partition may be anywhere; all others are where they must be, in order.
    for topic in TOPICS:
        everywhere = sorted(
            map(
                repr,
                (row for partition, rows in read.items() if partition[0] == topic for row in rows),
            )
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
    return all(any(row == other for other in rest) for row in part)
