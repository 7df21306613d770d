"""Every option of the source and the sink, in one table, and the values of those that were given.

An option is an entry of `OPTIONS` and a field of `ReadOptions` or `WriteOptions`, by its name in
snake case. Names, defaults and rules are those of Spark's Kafka source and sink and of Kafka's
topic configuration. The tables of the documentation are generated from it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.tier.remote_options import NO_REMOTE, RemoteOptions
from spark_segmentlog.query import option_parsers as parse
from spark_segmentlog.query.offsets import MissingTimestampStrategy, OffsetLimit, parse_assign_json
from spark_segmentlog.record.codec.codecs import CODECS
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS


class OptionScope(StrEnum):
    """What options are given to."""

    BATCH_READ = "a batch read"
    STREAM_READ = "a stream"
    WRITE = "a write"


class Mode(StrEnum):
    """What bad bytes get, in Spark's own words."""

    FAILFAST = "FAILFAST"
    DROPMALFORMED = "DROPMALFORMED"
    PERMISSIVE = "PERMISSIVE"


class Pushdown(StrEnum):
    """Whether predicates narrow what is read."""

    AUTO = "auto"
    TRUE = "true"
    FALSE = "false"


class View(StrEnum):
    """What a row is."""

    RECORDS = "records"
    BATCHES = "batches"
    SEGMENTS = "segments"
    TRANSACTIONS = "transactions"
    CONSUMER_OFFSETS = "consumer_offsets"
    TRANSACTION_STATE = "transaction_state"
    CLUSTER_METADATA = "cluster_metadata"
    SHARE_GROUP_STATE = "share_group_state"

    @property
    def system_topic(self) -> str | None:
        """The topic of Kafka's own whose records are the rows; None where they are not."""
        return SYSTEM_TOPICS.get(self)

    @property
    def is_of_records(self) -> bool:
        """Whether each row is of one record."""
        return self is View.RECORDS or self in SYSTEM_TOPICS


SYSTEM_TOPICS: Final = {
    View(topic.view): topic.name for topic in INTERNAL_TOPICS.values() if topic.view is not None
}


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes
    ----------
    name : str
        Documented spelling.
    parse : callable
        From text to value; raises ValueError with the legal values as its text.
    default : object
        Value where it is not given.
    shown_default : str
        The default as the documentation shows it.
    scopes : tuple of OptionScope
        What takes it.
    meaning : str
        One line.
    ignored_in : tuple of OptionScope
        What warns and goes on, as Spark's Kafka source does; all others refuse it.
    """

    name: str
    parse: Callable[[str], Any]
    default: Any
    shown_default: str
    scopes: tuple[OptionScope, ...]
    meaning: str
    ignored_in: tuple[OptionScope, ...] = ()

    @property
    def field(self) -> str:
        """Name of the attribute that holds the value, and of the keyword in Python."""
        return snake_case(self.name)

    def value(self, text: str) -> Any:
        """Parse a value.

        Raises
        ------
        OptionValueError
            It is not legal.
        """
        try:
            return self.parse(text.strip())
        except ValueError as error:
            raise OptionValueError(f"option '{self.name}' is '{text}': {error}") from error


def snake_case(name: str) -> str:
    """Write the name of an option as a Python keyword: ``kafka_check_crcs``, ``min_partitions``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace(".", "_").lower()


_READS: Final = (OptionScope.BATCH_READ, OptionScope.STREAM_READ)
_BATCH: Final = (OptionScope.BATCH_READ,)
_STREAM: Final = (OptionScope.STREAM_READ,)
_WRITES: Final = (OptionScope.WRITE,)
_ALL: Final = (OptionScope.BATCH_READ, OptionScope.STREAM_READ, OptionScope.WRITE)

