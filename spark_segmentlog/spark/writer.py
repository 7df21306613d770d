"""The sink: tasks stage rows, the driver commits all of them or none.

A batch write is one pickled writer for all its tasks and its commit, so the write id is made with
it. Of a stream, Spark makes a new writer for each commit, and only tasks see to which query and
micro-batch they belong (local properties), so both travel in the messages. A batch write inside
``foreachBatch`` sees those properties as well; it must not use them, or the second ``save()`` of a
micro-batch would be taken for a replay of the first.

An abort can come while tasks still write, and without their messages. It removes what it knows of;
the rest is no part of any log, and goes with the sweep of a later commit.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from spark_segmentlog.errors import InvalidRowError, StagingError, UnsafeTargetError
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.io.reading import local_path
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.open_commits import discard_write, locked_for_writing
from spark_segmentlog.log.write.prepare import CommitRequest
from spark_segmentlog.log.write.staged_leftovers import new_write_id
from spark_segmentlog.log.write.staging import StagedWrite
from spark_segmentlog.log.write.targets import make_log_directories, read_target_layout
from spark_segmentlog.log.write.write_check import check_write
from spark_segmentlog.query.clean_up import clean_up
from spark_segmentlog.query.options import parse_write_options, warn_ignored
from spark_segmentlog.query.row_stager import RowStager, WritePlan, segment_config
from spark_segmentlog.query.write_options import WriteOptions
from spark_segmentlog.spark import versions
from spark_segmentlog.spark.worker_heap import freeze_worker_heap
from spark_segmentlog.spark.write_schema import find_write_columns

QUERY_ID_PROPERTY: Final = "sql.streaming.queryId"
BATCH_ID_PROPERTY: Final = "streaming.sql.batchId"

_Message = TypeVar("_Message", bound=WriterCommitMessage)

_log = logging.getLogger(__name__)

# A query makes a writer for each micro-batch.
_warn_ignored_once = lru_cache(warn_ignored)


@dataclass(frozen=True, slots=True)
class StagedMessage(WriterCommitMessage):
    """What a task of a batch write staged."""

    staged: StagedWrite


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamMessage(WriterCommitMessage):
    """What a task of a micro-batch staged, and of which query it is."""

    staged: StagedWrite
    write_id: str
    query_id: str
    batch_id: int


class SegmentLogWriter(DataSourceArrowWriter):
    """Writes one DataFrame, in one commit.

    Parameters
    ----------
    overwrite : bool
        Whether the topics that are written lose their rows of before.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        parsed = parse_write_options(options)
        warn_ignored(parsed)
        self._plan = plan_write(parsed, schema)
        self._write_id = new_write_id(parsed.txn_app_id, parsed.txn_version)
        self._overwrite = overwrite

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        return StagedMessage(_stage(self._plan, self._write_id, iterator))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks part of the log, on the driver."""
        options = self._plan.options
        _commit(
            CommitRequest(
                layout=self._plan.layout,
                staged=tuple(message.staged for message in _own(messages, StagedMessage)),
                write_ids=(self._write_id,),
                application=options.txn_app_id,
                version=options.txn_version,
                topics=_named_topics(options),
                overwrite=self._overwrite,
                config=segment_config(options),
                lock_timeout_ms=options.lock_timeout_ms,
            ),
            options,
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove what tasks have staged, on the driver."""
        discard_write(self._plan.layout.log_directories, (self._write_id,))


def make_stream_writer(options: Mapping[str, str], schema: StructType) -> DataSourceStreamWriter:
    """Make the writer of micro-batches that this version of Spark knows how to feed."""
    if versions.HANDS_ARROW_TO_STREAM_SINKS:
        from spark_segmentlog.spark.arrow_stream_writer import ArrowStreamWriter

        return ArrowStreamWriter(options, schema)
    versions.warn_of_lack("the sink of a stream takes row by row, which is slower", "4.1")
    from spark_segmentlog.spark.row_stream_writer import RowStreamWriter

    return RowStreamWriter(options, schema)


