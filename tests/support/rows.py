"""Rows of the library in the shape in which `tests.support.broker` gives a consumer's."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

import spark_segmentlog
from tests.support.broker import ConsumedRecord

Rows = dict[str, list[ConsumedRecord]]


def read_rows(log_directories: Sequence[Path], **options: Any) -> Rows:
    """Read every record by `read_arrow`, headers included, by topic and sorted."""
    paths = [str(path) for path in log_directories]
    reader = spark_segmentlog.read_arrow(paths, include_headers=True, **options)
    return by_topic(record for arrow_batch in reader for record in _records(arrow_batch))


def by_topic(records: Iterable[ConsumedRecord]) -> Rows:
    rows: Rows = defaultdict(list)
    for record in records:
        rows[record.topic].append(record)
    return {topic: sorted(found) for topic, found in sorted(rows.items())}


def _records(arrow_batch: pa.RecordBatch) -> Iterable[ConsumedRecord]:
    timestamps_us = arrow_batch.column("timestamp").cast(pa.int64()).to_pylist()
    for row, timestamp_us in zip(arrow_batch.to_pylist(), timestamps_us, strict=True):
        headers = row["headers"]
        yield ConsumedRecord(
            row["topic"],
            row["partition"],
            row["offset"],
            timestamp_us // 1000,
            row["timestampType"],
            row["key"],
            row["value"],
            None if headers is None else tuple((each["key"], each["value"]) for each in headers),
        )