OPTIONS: Final = (
    Option(
        "path",
        parse.non_empty,
        None,
        "",
        _ALL,
        "a log directory, a partition directory, a `.log` file, or a glob of these",
    ),
    Option(
        "paths",
        parse.paths,
        (),
        "",
        _ALL,
        "JSON list of paths; several log directories are one log, as `log.dirs` is",
    ),
    Option(
        "remoteStorage",
        parse.uris,
        (),
        "",
        _READS,
        "where tiered storage has copied segments to, a URI or a JSON list: what it has below the"
        " first local segment is read with the local log as one",
    ),
    Option(
        "remoteStorage.layout",
        parse.remote_layout,
        None,
        "found by looking",
        _READS,
        "`local` (Kafka's LocalTieredStorage) or `aiven` (the open plugin)",
    ),
    Option(
        "remoteStorage.keys",
        parse.key_files,
        (),
        "",
        _READS,
        'for encrypted segments: `{"pair-1":"/keys/1.pem"}`, id of a key pair to its private key',
    ),
    Option(
        "remoteStorage.topicIds",
        parse.topic_ids,
        (),
        "",
        _READS,
        "ids of topics to read from the store: of several that had one name, or deleted ones",
    ),
    Option(
        "subscribe",
        parse.topic_list,
        None,
        "every topic but those named `__*`",
        _READS,
        "topics by their literal names, with commas between them",
    ),
    Option(
        "subscribePattern",
        parse.topic_pattern,
        None,
        "",
        _READS,
        "topics by a Java regular expression over the whole name",
    ),
    Option("assign", parse_assign_json, None, "", _READS, '`{"topic":[0,1]}`'),
    Option(
        "startingOffsets",
        parse.offset_limit,
        None,
        "earliest (batch), latest (stream)",
        _READS,
        '`earliest`, `latest` (streams), or `{"topic":{"0":23,"1":-2}}` for every chosen partition,'
        " -2 earliest, -1 latest",
    ),
    Option(
        "endingOffsets",
        parse.offset_limit,
        None,
        "latest",
        _READS,
        "the same, exclusive; a stream stops advancing there",
    ),
    Option(
        "startingOffsetsByTimestamp",
        parse.timestamps,
        None,
        "",
        _READS,
        "first record at or after a timestamp in ms, as JSON by topic and partition",
    ),
    Option(
        "startingTimestamp",
        parse.timestamp,
        None,
        "",
        _READS,
        "one timestamp in ms for all partitions; goes before the two above",
    ),
    Option(
        "endingOffsetsByTimestamp",
        parse.timestamps,
        None,
        "",
        _READS,
        "the same for the end; no record at or after it means latest",
    ),
    Option("endingTimestamp", parse.timestamp, None, "", _READS, "the same for the end"),
    Option(
        "startingOffsetsByTimestampStrategy",
        parse.one_of(MissingTimestampStrategy),
        MissingTimestampStrategy.ERROR,
        "error",
        _READS,
        "`error` or `latest` when no record is at or after the starting timestamp",
    ),
    Option(
        "failOnDataLoss",
        parse.boolean,
        True,
        "true",
        _READS,
        "whether records that are gone (retention, a deleted partition) fail the query",
    ),
    Option(
        "minPartitions",
        parse.integer(1, parse.MAX_INT),
        None,
        "",
        _READS,
        "split offset ranges into about this many input partitions, as the Kafka source does",
    ),
    Option(
        "maxRecordsPerPartition",
        parse.integer(1),
        None,
        "",
        _READS,
        "at most this many offsets in an input partition",
    ),
    Option(
        "maxPartitionBytes",
        parse.size(1),
        None,
        "one input partition a segment",
        _BATCH,
        "split big segments at index entries and pack small ones up to this size",
    ),
    Option(
        "pushdown",
        parse.one_of(Pushdown),
        Pushdown.AUTO,
        "auto",
        _BATCH,
        "`true`: this load is used in one scan, so let its predicates narrow what is read; `false`:"
        " never; `auto`: where Spark keeps scans apart (5.0)",
        ignored_in=_STREAM,
    ),
    Option(
        "maxOffsetsPerTrigger",
        parse.integer(1),
        None,
        "",
        _STREAM,
        "at most this many offsets a micro-batch, shared out in proportion",
        ignored_in=_BATCH,
    ),
    Option(
        "minOffsetsPerTrigger",
        parse.integer(1),
        None,
        "",
        _STREAM,
        "wait for this many offsets, at most `maxTriggerDelay`",
        ignored_in=_BATCH,
    ),
    Option(
        "maxTriggerDelay",
        parse.duration_ms(0),
        900_000,
        "15m",
        _STREAM,
        "longest wait for `minOffsetsPerTrigger`",
        ignored_in=_BATCH,
    ),
    Option(
        "maxBytesPerTrigger",
        parse.size(1),
        None,
        "",
        _STREAM,
        "about this many bytes of log a micro-batch",
        ignored_in=_BATCH,
    ),
    Option(
        "includeHeaders",
        parse.boolean,
        False,
        "false",
        _ALL,
        "add the column `headers`; a write takes that column in any case",
    ),
    Option(
        "kafka.isolation.level",
        parse.word("read_uncommitted", "read_committed"),
        "read_uncommitted",
        "read_uncommitted",
        _READS,
        "`read_committed` hides aborted records and stops at the last stable offset",
    ),
    Option(
        "untilHighWatermark",
        parse.boolean,
        False,
        "false",
        _READS,
        "stop at `replication-offset-checkpoint` instead of the log end",
    ),
    Option(
        "kafka.check.crcs",
        parse.boolean,
        True,
        "true",
        _READS,
        "compare the checksum of every batch",
    ),
    Option(
        "maxDecompressedBytes",
        parse.size(1),
        None,
        "no limit",
        _READS,
        "refuse a compressed batch that grows beyond this, as a bad one; memory does not need it",
    ),
    Option(
        "mode",
        parse.one_of(Mode),
        Mode.FAILFAST,
        "FAILFAST",
        _READS,
        "bad bytes: `FAILFAST` fails, `DROPMALFORMED` skips the bad batch with a warning,"
        " `PERMISSIVE` also gives a row of `_corrupt_record` where the schema has that column",
    ),
    Option(
        "view",
        parse.one_of(View),
        View.RECORDS,
        "records",
        _BATCH,
        "`records`, `batches` (a row a batch header), `segments`, `transactions`; "
        "`consumer_offsets`, `transaction_state`, `cluster_metadata`, `share_group_state`: "
        "records of that topic of Kafka's own, decoded",
    ),
    Option(
        "topic", parse.topic_name, None, "", _WRITES, "topic for every row, before a column `topic`"
    ),
    Option(
        "num.partitions",
        parse.integer(1, parse.MAX_INT),
        1,
        "1",
        _WRITES,
        "partitions of a topic that does not exist yet, at least; it gets as many as the rows name",
    ),
    Option(
        "segment.bytes",
        parse.size(14, parse.MAX_INT),
        1 << 30,
        "1073741824",
        _WRITES,
        "roll to a new segment at this size",
    ),
    Option(
        "segment.ms",
        parse.duration_ms(1),
        604_800_000,
        "604800000",
        _WRITES,
        "roll when the segment's first record is this much older than the next",
    ),
    Option(
        "segment.index.bytes",
        parse.size(4, parse.MAX_INT),
        10 << 20,
        "10485760",
        _WRITES,
        "roll when an index is full",
    ),
    Option(
        "index.interval.bytes",
        parse.size(0, parse.MAX_INT),
        4096,
        "4096",
        _WRITES,
        "bytes of log between two index entries",
    ),
    Option(
        "compression.type",
        parse.codec,
        "none",
        "none",
        _WRITES,
        "codec of record batches",
    ),
    *(
        Option(
            f"compression.{codec.name}.level",
            parse.integer(codec.levels.lowest, codec.levels.highest),
            None,
            "the codec's",
            _WRITES,
            f"{codec.levels.lowest} to {codec.levels.highest}",
        )
        for codec in CODECS.values()
        if codec.levels is not None
    ),
    Option(
        "batch.size",
        parse.size(1, parse.MAX_INT),
        131072,
        "131072",
        _WRITES,
        "target bytes of a record batch before compression",
    ),
    Option(
        "max.message.bytes",
        parse.size(1, parse.MAX_INT),
        1_048_588,
        "1048588",
        _WRITES,
        "largest record batch",
    ),
    Option(
        "message.timestamp.type",
        parse.word("CreateTime", "LogAppendTime"),
        "CreateTime",
        "CreateTime",
        _WRITES,
        "keep the rows' timestamps, or stamp batches with the time of the write",
    ),
    Option(
        "flush.messages",
        parse.integer(1),
        None,
        "at the commit",
        _WRITES,
        "flush staged bytes each time this many records were written",
    ),
    Option(
        "flush.ms",
        parse.duration_ms(0),
        None,
        "at the commit",
        _WRITES,
        "flush staged bytes this often",
    ),
    Option(
        "retention.ms",
        parse.duration_ms(-1),
        None,
        "not applied",
        _WRITES,
        "after the commit delete segments older than this; -1 for none",
    ),
    Option(
        "retention.bytes",
        parse.size(-1),
        None,
        "not applied",
        _WRITES,
        "after the commit delete the oldest segments above this size; -1 for none",
    ),
    Option(
        "cleanup.policy",
        parse.cleanup_policy,
        None,
        "not applied",
        _WRITES,
        "`delete`, `compact` or both, applied after the commit where given",
    ),
    Option(
        "delete.retention.ms",
        parse.duration_ms(0),
        None,
        "86400000",
        _WRITES,
        "how long compaction keeps tombstones",
    ),
    Option(
        "min.compaction.lag.ms",
        parse.duration_ms(0),
        None,
        "0",
        _WRITES,
        "how long records stay uncompacted",
    ),
    Option(
        "file.delete.delay.ms",
        parse.duration_ms(0),
        None,
        "60000",
        _WRITES,
        "how long files stay under `.deleted`",
    ),
    Option(
        "txnAppId",
        parse.non_empty,
        None,
        "",
        _WRITES,
        "application of an idempotent write, with `txnVersion`; in a stream alone, instead of the "
        "query's id",
    ),
    Option(
        "txnVersion",
        parse.integer(0),
        None,
        "",
        _WRITES,
        "a version not above the application's last committed one is skipped whole",
    ),
    Option(
        "lock.timeout.ms",
        parse.duration_ms(0),
        60_000,
        "60000",
        _WRITES,
        "how long to wait for another writer of the directory",
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """Topics or partitions to read; none of the three means every topic but internal ones."""

    subscribe: tuple[str, ...] | None = None
    pattern: re.Pattern[str] | None = None
    assign: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a read, parsed and checked; travels to tasks.

    `ignored` names what was given and means nothing here.
    """

    paths: tuple[str, ...]
    selection: TopicSelection
    starting: OffsetLimit
    ending: OffsetLimit
    missing_timestamp: MissingTimestampStrategy
    fail_on_data_loss: bool
    min_partitions: int | None
    max_records_per_partition: int | None
    max_partition_bytes: int | None
    pushdown: Pushdown
    max_offsets_per_trigger: int | None
    min_offsets_per_trigger: int | None
    max_trigger_delay_ms: int
    max_bytes_per_trigger: int | None
    include_headers: bool
    isolation_level: str
    until_high_watermark: bool
    check_crcs: bool
    max_decompressed_bytes: int | None
    mode: Mode
    view: View
    ignored: tuple[str, ...]
    remote: RemoteOptions = NO_REMOTE

    @property
    def is_read_committed(self) -> bool:
        """Whether aborted and open transactions are hidden."""
        return self.isolation_level == "read_committed"

    @property
    def has_admission_limits(self) -> bool:
        """Whether something bounds the micro-batches of a stream."""
        limits = (
            self.max_offsets_per_trigger,
            self.min_offsets_per_trigger,
            self.max_bytes_per_trigger,
        )
        return any(limit is not None for limit in limits)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of a write, parsed and checked; travels to tasks.

    Retention and compaction settings are None where they were not given. `ignored` names what was
    given and means nothing here.
    """

    paths: tuple[str, ...]
    topic: str | None
    num_partitions: int
    segment_bytes: int
    segment_ms: int
    segment_index_bytes: int
    index_interval_bytes: int
    compression_type: str
    compression_level: int | None
    batch_size: int
    max_message_bytes: int
    message_timestamp_type: str
    flush_messages: int | None
    flush_ms: int | None
    retention_ms: int | None
    retention_bytes: int | None
    cleanup_policy: tuple[str, ...] | None
    delete_retention_ms: int | None
    min_compaction_lag_ms: int | None
    file_delete_delay_ms: int | None
    txn_app_id: str | None
    txn_version: int | None
    lock_timeout_ms: int
    ignored: tuple[str, ...]