class SegmentLogStreamWriter(DataSourceStreamWriter):
    """Writes micro-batches, each in one commit, each once; subclasses take what tasks are given.

    Complete mode appends too: what Spark calls `overwrite` there is no part of it.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        parsed = parse_write_options(options, streaming=True)
        _warn_ignored_once(parsed)
        self._plan = plan_write(parsed, schema, may_grow=True)

    def stage(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Stage the rows of one task."""
        query_id, batch_id = _micro_batch_of_task()
        application = self._plan.options.txn_app_id or query_id
        write_id = new_write_id(application, batch_id)
        staged = _stage(self._plan, write_id, iterator)
        return StreamMessage(staged=staged, write_id=write_id, query_id=query_id, batch_id=batch_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Make the rows of all tasks part of the log, on the driver; a replay adds nothing."""
        options = self._plan.options
        own = _own(messages, StreamMessage)
        reported = {message.batch_id for message in own}
        if reported != {batchId}:
            raise StagingError(f"micro-batch {batchId} has reports of {sorted(reported)}")
        _commit(
            CommitRequest(
                layout=self._plan.layout,
                staged=tuple(message.staged for message in own),
                write_ids=tuple(message.write_id for message in own),
                application=options.txn_app_id or own[0].query_id,
                version=batchId,
                topics=_named_topics(options),
                config=segment_config(options),
                lock_timeout_ms=options.lock_timeout_ms,
            ),
            options,
        )

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Remove what tasks have staged, as far as they could say, on the driver."""
        write_ids = [message.write_id for message in messages if isinstance(message, StreamMessage)]
        discard_write(self._plan.layout.log_directories, write_ids)


def plan_write(options: WriteOptions, schema: StructType, *, may_grow: bool = False) -> WritePlan:
    """Check all that can be checked before a row is there; on the driver.

    Log directories that are not there are made. That no broker holds them is seen before tasks
    start, and a commit that is open in them is ended, since it may be about to make partitions.

    Raises
    ------
    SegmentLogError
        One of its subclasses: nothing will be written.
    """
    columns = find_write_columns(schema, topic=options.topic)
    paths = [local_path(path) for path in options.paths]
    make_log_directories(paths)
    with locked_for_writing(paths, timeout_ms=options.lock_timeout_ms):
        layout = read_target_layout(
            paths, new_partition_count=options.num_partitions, may_grow=may_grow
        )
        states = {path: LogDirectoryState.read(path) for path in layout.log_directories}
    for topic in _named_topics(options):
        layout.check_topic(topic)
        named = [TopicPartition(topic, number) for number in layout.partitions.get(topic, ())]
        check_write(layout, named, states, with_segments=False)
    return WritePlan(options=options, columns=columns, layout=layout)


def _named_topics(options: WriteOptions) -> tuple[str, ...]:
    return () if options.topic is None else (options.topic,)


# Tasks


def _stage(plan: WritePlan, write_id: str, arrow_batches: Iterable[pa.RecordBatch]) -> StagedWrite:
    context = TaskContext.get()
    assert context is not None
    stager = RowStager(
        plan,
        write_id=write_id,
        task_id=context.partitionId(),
        # Attempts of a stage that runs again count from 0 once more; these ids never repeat.
        attempt_id=context.taskAttemptId(),
    )
    try:
        for arrow_batch in arrow_batches:
            stager.write(arrow_batch)
        freeze_worker_heap("write")
        return stager.finish()
    except (InvalidRowError, UnsafeTargetError) as error:
        stager.abort()
        raise type(error)(f"{error} (task {context.partitionId()})") from error
    except BaseException:
        stager.abort()
        raise


def _micro_batch_of_task() -> tuple[str, int]:
    context = TaskContext.get()
    assert context is not None
    query_id = context.getLocalProperty(QUERY_ID_PROPERTY)
    batch_id = context.getLocalProperty(BATCH_ID_PROPERTY)
    if query_id is None or batch_id is None:
        raise StagingError(
            f"this task does not say of which query ({QUERY_ID_PROPERTY}: {query_id}) and "
            f"micro-batch ({BATCH_ID_PROPERTY}: {batch_id}) it is; so it could land twice"
        )
    return query_id, int(batch_id)


# The driver


def _own(messages: Sequence[WriterCommitMessage | None], kind: type[_Message]) -> list[_Message]:
    """Give the messages of all tasks; to leave one out would be to lose its rows."""
    own = [message for message in messages if isinstance(message, kind)]
    if len(own) != len(messages):
        raise StagingError(f"{len(messages) - len(own)} of {len(messages)} tasks did not report")
    return own


def _commit(request: CommitRequest, options: WriteOptions) -> None:
    result = commit_staged_batches(request)
    if result.is_skipped:
        _log.info("version %s of %s is there already", request.version, request.application)
        return
    for offset_range in result.offset_ranges:
        _log.info(
            "committed %s [%d, %d)",
            offset_range.topic_partition,
            offset_range.start_offset,
            offset_range.end_offset,
        )
    written = {offset_range.topic_partition.topic for offset_range in result.offset_ranges}
    clean_up(request.layout.log_directories, sorted({*written, *request.topics}), options)
