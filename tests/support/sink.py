"""A sink that is driven as Spark drives it, without Spark: writers that travel, tasks, commits."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from spark_segmentlog import read_arrow
from spark_segmentlog.log.write.staged_leftovers import list_staged
from spark_segmentlog.spark.datasource import SegmentLogDataSource
from spark_segmentlog.spark.writer import BATCH_ID_PROPERTY, QUERY_ID_PROPERTY

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP = pa.timestamp("us", "UTC")
ARROW_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": TIMESTAMP,
    "timestampType": pa.int32(),
    "headers": HEADERS,
}
START_MS = 1_700_000_000_000

Messages = list[WriterCommitMessage | None]
Task = Sequence[pa.RecordBatch]


def rows(**columns: Sequence[Any]) -> pa.RecordBatch:
    """Make an Arrow batch of rows, typed as Spark gives them."""
    arrays = [pa.array(values, ARROW_TYPES[name]) for name, values in columns.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(columns))


def values(count: int, *, start: int = 0, prefix: str = "v") -> pa.RecordBatch:
    return rows(value=[f"{prefix}{start + place}".encode() for place in range(count)])


@dataclass(slots=True)
class FakeTaskContext:
    """What a task can ask Spark."""

    partition_id: int
    attempt_id: int
    properties: Mapping[str, str] = field(default_factory=dict)

    def partitionId(self) -> int:  # noqa: N802
        return self.partition_id

    def taskAttemptId(self) -> int:  # noqa: N802
        return self.attempt_id

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802
        return self.properties.get(key)


class Sink:
    """Writes into log directories: ``save`` as a batch, ``micro_batch`` as a stream."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directories: Sequence[Path]) -> None:
        self._monkeypatch = monkeypatch
        self.directories = list(directories)
        self._attempts = 0

    @property
    def path(self) -> Path:
        return self.directories[0]

    def writer(self, schema: StructType, options: Mapping[str, Any], *, overwrite: bool) -> Any:
        source = SegmentLogDataSource(self._options(options))
        return travelled(source.writer(schema, overwrite))

    def stream_writer(self, schema: StructType, options: Mapping[str, Any]) -> Any:
        source = SegmentLogDataSource(self._options(options))
        return travelled(source.streamWriter(schema, overwrite=False))

    def save(
        self,
        *tasks: Task | pa.RecordBatch,
        schema: StructType | None = None,
        overwrite: bool = False,
        **options: Any,
    ) -> None:
        """Run a whole batch write; what fails is aborted as Spark does it."""
        lists = [[task] if isinstance(task, pa.RecordBatch) else task for task in tasks]
        writer = self.writer(_schema_of(lists, schema), options, overwrite=overwrite)
        messages: Messages = [None] * len(lists)
        try:
            for place, task in enumerate(lists):
                messages[place] = self.run_task(writer, place, task)
            writer.commit(messages)
        except Exception:
            writer.abort(messages)
            raise

    def micro_batch(
        self,
        batch_id: int,
        *tasks: Task | pa.RecordBatch,
        query_id: str = "6b7a1c9e-query",
        commit: bool = True,
        **options: Any,
    ) -> Messages:
        lists = [[task] if isinstance(task, pa.RecordBatch) else task for task in tasks]
        schema = _schema_of(lists, None)
        writer = self.stream_writer(schema, options)
        properties = {QUERY_ID_PROPERTY: query_id, BATCH_ID_PROPERTY: str(batch_id)}
        messages: Messages = [
            self.run_task(writer, place, task, properties) for place, task in enumerate(lists)
        ]
        if commit:
            self.stream_writer(schema, options).commit(travelled(messages), batch_id)
        return messages

    def run_task(
        self,
        writer: Any,
        task_id: int,
        task: Task | Callable[[], Iterator[pa.RecordBatch]],
        properties: Mapping[str, str] | None = None,
    ) -> Any:
        self._attempts += 1
        context = FakeTaskContext(task_id, self._attempts, properties or {})
        with self._monkeypatch.context() as patch:
            patch.setattr(TaskContext, "get", staticmethod(lambda: context))
            batches = task() if callable(task) else iter(task)
            return travelled(travelled(writer).write(batches))

    def read(self, *columns: str, **options: Any) -> list[dict[str, Any]]:
        """Read rows, in the order of topics, partitions and offsets."""
        table = read_arrow(
            [str(path) for path in self.directories], columns=columns or None, **options
        ).read_all()
        return list(table.to_pylist())

    def column(self, name: str, **options: Any) -> list[Any]:
        return [row[name] for row in self.read(name, **options)]

    def staged(self) -> list[str]:
        return [path for directory in self.directories for path, _ in list_staged(str(directory))]

    def contents(self) -> dict[str, bytes]:
        """Give every file but the locks, by its path."""
        return {
            str(path): path.read_bytes()
            for directory in self.directories
            for path in sorted(directory.rglob("*"))
            if path.is_file() and path.name not in (".lock", ".segmentlog-writer")
        }

    def _options(self, options: Mapping[str, Any]) -> dict[str, str]:
        given = {name.lower().replace("_", "."): str(value) for name, value in options.items()}
        if len(self.directories) == 1:
            return {"path": str(self.path), **given}
        return {
            "paths": str([str(directory) for directory in self.directories]).replace("'", '"'),
            **given,
        }


def travelled(value: Any) -> Any:
    """Give what arrives in another process."""
    return pickle.loads(pickle.dumps(value))


def _schema_of(tasks: Sequence[Task], schema: StructType | None) -> StructType:
    if schema is not None:
        return schema
    arrow = next((task[0].schema for task in tasks if task), pa.schema([("value", pa.binary())]))
    return from_arrow_schema(arrow, prefer_timestamp_ntz=False)


EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def at(timestamp_ms: int) -> datetime:
    return EPOCH + timedelta(milliseconds=timestamp_ms)
