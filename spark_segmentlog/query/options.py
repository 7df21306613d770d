"""Every option of the source and the sink, in one table, and what was parsed of them.

Keys have no case (Spark lower-cases them); messages print the documented spelling. Names, defaults
and rules are those of Spark's Kafka source and sink and of Kafka's topic configuration, and all of
it is checked before anything is read. The tables of the documentation are generated from it.
"""

from __future__ import annotations

import difflib
import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from spark_segmentlog.errors import OptionValueError, UnknownOptionError
from spark_segmentlog.log.names import TopicPartition, is_topic_name
from spark_segmentlog.log.tier.remote_segment import Keys, is_uuid
from spark_segmentlog.log.tier.stores import NO_REMOTE, RemoteOptions, layout_names
from spark_segmentlog.query.offsets import (
    EARLIEST,
    LATEST,
    EarliestOffsets,
    GlobalTimestamp,
    LatestOffsets,
    NoMatch,
    OffsetLimit,
    SpecificOffsets,
    SpecificTimestamps,
    check_limits,
    parse_assign_json,
    parse_offsets_json,
    parse_timestamps_json,
)
from spark_segmentlog.query.topic_pattern import compile_java_pattern
from spark_segmentlog.record.system.records import (
    CLUSTER_METADATA,
    CONSUMER_OFFSETS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)

_log = logging.getLogger(__name__)

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1


