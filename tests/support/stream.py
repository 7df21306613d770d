"""Growing logs for tests of the stream source, and a reader that is driven as Spark drives it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_segmentlog.log.names import segment_file_name
from spark_segmentlog.query.options import parse_read_options
from spark_segmentlog.query.schema import default_schema, shape_rows
from spark_segmentlog.query.split_reader import ReadRequest
from spark_segmentlog.query.stream_planner import StreamPlanner
from spark_segmentlog.spark.stream_reader import make_stream_reader
from spark_segmentlog.testing.builder import (
    ATTRIBUTE_TRANSACTIONAL,
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    v2_batch,
)

JsonOffsets = dict[str, dict[str, int]]


def batch(
    base_offset: int, count: int = 1, *, size: int = 10, timestamp_ms: int = 1000, **header: Any
) -> bytes:
    """Build a batch whose values tell their offsets."""
    records = [
        RecordSpec(
            key=b"%06d" % (base_offset + delta), value=b"v" * size, timestamp_ms=timestamp_ms
        )
        for delta in range(count)
    ]
    return v2_batch(records, base_offset=base_offset, **header)


def transactional(base_offset: int, count: int = 1, *, producer_id: int) -> bytes:
    return batch(
        base_offset,
        count,
        producer_id=producer_id,
        producer_epoch=0,
        attributes=ATTRIBUTE_TRANSACTIONAL,
    )


class GrowingLog:
    """One log directory whose partitions get batches one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.builder = LogBuilder(path)

    def create(self, partition: int = 0, *, topic: str = "t", base: int = 0, **more: Any) -> Path:
        segment = SegmentSpec([], base_offset=base)
        return self.builder.partition(topic, partition, [segment], **more)

    def append(self, *batches: bytes, partition: int = 0, topic: str = "t", base: int = 0) -> None:
        directory = self.path / f"{topic}-{partition}"
        if not directory.exists():
            self.create(partition, topic=topic)
        with open(directory / segment_file_name(base), "ab") as file:
            file.write(b"".join(batches))

    def segment(self, partition: int = 0, *, topic: str = "t", base: int = 0) -> Path:
        return self.path / f"{topic}-{partition}" / segment_file_name(base)

    def cut(self, size_bytes: int, partition: int = 0, *, base: int = 0) -> None:
        os.truncate(self.segment(partition, base=base), size_bytes)


class Stream:
    """A query over a log: what Spark calls, in its order, and a checkpoint in memory."""

    def __init__(
        self,
        path: Path | list[Path],
        *,
        committed: JsonOffsets | None = None,
        available_now: bool = False,
        clock_ms: Any = None,
        **options: Any,
    ) -> None:
        paths = path if isinstance(path, list) else [path]
        given = {"paths": str([str(path) for path in paths]).replace("'", '"')}
        given |= {name: str(value) for name, value in options.items()}
        parsed = parse_read_options(given, streaming=True)
        request = ReadRequest(options=parsed, shape=shape_rows(default_schema(parsed), parsed))
        self.reader = make_stream_reader(request)
        if clock_ms is not None:
            self.reader._planner = StreamPlanner(parsed, clock_ms=clock_ms)
        if available_now:
            limited: Any = self.reader
            limited.prepareForTriggerAvailableNow()
        self.limit = self.reader.getDefaultReadLimit()
        self.committed = committed

    def trigger(self) -> list[int] | None:
        """Run one trigger: the offsets that were read, or None where nothing was new."""
        batches = self.trigger_batches()
        return None if batches is None else _column(batches, "offset")

    def trigger_batches(self) -> list[pa.RecordBatch] | None:
        """Run one trigger: the Arrow batches of its tasks, or None where nothing was new."""
        start = self.committed
        if start is None:
            start = self.reader.initialOffset()
        end = self.reader.latestOffset(start, self.limit)
        if self.committed is not None and end == self.committed:
            return None
        if self.committed is None:
            start = self.reader.initialOffset()
        batches = self.batches(start, end)
        self.committed = end
        return batches

    def run(self, triggers: int = 100) -> list[list[int]]:
        """Run triggers until nothing is new."""
        read: list[list[int]] = []
        for _ in range(triggers):
            rows = self.trigger()
            if rows is None:
                return read
            read.append(rows)
        raise AssertionError(f"still new rows after {triggers} triggers: {self.committed}")

    def read(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[int]:
        return _column(self.batches(start, end), "offset")

    def rows(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [row for each in self.batches(start, end) for row in each.to_pylist()]

    def batches(self, start: Mapping[str, Any], end: Mapping[str, Any]) -> list[pa.RecordBatch]:
        batches: list[pa.RecordBatch] = []
        for partition in self.reader.partitions(start, end):
            batches += self.reader.read(partition)
        return batches


def _column(batches: list[pa.RecordBatch], name: str) -> list[Any]:
    return [value for each in batches for value in each.column(name).to_pylist()]


def offsets(**partitions: int) -> dict[str, dict[str, int]]:
    """Offsets of topic t: ``offsets(p0=3)``."""
    return {"t": {name[1:]: offset for name, offset in partitions.items()}}


def recreate(log: GrowingLog, count: int) -> None:
    shutil.rmtree(log.path / "t-0")
    log.create(topic_id="AAAAAAAAAAAAAAAAAAAAAQ")
    if count:
        log.append(batch(0, count))


def request_of(path: Path, **options: str) -> ReadRequest:
    parsed = parse_read_options({"path": str(path), **options}, streaming=True)
    return ReadRequest(options=parsed, shape=shape_rows(default_schema(parsed), parsed))
