"""The options of the source, in one table, and the values of those that were given.

An option is an entry of the table and a field of `ReadOptions`, by its name in snake case. Names,
defaults and rules are those of Spark's Kafka source. The table of the pages is generated from it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.tier.remote_options import NO_REMOTE, RemoteOptions
from spark_segmentlog.query import option_parsers as parse
from spark_segmentlog.query.offsets import MissingTimestampStrategy, OffsetLimit, parse_assign_json
from spark_segmentlog.query.option import BATCH, EVERYWHERE, READS, STREAM, Option
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS


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


READ_OPTIONS: Final = (
    Option(
        "path",
        parse.non_empty,
        EVERYWHERE,
        "a log directory, a partition directory, a `.log` file, or a glob of these",
    ),
    Option(
        "paths",
        parse.paths,
        EVERYWHERE,
        "JSON list of paths; several log directories are one log, as `log.dirs` is",
        default=(),
    ),
    Option(
        "remoteStorage",
        parse.uris,
        READS,
        "where tiered storage has copied segments to, a URI or a JSON list: what it has below the"
        " first local segment is read with the local log as one",
        default=(),
    ),
    Option(
        "remoteStorage.layout",
        parse.remote_layout,
        READS,
        "`local` (Kafka's LocalTieredStorage) or `aiven` (the open plugin)",
        shown="found by looking",
    ),
    Option(
        "remoteStorage.keys",
        parse.key_files,
        READS,
        'for encrypted segments: `{"pair-1":"/keys/1.pem"}`, id of a key pair to its private key',
        default=(),
    ),
    Option(
        "remoteStorage.topicIds",
        parse.topic_ids,
        READS,
        "ids of topics to read from the store: of several that had one name, or deleted ones",
        default=(),
    ),
    Option(
        "storage.endpoint",
        parse.non_empty,
        READS,
        "URL of the server of `s3:` paths, and of such `remoteStorage`",
        shown="of the URI, `AWS_ENDPOINT_URL`, Amazon's",
    ),
    Option(
        "storage.region",
        parse.non_empty,
        READS,
        "its region",
        shown="of the URI, `AWS_REGION`, the bucket's",
    ),
    Option(
        "storage.accessKey",
        parse.non_empty,
        READS,
        "who asks it",
        shown="of the URI, the environment",
        is_secret=True,
    ),
    Option(
        "storage.secretKey",
        parse.non_empty,
        READS,
        "the secret of that access key",
        shown="of the URI, the environment",
        is_secret=True,
    ),
    Option(
        "storage.sessionToken",
        parse.non_empty,
        READS,
        "its session token, where it is a temporary one",
        shown="of the environment",
        is_secret=True,
    ),
    Option(
        "storage.anonymous",
        parse.boolean,
        READS,
        "whether requests are not signed, for a public bucket",
        default=False,
    ),
    Option(
        "storage.settings",
        parse.settings,
        READS,
        "for other URIs: JSON of arguments to fsspec's file system of that scheme",
        default=(),
        is_secret=True,
    ),
    Option(
        "subscribe",
        parse.topic_list,
        READS,
        "topics by their literal names, with commas between them",
        shown="every topic but those named `__*`",
    ),
    Option(
        "subscribePattern",
        parse.topic_pattern,
        READS,
        "topics by a Java regular expression over the whole name",
    ),
    Option("assign", parse_assign_json, READS, '`{"topic":[0,1]}`'),
    Option(
        "startingOffsets",
        parse.offset_limit,
        READS,
        '`earliest`, `latest` (streams), or `{"topic":{"0":23,"1":-2}}` for every chosen partition,'
        " -2 earliest, -1 latest",
        shown="earliest (batch), latest (stream)",
    ),
    Option(
        "endingOffsets",
        parse.offset_limit,
        READS,
        "the same, exclusive; a stream stops advancing there",
        shown="latest",
    ),
    Option(
        "startingOffsetsByTimestamp",
        parse.timestamps,
        READS,
        "first record at or after a timestamp in ms, as JSON by topic and partition; -2 and -1 as "
        "in `startingOffsets`",
    ),
    Option(
        "startingTimestamp",
        parse.timestamp,
        READS,
        "one timestamp in ms for all partitions; goes before the two above",
    ),
    Option(
        "endingOffsetsByTimestamp",
        parse.timestamps,
        READS,
        "the same for the end; no record at or after it means latest",
    ),
    Option("endingTimestamp", parse.timestamp, READS, "the same for the end"),
    Option(
        "startingOffsetsByTimestampStrategy",
        parse.one_of(MissingTimestampStrategy),
        READS,
        "`error` or `latest` when no record is at or after the starting timestamp",
        default=MissingTimestampStrategy.ERROR,
    ),
    Option(
        "failOnDataLoss",
        parse.boolean,
        READS,
        "whether records that are gone (retention, a deleted partition) fail the query",
        default=True,
    ),
    Option(
        "minPartitions",
        parse.integer(1, parse.MAX_INT),
        READS,
        "split offset ranges into about this many input partitions, as the Kafka source does",
    ),
    Option(
        "maxRecordsPerPartition",
        parse.integer(1),
        READS,
        "at most this many offsets in an input partition",
    ),
    Option(
        "maxPartitionBytes",
        parse.size(1),
        BATCH,
        "split big segments at index entries and pack small ones up to this size",
        shown="one input partition a segment",
    ),
    Option(
        "pushdown",
        parse.one_of(Pushdown),
        BATCH,
        "`true`: this load is used in one scan, so let its predicates narrow what is read; `false`:"
        " never; `auto`: where Spark keeps scans apart (5.0)",
        default=Pushdown.AUTO,
        ignored_in=STREAM,
    ),
    Option(
        "maxOffsetsPerTrigger",
        parse.integer(1),
        STREAM,
        "at most this many offsets a micro-batch, shared out in proportion",
        ignored_in=BATCH,
    ),
    Option(
        "minOffsetsPerTrigger",
        parse.integer(1),
        STREAM,
        "wait for this many offsets, at most `maxTriggerDelay`",
        ignored_in=BATCH,
    ),
    Option(
        "maxTriggerDelay",
        parse.duration_ms(0),
        STREAM,
        "longest wait for `minOffsetsPerTrigger`",
        default=900_000,
        shown="15m",
        ignored_in=BATCH,
    ),
    Option(
        "maxBytesPerTrigger",
        parse.size(1),
        STREAM,
        "about this many bytes of log a micro-batch",
        ignored_in=BATCH,
    ),
    Option(
        "includeHeaders",
        parse.boolean,
        EVERYWHERE,
        "add the column `headers`; a write takes that column in any case",
        default=False,
    ),
    Option(
        "kafka.isolation.level",
        parse.word("read_uncommitted", "read_committed"),
        READS,
        "`read_committed` hides aborted records and stops at the last stable offset",
        default="read_uncommitted",
    ),
    Option(
        "untilHighWatermark",
        parse.boolean,
        READS,
        "stop at `replication-offset-checkpoint` instead of the log end",
        default=False,
    ),
    Option(
        "kafka.check.crcs",
        parse.boolean,
        READS,
        "compare the checksum of every batch",
        default=True,
    ),
    Option(
        "maxDecompressedBytes",
        parse.size(1),
        READS,
        "refuse a compressed batch that grows beyond this, as a bad one; memory does not need it",
        shown="no limit",
    ),
    Option(
        "mode",
        parse.one_of(Mode),
        READS,
        "bad bytes: `FAILFAST` fails, `DROPMALFORMED` skips the bad batch with a warning,"
        " `PERMISSIVE` also gives a row of `_corrupt_record` where the schema has that column",
        default=Mode.FAILFAST,
    ),
    Option(
        "view",
        parse.one_of(View),
        BATCH,
        "`records`, `batches` (a row a batch header), `segments`, `transactions`; "
        "`consumer_offsets`, `transaction_state`, `cluster_metadata`, `share_group_state`: "
        "records of that topic of Kafka's own, decoded",
        default=View.RECORDS,
    ),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicSelection:
    """Topics or partitions to read; none of the three means every topic but internal ones."""

    subscribe: tuple[str, ...] | None = None
    pattern: re.Pattern[str] | None = None
    assign: tuple[TopicPartition, ...] | None = None

    @property
    def named_topics(self) -> frozenset[str]:
        """Topics that are named; none where they are not."""
        assigned = {topic_partition.topic for topic_partition in self.assign or ()}
        return frozenset(assigned.union(self.subscribe or ()))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """Options of a read, parsed and checked; travels to tasks.

    `ignored` names what was given and means nothing here. `filesystem` is what opens the paths,
    where a program gave one.
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
    filesystem: Any = None

    @property
    def is_read_committed(self) -> bool:
        """Whether aborted and open transactions are hidden."""
        return self.isolation_level == "read_committed"

    @property
    def skips_corrupt(self) -> bool:
        """Whether bad bytes are stepped over, and no error."""
        return self.mode is not Mode.FAILFAST

    @property
    def has_admission_limits(self) -> bool:
        """Whether something bounds the micro-batches of a stream."""
        limits = (
            self.max_offsets_per_trigger,
            self.min_offsets_per_trigger,
            self.max_bytes_per_trigger,
        )
        return any(limit is not None for limit in limits)