class Use(StrEnum):
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
    View.CONSUMER_OFFSETS: CONSUMER_OFFSETS,
    View.TRANSACTION_STATE: TRANSACTION_STATE,
    View.CLUSTER_METADATA: CLUSTER_METADATA,
    View.SHARE_GROUP_STATE: SHARE_GROUP_STATE,
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
    uses : tuple of Use
        What takes it.
    meaning : str
        One line.
    ignored_in : tuple of Use
        What warns and goes on, as Spark's Kafka source does; all others refuse it.
    """

    name: str
    parse: Callable[[str], Any]
    default: Any
    shown_default: str
    uses: tuple[Use, ...]
    meaning: str
    ignored_in: tuple[Use, ...] = ()

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


# Parsers: from text to value, or ValueError with the legal values.


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("legal are true and false")
    return text.lower() == "true"


def _integer(low: int, high: int = MAX_LONG) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not low <= int(text) <= high:
            raise ValueError(f"legal are whole numbers from {low} to {high}")
        return int(text)

    return parse


_BYTE_UNITS: Final = {
    unit: 1024**power for power, letter in enumerate("bkmgtp") for unit in (letter, f"{letter}b")
} | {f"{letter}ib": 1024**power for power, letter in enumerate("kmgtp", 1)}
_TIME_UNITS_MS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def _size(low: int, high: int = MAX_LONG) -> Callable[[str], int]:
    return _quantity(low, high, _BYTE_UNITS, "bytes, or a number with k, m, g or t behind it")


def _duration_ms(low: int, high: int = MAX_LONG) -> Callable[[str], int]:
    return _quantity(low, high, _TIME_UNITS_MS, "ms, or a number with s, m, h or d behind it")


def _quantity(low: int, high: int, units: Mapping[str, int], words: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        match = re.fullmatch(r"(-?[0-9]{1,19})\s*([a-z]*)", text.lower())
        factor = 1 if match and not match[2] else units.get(match[2]) if match else None
        if match is None or factor is None or not low <= int(match[1]) * factor <= high:
            raise ValueError(f"legal are {low} to {high} {words}")
        return int(match[1]) * factor

    return parse


def _one_of(kind: type[StrEnum]) -> Callable[[str], StrEnum]:
    legal = {member.value.lower(): member for member in kind}

    def parse(text: str) -> StrEnum:
        if text.lower() not in legal:
            raise ValueError(f"legal are {', '.join(member.value for member in kind)}")
        return legal[text.lower()]

    return parse


def _word(*legal: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        by_key = {word.lower(): word for word in legal}
        if text.lower() not in by_key:
            raise ValueError(f"legal are {', '.join(legal)}")
        return by_key[text.lower()]

    return parse


def _text(text: str) -> str:
    if not text:
        raise ValueError("it must not be empty")
    return text


def _paths(text: str) -> tuple[str, ...]:
    try:
        paths = json.loads(text)
    except ValueError as error:
        raise ValueError(
            f'expected a JSON list of paths, e.g. ["/data/1","/data/2"] ({error})'
        ) from error
    if not isinstance(paths, list) or not all(isinstance(path, str) and path for path in paths):
        raise ValueError('expected a JSON list of paths, e.g. ["/data/1","/data/2"]')
    return tuple(paths)


def _uris(text: str) -> tuple[str, ...]:
    return _paths(text) if text.startswith("[") else (_text(text),)


def _key_files(text: str) -> tuple[tuple[str, str], ...]:
    expected = 'expected JSON of key pair id to private key file, e.g. {"pair-1":"/keys/1.pem"}'
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{expected} ({error})") from error
    if not isinstance(found, dict) or not all(isinstance(it, str) for it in found.values()):
        raise ValueError(expected)
    return tuple(sorted(found.items()))


def _topic_ids(text: str) -> tuple[str, ...]:
    ids = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    wrong = [each for each in ids if not is_uuid(each)]
    if wrong or not ids:
        raise ValueError("legal are topic ids of 22 characters, with commas between them")
    return ids


def _topic_list(text: str) -> tuple[str, ...]:
    topics = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if not topics:
        raise ValueError("no topics to subscribe to; expected e.g. topicA,topicB")
    return topics


def _topic_pattern(text: str) -> re.Pattern[str]:
    if not text:
        raise ValueError("the pattern to subscribe is empty; expected a Java regular expression")
    try:
        return compile_java_pattern(text)
    except ValueError as error:
        raise ValueError(f"no Java regular expression: {error}") from error


def _topic_name(text: str) -> str:
    if not is_topic_name(text):
        raise ValueError(
            "legal are 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', but not '.' and '..'"
        )
    return text


def _offset_limit(text: str) -> OffsetLimit:
    if text.lower() == "earliest":
        return EarliestOffsets()
    if text.lower() == "latest":
        return LatestOffsets()
    try:
        return SpecificOffsets(parse_offsets_json(text))
    except ValueError as error:
        raise ValueError(f"legal are earliest, latest and JSON: {error}") from error


def _timestamps(text: str) -> SpecificTimestamps:
    return SpecificTimestamps(parse_timestamps_json(text))


def _timestamp(text: str) -> GlobalTimestamp:
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or abs(int(text)) > MAX_LONG:
        raise ValueError("expected a single long value, ms since the epoch")
    return GlobalTimestamp(int(text))


def _cleanup_policy(text: str) -> tuple[str, ...]:
    policies = tuple(dict.fromkeys(part.strip() for part in text.lower().split(",")))
    if not set(policies) <= {"delete", "compact"}:
        raise ValueError("legal are delete, compact and delete,compact")
    return policies


# The table


_READS: Final = (Use.BATCH_READ, Use.STREAM_READ)
_BATCH: Final = (Use.BATCH_READ,)
_STREAM: Final = (Use.STREAM_READ,)
_WRITES: Final = (Use.WRITE,)
_ALL: Final = (Use.BATCH_READ, Use.STREAM_READ, Use.WRITE)

OPTIONS: Final = (
    Option(
        "path",
        _text,
        None,
        "",
        _ALL,
        "a log directory, a partition directory, a `.log` file, or a glob of these",
    ),
    Option(
        "paths",
        _paths,
        (),
        "",
        _ALL,
        "JSON list of paths; several log directories are one log, as `log.dirs` is",
    ),
    Option(
        "remoteStorage",
        _uris,
        (),
        "",
        _READS,
        "where tiered storage has copied segments to, a URI or a JSON list: what it has below the"
        " first local segment is read with the local log as one",
    ),
    Option(
        "remoteStorage.layout",
        _word(*layout_names()),
        None,
        "found by looking",
        _READS,
        "`local` (Kafka's LocalTieredStorage) or `aiven` (the open plugin)",
    ),
    Option(
        "remoteStorage.keys",
        _key_files,
        (),
        "",
        _READS,
        'for encrypted segments: `{"pair-1":"/keys/1.pem"}`, id of a key pair to its private key',
    ),
    Option(
        "remoteStorage.topicIds",
        _topic_ids,
        (),
        "",
        _READS,
        "ids of topics to read from the store: of several that had one name, or deleted ones",
    ),
    Option(
        "subscribe",
        _topic_list,
        None,
        "every topic but those named `__*`",
        _READS,
        "topics by their literal names, with commas between them",
    ),
    Option(
        "subscribePattern",
        _topic_pattern,
        None,
        "",
        _READS,
        "topics by a Java regular expression over the whole name",
    ),
    Option("assign", parse_assign_json, None, "", _READS, '`{"topic":[0,1]}`'),
    Option(
        "startingOffsets",
        _offset_limit,
        None,
        "earliest (batch), latest (stream)",
        _READS,
        '`earliest`, `latest` (streams), or `{"topic":{"0":23,"1":-2}}` for every chosen partition,'
        " -2 earliest, -1 latest",
    ),
    Option(
        "endingOffsets",
        _offset_limit,
        None,
        "latest",
        _READS,
        "the same, exclusive; a stream stops advancing there",
    ),
    Option(
        "startingOffsetsByTimestamp",
        _timestamps,
        None,
        "",
        _READS,
        "first record at or after a timestamp in ms, as JSON by topic and partition",
    ),
    Option(
        "startingTimestamp",
        _timestamp,
        None,
        "",
        _READS,
        "one timestamp in ms for all partitions; goes before the two above",
    ),
    Option(
        "endingOffsetsByTimestamp",
        _timestamps,
        None,
        "",
        _READS,
        "the same for the end; no record at or after it means latest",
    ),
    Option("endingTimestamp", _timestamp, None, "", _READS, "the same for the end"),
    Option(
        "startingOffsetsByTimestampStrategy",
        _one_of(NoMatch),
        NoMatch.ERROR,
        "error",
        _READS,
        "`error` or `latest` when no record is at or after the starting timestamp",
    ),
    Option(
        "failOnDataLoss",
        _boolean,
        True,
        "true",
        _READS,
        "whether records that are gone (retention, a deleted partition) fail the query",
    ),
    Option(
        "minPartitions",
        _integer(1, MAX_INT),
        None,
        "",
        _READS,
        "split offset ranges into about this many input partitions, as the Kafka source does",
    ),
    Option(
        "maxRecordsPerPartition",
        _integer(1),
        None,
        "",
        _READS,
        "at most this many offsets in an input partition",
    ),
    Option(
        "maxPartitionBytes",
        _size(1),
        None,
        "one input partition a segment",
        _BATCH,
        "split big segments at index entries and pack small ones up to this size",
    ),
    Option(
        "pushdown",
        _one_of(Pushdown),
        Pushdown.AUTO,
        "auto",
        _BATCH,
        "`true`: this load is used in one scan, so let its predicates narrow what is read; `false`:"
        " never; `auto`: where Spark keeps scans apart (5.0)",
        ignored_in=_STREAM,
    ),
    Option(
        "maxOffsetsPerTrigger",
        _integer(1),
        None,
        "",
        _STREAM,
        "at most this many offsets a micro-batch, shared out in proportion",
        ignored_in=_BATCH,
    ),
    Option(
        "minOffsetsPerTrigger",
        _integer(1),
        None,
        "",
        _STREAM,
        "wait for this many offsets, at most `maxTriggerDelay`",
        ignored_in=_BATCH,
    ),
    Option(
        "maxTriggerDelay",
        _duration_ms(0),
        900_000,
        "15m",
        _STREAM,
        "longest wait for `minOffsetsPerTrigger`",
        ignored_in=_BATCH,
    ),
    Option(
        "maxBytesPerTrigger",
        _size(1),
        None,
        "",
        _STREAM,
        "about this many bytes of log a micro-batch",
        ignored_in=_BATCH,
    ),
    Option(
        "includeHeaders",
        _boolean,
        False,
        "false",
        _ALL,
        "add the column `headers`; a write takes that column in any case",
    ),
    Option(
        "kafka.isolation.level",
        _word("read_uncommitted", "read_committed"),
        "read_uncommitted",
        "read_uncommitted",
        _READS,
        "`read_committed` hides aborted records and stops at the last stable offset",
    ),
    Option(
        "untilHighWatermark",
        _boolean,
        False,
        "false",
        _READS,
        "stop at `replication-offset-checkpoint` instead of the log end",
    ),
    Option(
        "kafka.check.crcs", _boolean, True, "true", _READS, "compare the checksum of every batch"
    ),
    Option(
        "maxDecompressedBytes",
        _size(1),
        None,
        "no limit",
        _READS,
        "refuse a compressed batch that grows beyond this, as a bad one; memory does not need it",
    ),
    Option(
        "mode",
        _one_of(Mode),
        Mode.FAILFAST,
        "FAILFAST",
        _READS,
        "bad bytes: `FAILFAST` fails, `DROPMALFORMED` skips the bad batch with a warning,"
        " `PERMISSIVE` also gives a row of `_corrupt_record` where the schema has that column",
    ),
    Option(
        "view",
        _one_of(View),
        View.RECORDS,
        "records",
        _BATCH,
        "`records`, `batches` (a row a batch header), `segments`, `transactions`; "
        "`consumer_offsets`, `transaction_state`, `cluster_metadata`, `share_group_state`: "
        "records of that topic of Kafka's own, decoded",
    ),
    Option("topic", _topic_name, None, "", _WRITES, "topic for every row, before a column `topic`"),
    Option(
        "num.partitions",
        _integer(1, MAX_INT),
        1,
        "1",
        _WRITES,
        "partitions of a topic that does not exist yet, at least; it gets as many as the rows name",
    ),
    Option(
        "segment.bytes",
        _size(14, MAX_INT),
        1 << 30,
        "1073741824",
        _WRITES,
        "roll to a new segment at this size",
    ),
    Option(
        "segment.ms",
        _duration_ms(1),
        604_800_000,
        "604800000",
        _WRITES,
        "roll when the segment's first record is this much older than the next",
    ),
    Option(
        "segment.index.bytes",
        _size(4, MAX_INT),
        10 << 20,
        "10485760",
        _WRITES,
        "roll when an index is full",
    ),
    Option(
        "index.interval.bytes",
        _size(0, MAX_INT),
        4096,
        "4096",
        _WRITES,
        "bytes of log between two index entries",
    ),
    Option(
        "compression.type",
        _word("none", "gzip", "snappy", "lz4", "zstd"),
        "none",
        "none",
        _WRITES,
        "codec of record batches",
    ),
    Option("compression.gzip.level", _integer(1, 9), None, "the codec's", _WRITES, "1 to 9"),
    Option("compression.lz4.level", _integer(1, 17), None, "the codec's", _WRITES, "1 to 17"),
    Option(
        "compression.zstd.level", _integer(-131072, 22), None, "the codec's", _WRITES, "up to 22"
    ),
    Option(
        "batch.size",
        _size(1, MAX_INT),
        131072,
        "131072",
        _WRITES,
        "target bytes of a record batch before compression",
    ),
    Option(
        "max.message.bytes",
        _size(1, MAX_INT),
        1_048_588,
        "1048588",
        _WRITES,
        "largest record batch",
    ),
    Option(
        "message.timestamp.type",
        _word("CreateTime", "LogAppendTime"),
        "CreateTime",
        "CreateTime",
        _WRITES,
        "keep the rows' timestamps, or stamp batches with the time of the write",
    ),
    Option(
        "flush.messages",
        _integer(1),
        None,
        "at the commit",
        _WRITES,
        "flush staged bytes each time this many records were written",
    ),
    Option(
        "flush.ms", _duration_ms(0), None, "at the commit", _WRITES, "flush staged bytes this often"
    ),
    Option(
        "retention.ms",
        _duration_ms(-1),
        None,
        "not applied",
        _WRITES,
        "after the commit delete segments older than this; -1 for none",
    ),
    Option(
        "retention.bytes",
        _size(-1),
        None,
        "not applied",
        _WRITES,
        "after the commit delete the oldest segments above this size; -1 for none",
    ),
    Option(
        "cleanup.policy",
        _cleanup_policy,
        None,
        "not applied",
        _WRITES,
        "`delete`, `compact` or both, applied after the commit where given",
    ),
    Option(
        "delete.retention.ms",
        _duration_ms(0),
        None,
        "86400000",
        _WRITES,
        "how long compaction keeps tombstones",
    ),
    Option(
        "min.compaction.lag.ms",
        _duration_ms(0),
        None,
        "0",
        _WRITES,
        "how long records stay uncompacted",
    ),
    Option(
        "file.delete.delay.ms",
        _duration_ms(0),
        None,
        "60000",
        _WRITES,
        "how long files stay under `.deleted`",
    ),
    Option(
        "txnAppId",
        _text,
        None,
        "",
        _WRITES,
        "application of an idempotent write, with `txnVersion`; in a stream alone, instead of the "
        "query's id",
    ),
    Option(
        "txnVersion",
        _integer(0),
        None,
        "",
        _WRITES,
        "a version not above the application's last committed one is skipped whole",
    ),
    Option(
        "lock.timeout.ms",
        _duration_ms(0),
        60_000,
        "60000",
        _WRITES,
        "how long to wait for another writer of the directory",
    ),
)
_BY_KEY: Final = {option.name.lower(): option for option in OPTIONS}

SPARK_KEYS: Final = frozenset(("checkpointlocation", "queryname", "owner", "location", "provider"))
"""Keys that Spark adds by itself, besides ``path`` and ``paths``."""

_IGNORED_KAFKA_PREFIXES: Final = ("kafka.", "kafkaconsumer.", "fetchoffset.")
_IGNORED_KAFKA_KEYS: Final = frozenset(("groupidprefix",))
_PRODUCER_NAMES: Final = {
    "kafka.compression.type": "compression.type",
    "kafka.compression.gzip.level": "compression.gzip.level",
    "kafka.compression.lz4.level": "compression.lz4.level",
    "kafka.compression.zstd.level": "compression.zstd.level",
    "kafka.batch.size": "batch.size",
    "kafka.max.request.size": "max.message.bytes",
}
_USE_INSTEAD: Final = (
    "Use DataFrame operations to explicitly {0}serialize the {1}s: they are bytes in both columns."
)
_REFUSED_BY_READS: Final = {
    "kafka.auto.offset.reset": (
        "Instead set the source option 'startingOffsets' to 'earliest' or 'latest' to specify "
        "where to start."
    ),
    "kafka.key.deserializer": _USE_INSTEAD.format("de", "key"),
    "kafka.value.deserializer": _USE_INSTEAD.format("de", "value"),
    "kafka.enable.auto.commit": "Offsets are kept by Spark's checkpoint.",
    "kafka.interceptor.classes": "Interceptors can modify the payload.",
}
_REFUSED_BY_WRITES: Final = {
    "kafka.key.serializer": _USE_INSTEAD.format("", "key"),
    "kafka.value.serializer": _USE_INSTEAD.format("", "value"),
}


# What was parsed


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
    no_match: NoMatch
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


def parse_read_options(options: Mapping[str, str], *, streaming: bool = False) -> ReadOptions:
    """Parse and check the options of a read.

    Raises
    ------
    UnknownOptionError
        An option that does not exist, or is not one of reads.
    OptionValueError
        A value that is not legal, or options that exclude each other.
    """
    use = Use.STREAM_READ if streaming else Use.BATCH_READ
    values, ignored = _parse(options, use, _REFUSED_BY_READS, {})
    starting, ending = _limits(values, streaming=streaming)
    if not streaming:
        _check_batch_limits(starting, ending)
    check_limits(starting, ending)
    _check_trigger_limits(values)
    return ReadOptions(
        paths=_all_paths(values),
        selection=_selection(values),
        starting=starting,
        ending=ending,
        no_match=values["starting_offsets_by_timestamp_strategy"],
        max_trigger_delay_ms=values["max_trigger_delay"],
        isolation_level=values["kafka_isolation_level"],
        check_crcs=values["kafka_check_crcs"],
        ignored=ignored,
        remote=RemoteOptions(
            uris=values["remote_storage"],
            layout=values["remote_storage_layout"],
            keys=Keys(values["remote_storage_keys"]),
            topic_ids=values["remote_storage_topic_ids"],
        ),
        **{
            name: values[name]
            for name in (
                "fail_on_data_loss",
                "min_partitions",
                "max_records_per_partition",
                "max_partition_bytes",
                "pushdown",
                "max_offsets_per_trigger",
                "min_offsets_per_trigger",
                "max_bytes_per_trigger",
                "include_headers",
                "until_high_watermark",
                "max_decompressed_bytes",
                "mode",
                "view",
            )
        },
    )


def parse_write_options(options: Mapping[str, str], *, streaming: bool = False) -> WriteOptions:
    """Parse and check the options of a write.

    Raises
    ------
    UnknownOptionError
        An option that does not exist, or is not one of writes.
    OptionValueError
        A value that is not legal, or options that exclude each other.
    """
    values, ignored = _parse(options, Use.WRITE, _REFUSED_BY_WRITES, _PRODUCER_NAMES)
    _check_transaction(values, streaming=streaming)
    paths = _all_paths(values)
    levels = {codec: values.pop(f"compression_{codec}_level") for codec in ("gzip", "lz4", "zstd")}
    del values["path"], values["paths"], values["include_headers"]
    return WriteOptions(
        **values,
        paths=paths,
        compression_level=levels.get(values["compression_type"]),
        ignored=ignored,
    )


def warn_ignored(options: ReadOptions | WriteOptions) -> None:
    """Warn once of all options that were given and mean nothing."""
    if options.ignored:
        _log.warning(
            "these options mean nothing for files, or nothing here, and are ignored: %s",
            ", ".join(options.ignored),
        )


def keywords_to_options(paths: str | Iterable[str], keywords: Mapping[str, Any]) -> dict[str, str]:
    """Turn Python keywords in snake case, with Python values, into the options of a read.

    Raises
    ------
    UnknownOptionError
        A keyword that is none of a read; the text names the nearest one.
    """
    known = {option.field: option for option in OPTIONS if Use.BATCH_READ in option.uses}
    options = {"paths": json.dumps([paths] if isinstance(paths, str) else list(map(str, paths)))}
    for keyword, value in keywords.items():
        if keyword not in known:
            raise UnknownOptionError(f"no keyword '{keyword}'{_nearest(keyword, known)}")
        if value is not None:
            options[known[keyword].name] = _option_text(known[keyword], value)
    return options


def reading_options_markdown() -> str:
    """Write the documentation's table of the options of reads."""
    lines = ["| option | default | batch | stream | meaning |", "|---|---|---|---|---|"]
    for option in OPTIONS:
        if set(_READS) & set(option.uses):
            marks = ["x" if use in option.uses else "" for use in _READS]
            cells = (f"`{option.name}`", option.shown_default, *marks, option.meaning)
            lines.append(_table_row(cells))
    return "\n".join([*lines, ""])


