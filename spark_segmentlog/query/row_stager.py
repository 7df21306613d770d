"""The task's part of a write: rows get their partitions, become record batches and are staged.

Nothing that a task does is visible. Memory does not grow with the rows nor with the partitions:
rows are held up to a size, and the record batches of all partitions go to a few files.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_segmentlog.errors import InvalidRowError, UnknownTopicOrPartitionError, UnsafeTargetError
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.write.staging import StagedWrite, StagingWriter
from spark_segmentlog.log.write.targets import TargetLayout
from spark_segmentlog.query.write_columns import WriteColumns
from spark_segmentlog.query.write_options import WriteOptions
from spark_segmentlog.record.write.encoder import RecordBatchEncoder
from spark_segmentlog.record.write.partitioner import NullKeyBalance, assign_partitions

_NO_INDEX = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePlan:
    """All that a task must know of a write; travels to tasks."""

    options: WriteOptions
    columns: WriteColumns
    layout: TargetLayout


def segment_config(options: WriteOptions) -> SegmentConfig:
    """Pick the settings that shape segments."""
    return SegmentConfig(
        segment_bytes=options.segment_bytes,
        segment_ms=options.segment_ms,
        segment_index_bytes=options.segment_index_bytes,
        index_interval_bytes=options.index_interval_bytes,
    )


class RowStager:
    """Stages the rows of one attempt of one task."""

    def __init__(self, plan: WritePlan, *, write_id: str, task_id: int, attempt_id: int) -> None:
        self._plan = plan
        self._task_id = task_id
        self._staging = StagingWriter(
            write_id=write_id,
            task_id=task_id,
            attempt_id=attempt_id,
            config=segment_config(plan.options),
            encoder=_make_encoder(plan.options),
        )
        self._flushes = _Flushes(plan.options)
        self._topics: dict[str, _TopicRows] = {}
        self._first_row = 0

    def write(self, arrow_batch: pa.RecordBatch) -> None:
        """Take rows as Spark gives them.

        Raises
        ------
        InvalidRowError
            A row that cannot be written; the text names its column, and its number in the task.
        """
        row_count = arrow_batch.num_rows
        if row_count == 0:
            return
        self._staging.write(
            self._plan.columns.to_encode(arrow_batch), self._partition_indexes(arrow_batch)
        )
        self._first_row += row_count
        if self._flushes.note_rows(row_count):
            self._staging.flush()

    def finish(self) -> StagedWrite:
        """Write out and sync what is held, and give the report."""
        return self._staging.finish()

    def abort(self) -> None:
        """Remove what was staged."""
        self._staging.abort()

    def _partition_indexes(self, arrow_batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
        partition_indexes = np.empty(arrow_batch.num_rows, np.int64)
        for topic, rows in self._rows_by_topic(arrow_batch):
            topic_rows = self._topics.get(topic)
            if topic_rows is None:
                topic_rows = _TopicRows(topic, self._plan, self._staging, self._task_id)
                self._topics[topic] = topic_rows
            partition_indexes[rows] = topic_rows.partition_indexes(
                arrow_batch, rows, self._first_row
            )
        return partition_indexes

    def _rows_by_topic(
        self, arrow_batch: pa.RecordBatch
    ) -> Iterator[tuple[str, npt.NDArray[np.int64]]]:
        index = self._plan.columns.topic
        if index is None:
            assert self._plan.options.topic is not None
            yield self._plan.options.topic, np.arange(arrow_batch.num_rows)
            return
        topics = arrow_batch.column(index)
        if topics.null_count:
            row = self._first_row + int(np.argmax(topics.is_null().to_numpy(zero_copy_only=False)))
            raise InvalidRowError(
                f"[KAFKA_NULL_TOPIC_IN_DATA] column topic, row {row}: null topic present in the "
                "data. Use the topic option for setting a topic."
            )
        encoded = topics.dictionary_encode()
        codes = encoded.indices.to_numpy(zero_copy_only=False)
        names = encoded.dictionary.to_pylist()
        order = np.argsort(codes, kind="stable")
        ends = np.cumsum(np.bincount(codes, minlength=len(names)))
        for name, rows in zip(names, np.split(order, ends[:-1]), strict=True):
            self._check_topic(name, int(rows[0]))
            yield name, rows

    def _check_topic(self, topic: str, row: int) -> None:
        if topic in self._topics:
            return
        try:
            self._plan.layout.check_topic(topic)
        except UnsafeTargetError as error:
            raise UnsafeTargetError(f"column topic, row {self._first_row + row}: {error}") from None


class _TopicRows:
    """One topic's share of a task: which partitions it has, and their staged numbers."""

    def __init__(self, topic: str, plan: WritePlan, staging: StagingWriter, task_id: int) -> None:
        self._topic = topic
        self._layout = plan.layout
        self._columns = plan.columns
        self._staging = staging
        self._partition_count = plan.layout.partition_count(topic)
        self._balance = NullKeyBalance(self._partition_count, start=task_id)
        self._named_limit = plan.layout.named_partition_limit(topic)
        self._partition_indexes = np.full(self._partition_count, _NO_INDEX, np.int64)

    def partition_indexes(
        self, arrow_batch: pa.RecordBatch, rows: npt.NDArray[np.int64], first_row: int
    ) -> npt.NDArray[np.int64]:
        """Choose partitions for some rows of a batch, and give the numbers of those."""
        explicit = _rows_of(arrow_batch, self._columns.partition, rows)
        if explicit is not None:
            self._check_explicit(explicit, rows + first_row)
        if (
            explicit is None
            and self._partition_count == 1
            and self._partition_indexes[0] != _NO_INDEX
        ):
            return np.full(len(rows), self._partition_indexes[0])
        partitions = assign_partitions(
            _rows_of(arrow_batch, self._columns.key, rows),
            explicit,
            self._partition_count,
            self._balance,
            row_count=len(rows),
            named_limit=self._named_limit,
        )
        missing = int(partitions.max()) + 1 - len(self._partition_indexes)
        if missing > 0:
            self._partition_indexes = np.pad(
                self._partition_indexes, (0, missing), constant_values=_NO_INDEX
            )
        partition_indexes = self._partition_indexes[partitions]
        if (partition_indexes == _NO_INDEX).any():
            self._open_partitions(partitions, rows + first_row)
            partition_indexes = self._partition_indexes[partitions]
        return partition_indexes

    def _check_explicit(self, explicit: pa.Array, rows: npt.NDArray[np.int64]) -> None:
        wanted = explicit.fill_null(0).to_numpy(zero_copy_only=False)
        bad = np.flatnonzero((wanted < 0) | (wanted >= self._named_limit))
        if len(bad):
            is_new = self._named_limit != self._partition_count
            why = "" if is_new else ": it exists, and option 'num.partitions' is for new topics"
            raise InvalidRowError(
                f"column partition, row {rows[bad[0]]}: partition {wanted[bad[0]]} of topic "
                f"{self._topic}, allowed are 0 to {self._named_limit - 1}{why}"
            )

    def _open_partitions(
        self, partitions: npt.NDArray[np.int32], rows: npt.NDArray[np.int64]
    ) -> None:
        used, first_indexes = np.unique(partitions, return_index=True)
        for partition, index in zip(used.tolist(), first_indexes.tolist(), strict=True):
            if self._partition_indexes[partition] != _NO_INDEX:
                continue
            topic_partition = TopicPartition(self._topic, partition)
            try:
                directory = self._layout.directory_of(topic_partition)
            except UnknownTopicOrPartitionError as error:
                raise InvalidRowError(f"column partition, row {rows[index]}: {error}") from error
            self._partition_indexes[partition] = self._staging.index_of(topic_partition, directory)


