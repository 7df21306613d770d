"""A log that is open for appending and reading, without a broker and without Spark.

::

    with open_log("/data/log", num_partitions=3) as log:
        log.append("orders", pa.record_batch({"key": [b"k"], "value": [b"v"]}))
        log.flush()
        table = log.read("orders", 0)

One process holds a log directory while it is open: it has the locks that a broker would have. The
clean-shutdown mark, by which a broker trusts what it finds, is away meanwhile and comes back with
the same bytes once everything is synced; after a crash it stays away, and a broker looks for
itself.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from spark_segmentlog.errors import (
    OptionValueError,
    SegmentLogError,
    UnknownTopicOrPartitionError,
)
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.formats.checkpoints import PARTITION_METADATA
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.closing import Closing
from spark_segmentlog.log.io.lock import DEFAULT_LOCK_TIMEOUT_MS, is_of_this_process
from spark_segmentlog.log.io.reading import local_path
from spark_segmentlog.log.names import OffsetRange, TopicPartition
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.segment.scanner import ALL_COLUMNS, ScanOptions, SegmentScanner
from spark_segmentlog.log.write.append_state import read_append_state
from spark_segmentlog.log.write.appender import FlushConfig, PartitionAppender
from spark_segmentlog.log.write.clean_marks import put_marks_back, take_marks_away
from spark_segmentlog.log.write.open_commits import locked_for_writing
from spark_segmentlog.log.write.targets import make_log_directories, read_target_layout
from spark_segmentlog.log.write.write_check import check_log_start, check_write
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS
from spark_segmentlog.record.write.encoder import (
    DEFAULT_BATCH_SIZE_BYTES,
    DEFAULT_MAX_MESSAGE_BYTES,
    RecordBatchEncoder,
)
from spark_segmentlog.record.write.partitioner import NullKeyBalance, assign_partitions
from spark_segmentlog.record.write.rows import joined_records

DEFAULT_READ_BYTES: Final = 1024 * 1024
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
DEFAULTS: Final = SegmentConfig()
READ_OPTIONS: Final = ScanOptions(columns=(*ALL_COLUMNS, "headers"))

_log = logging.getLogger(__name__)


def open_log(
    path: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *,
    num_partitions: int = 1,
    segment_bytes: int = DEFAULTS.segment_bytes,
    segment_ms: int = DEFAULTS.segment_ms,
    segment_index_bytes: int = DEFAULTS.segment_index_bytes,
    index_interval_bytes: int = DEFAULTS.index_interval_bytes,
    compression_type: str = "none",
    compression_level: int | None = None,
    batch_size: int = DEFAULT_BATCH_SIZE_BYTES,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    message_timestamp_type: str = "CreateTime",
    flush_messages: int | None = None,
    flush_ms: int | None = None,
    lock_timeout_ms: int = DEFAULT_LOCK_TIMEOUT_MS,
) -> LocalLog:
    """Open log directories for appending and reading.

    Parameters
    ----------
    path : path or sequence of paths
        Log directories, made where they are not there; several are one log.
    num_partitions : int
        Partitions of a topic that does not exist yet.
    segment_bytes, segment_ms, segment_index_bytes, index_interval_bytes : int
        When a segment is full, and how dense its indexes are.
    compression_type : str
        Codec of record batches: ``none``, ``gzip``, ``snappy``, ``lz4`` or ``zstd``.
    compression_level : int, optional
        Kafka's default of that codec where not given.
    batch_size, max_message_bytes : int
        Target size of a record batch before compression, and the largest one.
    message_timestamp_type : str
        ``CreateTime`` keeps the records' timestamps, ``LogAppendTime`` stamps the time of the
        append.
    flush_messages, flush_ms : int, optional
        Sync after so many records, or so long; without them at `flush` and `close` alone.
    lock_timeout_ms : int
        How long to wait for another writer; a broker is not waited for.

    Returns
    -------
    LocalLog
        A context manager that closes itself.

    Raises
    ------
    LogLockedError
        A broker or another writer has one of the directories.
    """
    if message_timestamp_type not in TIMESTAMP_TYPES:
        raise OptionValueError(
            f"message_timestamp_type is {message_timestamp_type!r}, legal are {TIMESTAMP_TYPES}"
        )
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    return LocalLog(
        [local_path(os.fspath(one)) for one in paths],
        new_partition_count=num_partitions,
        config=SegmentConfig(
            segment_bytes=segment_bytes,
            segment_ms=segment_ms,
            segment_index_bytes=segment_index_bytes,
            index_interval_bytes=index_interval_bytes,
        ),
        flush_config=FlushConfig(flush_messages=flush_messages, flush_ms=flush_ms),
        encoder=RecordBatchEncoder(
            compression=compression_type,
            level=compression_level,
            batch_size_bytes=batch_size,
            max_message_bytes=max_message_bytes,
            log_append_time=message_timestamp_type == "LogAppendTime",
        ),
        lock_timeout_ms=lock_timeout_ms,
    )


class LocalLog(Closing):
    """The partitions of some log directories, open for appending; made by `open_log`.

    Any number of threads may use one.
    """

    def __init__(
        self,
        paths: Sequence[str],
        *,
        new_partition_count: int,
        config: SegmentConfig,
        flush_config: FlushConfig,
        encoder: RecordBatchEncoder,
        lock_timeout_ms: int = DEFAULT_LOCK_TIMEOUT_MS,
    ) -> None:
        self._config = config
        self._flush_config = flush_config
        self._encoder = encoder
        self._mutex = threading.Lock()
        self._process_id = os.getpid()
        self._appenders: dict[TopicPartition, PartitionAppender] = {}
        self._balances: dict[str, NullKeyBalance] = {}
        self._is_closed = threading.Event()
        make_log_directories(paths)
        with ExitStack() as stack:
            stack.enter_context(locked_for_writing(paths, timeout_ms=lock_timeout_ms))
            self._layout = read_target_layout(paths, new_partition_count=new_partition_count)
            self._states = {
                path: LogDirectoryState.read(path) for path in self._layout.log_directories
            }
            self._marks = take_marks_away(self._layout.log_directories)
            self._locks = stack.pop_all()
        self._flusher = self._start_flusher()

    @property
    def topics(self) -> list[str]:
        """Names of the topics, sorted."""
        return sorted(self._layout.partitions)

    def create_topic(self, topic: str, num_partitions: int) -> None:
        """Make a topic's partitions that are not there, each in the directory that holds fewest.

        Raises
        ------
        SegmentLogError
            The topic exists with more partitions.
        UnsafeTargetError
            It may not be written here.
        """
        with self._while_open():
            existing = self._layout.partitions.get(topic, {})
            if len(existing) > num_partitions:
                raise SegmentLogError(
                    f"topic {topic} exists with {len(existing)} partitions, asked for are "
                    f"{num_partitions}"
                )
            self._make_partitions(topic, num_partitions)

    def append(
        self,
        topic: str,
        records: pa.RecordBatch | pa.Table,
        *,
        partition: int | None = None,
    ) -> list[OffsetRange]:
        """Append records; a topic that is not there is made.

        Parameters
        ----------
        topic : str
        records : pyarrow.RecordBatch or pyarrow.Table
            Columns ``value``, and ``key``, ``headers`` and ``timestamp`` where wanted.
        partition : int, optional
            Of all of them; else a key's hash chooses as the Java client does, and records without
            a key are dealt out evenly.

        Returns
        -------
        list of OffsetRange
            The offsets that they got, a range a partition. Within a partition the append is all
            or nothing.

        Raises
        ------
        InvalidRowError, SchemaError
            A record that cannot be written: nothing was appended.
        OSError
            The disk is full or failed: nothing was appended to the partition at hand.
        """
        rows = joined_records(records)
        if rows.num_rows == 0:
            return []
        partitions = self._partitions_of(topic, rows, partition)
        order = np.argsort(partitions, kind="stable")
        used, starts = np.unique(partitions[order], return_index=True)
        ends = [*starts[1:].tolist(), len(order)]
        # All are encoded before any is appended: a bad record leaves everything as it was.
        encoded = [
            self._encoder.encode_groups(rows, order[start:end], np.array([end - start]))
            for start, end in zip(starts.tolist(), ends, strict=True)
        ]
        return [
            self._appender(TopicPartition(topic, number)).append(batches)
            for number, batches in zip(used.tolist(), encoded, strict=True)
        ]

    def read(
        self,
        topic: str,
        partition: int,
        start_offset: int = 0,
        *,
        max_bytes: int = DEFAULT_READ_BYTES,
    ) -> pa.Table:
        """Read records from an offset on, at least one if there is one.

        As a broker's fetch does, a read stays within one segment and takes whole record batches,
        of about `max_bytes` together; go on at the last offset + 1.

        Returns
        -------
        pyarrow.Table
            Rows as the Spark source gives them, headers included.

        Raises
        ------
        OffsetOutOfRangeError
            The offset is below the log's start or beyond its end.
        UnknownTopicOrPartitionError
            There is no such partition.
        """
        log = self._partition_log(TopicPartition(topic, partition))
        fetched = log.read(start_offset, max_bytes)
        batches = log.scan(
            start_offset=start_offset, end_offset=fetched.next_offset, options=READ_OPTIONS
        )
        schema = SegmentScanner(log.topic_partition, READ_OPTIONS).schema
        return pa.Table.from_batches(batches, schema=schema)

    def log_start_offset(self, topic: str, partition: int) -> int:
        """First offset of a partition."""
        return self._partition_log(TopicPartition(topic, partition)).log_start_offset

    def log_end_offset(self, topic: str, partition: int) -> int:
        """Offset after the last record of a partition."""
        topic_partition = TopicPartition(topic, partition)
        if topic in INTERNAL_TOPICS:
            return self._partition_log(topic_partition).log_end_offset
        return self._appender(topic_partition).log_end_offset

    def flush(self) -> None:
        """Make all that was appended last."""
        with self._while_open():
            appenders = list(self._appenders.values())
        for appender in appenders:
            appender.flush()

    def close(self) -> None:
        """Flush, put the clean-shutdown marks back, and let go of the directories.

        The mark of a directory in which an append or a flush failed stays away. In a process that
        was forked from the one that opened the log, nothing happens: it is the other's.
        """
        if not is_of_this_process(self._process_id):
            return
        with self._mutex:
            if self._is_closed.is_set():
                return
            self._is_closed.set()
        if self._flusher is not None:
            self._flusher.join()
        with self._locks:
            errors = self._close_appenders()
            put_marks_back(self._marks)
            if errors:
                raise errors[0]

    # Partitions

    def _appender(self, topic_partition: TopicPartition) -> PartitionAppender:
        with self._while_open():
            appender = self._appenders.get(topic_partition)
            if appender is None:
                appender = self._open_appender(topic_partition)
                self._appenders[topic_partition] = appender
            return appender

    def _open_appender(self, topic_partition: TopicPartition) -> PartitionAppender:
        layout = self._layout
        check_write(layout, [topic_partition], self._states)
        append_state = read_append_state(
            self._states[layout.directory_of(topic_partition)],
            topic_partition,
            index_interval_bytes=self._config.index_interval_bytes,
        )
        check_log_start(append_state)
        if layout.lacks_topic_id(topic_partition):
            _write_topic_id(
                append_state.directory, layout.partition_metadata_bytes(topic_partition.topic)
            )
        return PartitionAppender(append_state, self._config, self._flush_config)

    def _partitions_of(
        self, topic: str, rows: pa.RecordBatch, partition: int | None
    ) -> npt.NDArray[np.int32]:
        with self._while_open():
            count = self._layout.partition_count(topic)
            if topic not in self._layout.partitions:
                self._make_partitions(topic, count)
            balance = self._balances.setdefault(topic, NullKeyBalance(count))
            explicit = None if partition is None else pa.repeat(partition, rows.num_rows)
            keys = rows.column("key") if "key" in rows.schema.names else None
            return assign_partitions(keys, explicit, count, balance, row_count=rows.num_rows)

    def _make_partitions(self, topic: str, partition_count: int) -> None:
        """Make the partition directories of a topic that are missing, and make them last."""
        self._layout.check_topic(topic)
        metadata = self._layout.partition_metadata_bytes(topic)
        existing = self._layout.partitions.get(topic, {})
        missing = [number for number in range(partition_count) if number not in existing]
        layout = self._layout.with_new_partitions(topic, missing)
        for number in missing:
            topic_partition = TopicPartition(topic, number)
            log_directory = layout.directory_of(topic_partition)
            directory = os.path.join(log_directory, str(topic_partition))
            files.mkdir(directory, exist_ok=True)
            _write_topic_id(directory, metadata)
        self._layout = layout
        for log_directory in self._layout.log_directories:
            files.fsync_directory(log_directory)

    def _partition_log(self, topic_partition: TopicPartition) -> PartitionLog:
        with self._while_open():
            layout = self._layout
        if not layout.exists(topic_partition):
            raise UnknownTopicOrPartitionError(
                f"partition {topic_partition} is in none of {list(layout.log_directories)}"
            )
        # Its tail may be torn, which is mended before anyone reads; a broker's own it mends itself.
        if topic_partition.topic not in INTERNAL_TOPICS:
            self._appender(topic_partition)
        log_directory = layout.directory_of(topic_partition)
        return PartitionLog.open(os.path.join(log_directory, str(topic_partition)))

    # Opening and closing

    def _start_flusher(self) -> threading.Thread | None:
        interval_ms = self._flush_config.flush_ms
        if interval_ms is None:
            return None
        thread = threading.Thread(
            target=self._flush_in_time,
            args=(interval_ms / 1000,),
            name="segmentlog-flush",
            daemon=True,
        )
        thread.start()
        return thread

    def _flush_in_time(self, interval_seconds: float) -> None:
        while not self._is_closed.wait(interval_seconds):
            with self._mutex:
                appenders = list(self._appenders.values())
            for appender in appenders:
                try:
                    appender.flush_if_old()
                except OSError as error:
                    # The appender remembers it, and says so to whoever appends or flushes next.
                    _log.error("flush of %s failed: %s", appender.topic_partition, error)

    def _close_appenders(self) -> list[Exception]:
        """Close all, whatever one of them does, and give up the marks of those that fail."""
        errors: list[Exception] = []
        for topic_partition, appender in self._appenders.items():
            directory = self._layout.directory_of(topic_partition)
            try:
                appender.close(durable_indexes=directory in self._marks)
            except (OSError, SegmentLogError) as error:
                errors.append(error)
            if appender.has_failed:
                self._marks.pop(directory, None)
        return errors

    @contextmanager
    def _while_open(self) -> Iterator[None]:
        """Hold the mutex; never in a forked child, where nobody may be left to release it."""
        if not is_of_this_process(self._process_id):
            raise SegmentLogError(
                f"the log {list(self._layout.log_directories)} was opened in process "
                f"{self._process_id}, which this one was forked from: open it again where it is "
                "used"
            )
        with self._mutex:
            if self._is_closed.is_set():
                raise SegmentLogError(f"the log {list(self._layout.log_directories)} is closed")
            yield


def _write_topic_id(directory: str, metadata: bytes) -> None:
    files.write_atomically(os.path.join(directory, PARTITION_METADATA), metadata)
    files.fsync_directory(directory)