def writing_options_markdown() -> str:
    """Write the documentation's table of the options of writes."""
    lines = ["| option | default | meaning |", "|---|---|---|"]
    for option in OPTIONS:
        if Use.WRITE in option.uses:
            lines.append(_table_row((f"`{option.name}`", option.shown_default, option.meaning)))
    return "\n".join([*lines, ""])


def _table_row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


# Private helpers


def _parse(
    options: Mapping[str, str],
    use: Use,
    refused: Mapping[str, str],
    renamed: Mapping[str, str],
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Give the value of every option that `use` takes, and the names of those without meaning."""
    values = {option.field: option.default for option in OPTIONS if use in option.uses}
    ignored: list[str] = []
    if use is not Use.WRITE:
        values.update(
            {option.field: option.default for option in OPTIONS if use in option.ignored_in}
        )
        values.setdefault("max_partition_bytes", None)
        values.setdefault("view", View.RECORDS)
    given = {key.lower(): text for key, text in options.items()}
    for key, text in given.items():
        if key in refused:
            raise OptionValueError(f"Kafka option '{key}' is not supported. {refused[key]}")
        option = _BY_KEY.get(renamed.get(key, key))
        if option is None:
            _check_ignorable(key, use)
            ignored.extend([] if key in SPARK_KEYS else [key])
        elif use in option.uses:
            if key in renamed and given.get(option.name.lower(), text) != text:
                raise OptionValueError(f"options '{key}' and '{option.name}' differ: give one")
            values[option.field] = option.value(text)
        elif use in option.ignored_in:
            option.value(text)
            ignored.append(option.name)
        else:
            raise UnknownOptionError(
                f"option '{option.name}' is not one of {use}; it is one of "
                f"{' and '.join(option.uses)}"
            )
    return values, tuple(ignored)


def _check_ignorable(key: str, use: Use) -> None:
    if key in SPARK_KEYS or key in _IGNORED_KAFKA_KEYS or key.startswith(_IGNORED_KAFKA_PREFIXES):
        return
    known = {option.name: option for option in OPTIONS if use in option.uses}
    raise UnknownOptionError(f"no option '{key}'{_nearest(key, known)}")


def _nearest(name: str, known: Iterable[str]) -> str:
    by_key = {candidate.lower(): candidate for candidate in known}
    nearest = difflib.get_close_matches(name.lower(), by_key, n=1, cutoff=0.0)
    return f"; the nearest one is '{by_key[nearest[0]]}'" if nearest else ""


def _limits(values: Mapping[str, Any], *, streaming: bool) -> tuple[OffsetLimit, OffsetLimit]:
    """Pick starts and ends: timestamp before timestamps by partition before offsets."""
    starting: OffsetLimit = (
        values["starting_timestamp"]
        or values["starting_offsets_by_timestamp"]
        or values["starting_offsets"]
        or (LatestOffsets() if streaming else EarliestOffsets())
    )
    ending: OffsetLimit = (
        values["ending_timestamp"]
        or values["ending_offsets_by_timestamp"]
        or values["ending_offsets"]
        or LatestOffsets()
    )
    return starting, ending


def _check_batch_limits(starting: OffsetLimit, ending: OffsetLimit) -> None:
    if isinstance(starting, LatestOffsets):
        raise OptionValueError(
            "option 'startingOffsets' is 'latest': starting offset can't be latest for batch "
            "queries; legal are earliest and JSON"
        )
    if isinstance(ending, EarliestOffsets):
        raise OptionValueError(
            "option 'endingOffsets' is 'earliest': ending offset can't be earliest for batch "
            "queries; legal are latest and JSON"
        )
    if isinstance(starting, SpecificOffsets):
        for topic_partition, offset in starting.offsets.items():
            if offset == LATEST:
                raise OptionValueError(
                    f"startingOffsets for {topic_partition} can't be latest (-1) for batch queries"
                )
    if isinstance(ending, SpecificOffsets):
        for topic_partition, offset in ending.offsets.items():
            if offset == EARLIEST:
                raise OptionValueError(
                    f"ending offset for {topic_partition} can't be earliest (-2) for batch queries"
                )


def _check_trigger_limits(values: Mapping[str, Any]) -> None:
    low, high = values["min_offsets_per_trigger"], values["max_offsets_per_trigger"]
    if low is not None and high is not None and low > high:
        raise OptionValueError(
            f"the value of minOffsetsPerTrigger ({low}) is higher than that of "
            f"maxOffsetsPerTrigger ({high})"
        )


def _check_transaction(values: Mapping[str, Any], *, streaming: bool) -> None:
    has_id, has_version = values["txn_app_id"] is not None, values["txn_version"] is not None
    if streaming and has_version:
        raise OptionValueError(
            "option 'txnVersion' is not one of a stream, whose versions are its micro-batch ids; "
            "'txnAppId' alone stands for the query's own id"
        )
    if not streaming and has_id != has_version:
        raise OptionValueError(
            "options 'txnAppId' and 'txnVersion' are given together or not at all; given is only "
            f"'{'txnAppId' if has_id else 'txnVersion'}'"
        )


def _selection(values: Mapping[str, Any]) -> TopicSelection:
    names = ("subscribe", "subscribePattern", "assign")
    given = [name for name in names if values[snake_case(name)] is not None]
    if len(given) > 1:
        raise OptionValueError(
            f"only one of subscribe, subscribePattern and assign can be specified; given are "
            f"{' and '.join(given)}"
        )
    system_topic = values["view"].system_topic
    if system_topic is not None and not given:
        return TopicSelection(subscribe=(system_topic,))
    return TopicSelection(
        subscribe=values["subscribe"],
        pattern=values["subscribe_pattern"],
        assign=values["assign"],
    )


def _all_paths(values: Mapping[str, Any]) -> tuple[str, ...]:
    path = () if values["path"] is None else (values["path"],)
    paths = tuple(dict.fromkeys((*path, *values["paths"])))
    if not paths:
        raise OptionValueError(
            "no path is given: load('/data/kafka-logs') or save('/data/kafka-logs'), or option "
            "'paths' with a JSON list"
        )
    return paths


def _option_text(option: Option, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple) and option.name == "subscribe":
        return ",".join(value)
    if isinstance(value, dict | list | tuple):
        return json.dumps(value)
    return str(value)