class _Flushes:
    """When staged bytes are to be synced before the end, by ``flush.messages`` and ``flush.ms``."""

    def __init__(self, options: WriteOptions) -> None:
        self._messages = options.flush_messages
        self._seconds = None if options.flush_ms is None else options.flush_ms / 1000
        self._start()

    def note_rows(self, row_count: int) -> bool:
        """Tell whether to flush now, after some more rows; if so, count from there."""
        self._row_count += row_count
        is_due = (self._messages is not None and self._row_count >= self._messages) or (
            self._seconds is not None and time.monotonic() - self._since >= self._seconds
        )
        if is_due:
            self._start()
        return is_due

    def _start(self) -> None:
        self._row_count = 0
        self._since = time.monotonic()


def _make_encoder(options: WriteOptions) -> RecordBatchEncoder:
    return RecordBatchEncoder(
        compression=options.compression_type,
        level=options.compression_level,
        # A batch that is larger than a segment could not be written at all.
        batch_size_bytes=min(options.batch_size, max(options.segment_bytes // 2, 1)),
        max_message_bytes=options.max_message_bytes,
        log_append_time=options.message_timestamp_type == "LogAppendTime",
    )


def _rows_of(
    arrow_batch: pa.RecordBatch, index: int | None, rows: npt.NDArray[np.int64]
) -> pa.Array | None:
    """Pick rows of a column, all or some, in the order given."""
    if index is None:
        return None
    column = arrow_batch.column(index)
    return column if len(rows) == len(column) else column.take(pa.array(rows))
