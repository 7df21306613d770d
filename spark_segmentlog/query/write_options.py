"""The options of the sink, in one table, and the values of those that were given.

An option is an entry of the table and a field of `WriteOptions`, by its name in snake case. Names,
defaults and rules are those of Spark's Kafka sink and of Kafka's topic configuration. What holds
for reads and writes alike is in `read_options`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_segmentlog.query import option_parsers as parse
from spark_segmentlog.query.option import WRITES, Option
from spark_segmentlog.record.codec.codecs import CODECS

WRITE_OPTIONS: Final = (
    Option("topic", parse.topic_name, WRITES, "topic for every row, before a column `topic`"),
    Option(
        "num.partitions",
        parse.integer(1, parse.MAX_INT),
        WRITES,
        "partitions of a topic that does not exist yet, at least; it gets as many as the rows name",
        default=1,
    ),
    Option(
        "segment.bytes",
        parse.size(14, parse.MAX_INT),
        WRITES,
        "roll to a new segment at this size",
        default=1 << 30,
    ),
    Option(
        "segment.ms",
        parse.duration_ms(1),
        WRITES,
        "roll when the segment's first record is this much older than the next",
        default=604_800_000,
    ),
    Option(
        "segment.index.bytes",
        parse.size(4, parse.MAX_INT),
        WRITES,
        "roll when an index is full",
        default=10 << 20,
    ),
    Option(
        "index.interval.bytes",
        parse.size(0, parse.MAX_INT),
        WRITES,
        "bytes of log between two index entries",
        default=4096,
    ),
    Option("compression.type", parse.codec, WRITES, "codec of record batches", default="none"),
    *(
        Option(
            f"compression.{codec.name}.level",
            parse.integer(codec.levels.lowest, codec.levels.highest),
            WRITES,
            f"{codec.levels.lowest} to {codec.levels.highest}",
            shown="the codec's",
        )
        for codec in CODECS.values()
        if codec.levels is not None
    ),
    Option(
        "batch.size",
        parse.size(1, parse.MAX_INT),
        WRITES,
        "target bytes of a record batch before compression",
        default=131072,
    ),
    Option(
        "max.message.bytes",
        parse.size(1, parse.MAX_INT),
        WRITES,
        "largest record batch",
        default=1_048_588,
    ),
    Option(
        "message.timestamp.type",
        parse.word("CreateTime", "LogAppendTime"),
        WRITES,
        "keep the rows' timestamps, or stamp batches with the time of the write",
        default="CreateTime",
    ),
    Option(
        "flush.messages",
        parse.integer(1),
        WRITES,
        "flush staged bytes each time this many records were written",
        shown="at the commit",
    ),
    Option(
        "flush.ms",
        parse.duration_ms(0),
        WRITES,
        "flush staged bytes this often",
        shown="at the commit",
    ),
    Option(
        "retention.ms",
        parse.duration_ms(-1),
        WRITES,
        "after the commit delete segments older than this; -1 for none",
        shown="not applied",
    ),
    Option(
        "retention.bytes",
        parse.size(-1),
        WRITES,
        "after the commit delete the oldest segments above this size; -1 for none",
        shown="not applied",
    ),
    Option(
        "cleanup.policy",
        parse.cleanup_policy,
        WRITES,
        "`delete`, `compact` or both, applied after the commit where given",
        shown="not applied",
    ),
    Option(
        "delete.retention.ms",
        parse.duration_ms(0),
        WRITES,
        "how long compaction keeps tombstones",
        shown="86400000",
    ),
    Option(
        "min.compaction.lag.ms",
        parse.duration_ms(0),
        WRITES,
        "how long records stay uncompacted",
        shown="0",
    ),
    Option(
        "file.delete.delay.ms",
        parse.duration_ms(0),
        WRITES,
        "how long files stay under `.deleted`",
        shown="60000",
    ),
    Option(
        "txnAppId",
        parse.non_empty,
        WRITES,
        "application of an idempotent write, with `txnVersion`; in a stream alone, instead of the "
        "query's id",
    ),
    Option(
        "txnVersion",
        parse.integer(0),
        WRITES,
        "a version not above the application's last committed one is skipped whole",
    ),
    Option(
        "lock.timeout.ms",
        parse.duration_ms(0),
        WRITES,
        "how long to wait for another writer of the directory",
        default=60_000,
    ),
)


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
