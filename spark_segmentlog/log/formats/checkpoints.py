"""The small text files of a broker: offset checkpoints, leader epochs, whose a directory is.

An offset checkpoint is a version (0), a count, and a line ``topic partition offset`` each; a broker
replaces it whole, so a malformed file is as good as a missing one. Their names:

- ``log-start-offset-checkpoint``: where a log starts, if above its first segment's base offset;
- ``recovery-point-offset-checkpoint``: everything below was flushed;
- ``replication-offset-checkpoint``: the high watermarks, some seconds old;
- ``cleaner-offset-checkpoint``: how far compaction has come.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeVar

from spark_segmentlog.log.io.reading import Storage
from spark_segmentlog.log.names import MAX_OFFSET, MAX_PARTITION, TopicPartition

VERSION: Final = 0

LOG_START_OFFSET_CHECKPOINT: Final = "log-start-offset-checkpoint"
RECOVERY_POINT_CHECKPOINT: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARK_CHECKPOINT: Final = "replication-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT: Final = "cleaner-offset-checkpoint"
LEADER_EPOCH_CHECKPOINT: Final = "leader-epoch-checkpoint"
PARTITION_METADATA: Final = "partition.metadata"
META_PROPERTIES: Final = "meta.properties"
CLEAN_SHUTDOWN_MARK: Final = ".kafka_cleanshutdown"

MAX_LEADER_EPOCH: Final = 2**31 - 1
RESERVED_IDS_COUNT: Final = 100
MAX_VERSION: Final = 2**31 - 1
MAX_NODE_ID: Final = 2**31 - 1
NODE_ID_NAMES: Final[Mapping[str, str]] = {"0": "broker.id", "1": "node.id"}
MAX_DIGITS: Final = 19

_JAVA_SPACES: Final = " \t\v\f"
_SPACES: Final = re.compile(r"\s+", re.ASCII)
_LINE_END: Final = re.compile(r"\r\n|\r|\n")
_CONTINUED_LINE: Final = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:\r\n|\r|\n)[ \t\f]*")
_PROPERTY: Final = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*[=:]?[ \t\f]*(.*)")
_ESCAPE: Final = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)")
_UUID: Final = re.compile(r"([A-Za-z0-9_-]{22})(?:==)?")
_METADATA_SEPARATOR: Final = re.compile(r":\s+", re.ASCII)

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LeaderEpoch:
    """A leader's number and the first offset that it wrote."""

    epoch: int
    start_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MetaProperties:
    """`meta.properties`: the cluster and the broker that a log directory belongs to."""

    cluster_id: str
    node_id: int
    directory_id: str | None = None

    @property
    def has_reserved_directory_id(self) -> bool:
        """Whether the id is one of those that Kafka keeps for itself."""
        found = _uuid(self.directory_id or "")
        return found is not None and int.from_bytes(found, "big") < RESERVED_IDS_COUNT


def parse_offset_checkpoint(text: str) -> dict[TopicPartition, int] | None:
    """Read an offset checkpoint; None where `malformed_rows` tells of it."""
    rows = _parse_rows(text, fields_count=3)
    if rows is None:
        return None
    offsets = {}
    for topic, text_of_partition, text_of_offset in rows:
        partition = _integer(text_of_partition, most=MAX_PARTITION)
        offset = _integer(text_of_offset, least=-MAX_OFFSET, most=MAX_OFFSET)
        if partition is None or offset is None:
            return None
        offsets[TopicPartition(topic, partition)] = offset
    return offsets


def has_offset_rows(text: str) -> bool:
    """Tell whether there are as many lines and fields as there are to be, whatever is in them."""
    return _parse_rows(text, fields_count=3) is not None


def malformed_rows(*, has_rows: bool) -> str:
    """Say what is wrong with a checkpoint that cannot be read."""
    if has_rows:
        return "an entry of it has no number, or one out of range, where a number belongs"
    return f"its lines are not version {VERSION}, the number of entries, and that many entries"


def format_offset_checkpoint(offsets: Mapping[TopicPartition, int]) -> bytes:
    """Write an offset checkpoint."""
    return _format_rows(
        f"{topic_partition.topic} {topic_partition.partition} {offset}"
        for topic_partition, offset in offsets.items()
    )


def parse_leader_epochs(text: str) -> list[LeaderEpoch] | None:
    """Read a `leader-epoch-checkpoint`; None where `malformed_rows` tells of it."""
    rows = _parse_rows(text, fields_count=2)
    if rows is None:
        return None
    entries = []
    for text_of_epoch, text_of_offset in rows:
        epoch = _integer(text_of_epoch, most=MAX_LEADER_EPOCH)
        start_offset = _integer(text_of_offset, most=MAX_OFFSET)
        if epoch is None or start_offset is None:
            return None
        entries.append(LeaderEpoch(epoch, start_offset))
    return sorted(entries, key=lambda entry: entry.epoch)


def has_leader_epoch_rows(text: str) -> bool:
    """Tell the same of a `leader-epoch-checkpoint`: a broker dies of what is in the fields."""
    return _parse_rows(text, fields_count=2) is not None


def format_leader_epochs(epochs: Sequence[LeaderEpoch]) -> bytes:
    """Write a `leader-epoch-checkpoint`."""
    return _format_rows(f"{entry.epoch} {entry.start_offset}" for entry in epochs)


def parse_topic_id(text: str) -> str | None:
    """Read the topic id in a `partition.metadata`; None where a broker would not take it."""
    fields = [_METADATA_SEPARATOR.split(line) for line in _lines(text)[:2]]
    if [len(pair) for pair in fields] != [2, 2]:
        return None
    (_, version), (_, topic_id) = fields
    if _integer(version, most=MAX_VERSION) is None or not _is_topic_id(topic_id):
        return None
    return topic_id


def format_topic_id(topic_id: str) -> bytes:
    """Write a `partition.metadata`."""
    return f"version: {VERSION}\ntopic_id: {topic_id}".encode()


def parse_meta_properties(text: str) -> MetaProperties | None:
    """Read a `meta.properties`; None where a broker would not take it.

    Version 0, of ZooKeeper's days, has `broker.id` in place of `node.id`.
    """
    fields = _parse_properties(text)
    version = fields.get("version", "0").strip()
    node_id = _integer(fields.get(NODE_ID_NAMES.get(version, ""), ""), most=MAX_NODE_ID)
    directory_id = fields.get("directory.id")
    if not fields.get("cluster.id") or node_id is None:
        return None
    if directory_id is not None and _uuid(directory_id) is None:
        return None
    return MetaProperties(
        cluster_id=fields["cluster.id"],
        node_id=node_id,
        directory_id=directory_id,
    )


def meta_properties_version(text: str) -> str:
    """Read which version a `meta.properties` says to be of; 0 where it says nothing."""
    return _parse_properties(text).get("version", "0").strip()


def end_offset_for_epoch(epochs: Sequence[LeaderEpoch], epoch: int, log_end_offset: int) -> int:
    """Find where the entries of an epoch, or of those below it, end: a follower is cut there."""
    for entry in epochs:
        if entry.epoch > epoch:
            return entry.start_offset
    return log_end_offset


def read_offset_checkpoint(
    storage: Storage, directory: str, name: str
) -> dict[TopicPartition, int] | None:
    """Read an offset checkpoint of a log directory; None where it is missing, empty or damaged."""
    text = read_text(storage, directory, name)
    return None if not text else _known(parse_offset_checkpoint(text), directory, name)


def read_leader_epochs(storage: Storage, directory: str) -> list[LeaderEpoch]:
    """Read a partition's leader epochs, ascending; none where the file is missing or damaged."""
    text = read_text(storage, directory, LEADER_EPOCH_CHECKPOINT)
    if text is None:
        return []
    return _known(parse_leader_epochs(text), directory, LEADER_EPOCH_CHECKPOINT) or []


def read_topic_id(storage: Storage, directory: str) -> str | None:
    """Read the topic id of a partition; None where `partition.metadata` is missing or damaged."""
    text = read_text(storage, directory, PARTITION_METADATA)
    return None if text is None else parse_topic_id(text)


def read_text(storage: Storage, directory: str, name: str) -> str | None:
    """Read a small file of a directory; None where it is missing."""
    data = storage.read_file(f"{directory}/{name}")
    return None if data is None else data.decode("utf-8", "replace")


def _known(value: _T | None, directory: str, name: str) -> _T | None:
    if value is None:
        _warn_malformed(directory, name)
    return value


@lru_cache(maxsize=1024)
def _warn_malformed(directory: str, name: str) -> None:
    """Warn once a file."""
    _log.warning("%s/%s is not as Kafka writes it: read as if it were missing", directory, name)


def _parse_rows(text: str, *, fields_count: int) -> list[list[str]] | None:
    """Read the rows of a checkpoint; None where a broker would not, down to an empty line."""
    lines = _lines(text)
    if len(lines) < 2 or _integer(lines[0], most=MAX_VERSION) != VERSION:
        return None
    rows = [_SPACES.split(line.rstrip(_JAVA_SPACES)) for line in lines[2:]]
    if len(rows) != _integer(lines[1], most=MAX_OFFSET) or any(
        len(row) != fields_count or not row[0] for row in rows
    ):
        return None
    return rows


def _lines(text: str) -> list[str]:
    """Cut a text into lines where Java does."""
    lines = _LINE_END.split(text)
    return lines if lines[-1] else lines[:-1]


def _format_rows(rows: Iterable[str]) -> bytes:
    lines = list(rows)
    return "".join(f"{line}\n" for line in [str(VERSION), str(len(lines)), *lines]).encode()


def _parse_properties(text: str) -> dict[str, str]:
    """Read a file of Java's Properties: spaces after a value are part of it."""
    properties = {}
    for line in _lines(_CONTINUED_LINE.sub(r"\1", text)):
        found = _PROPERTY.fullmatch(line.lstrip(_JAVA_SPACES))
        if found and not line.lstrip(_JAVA_SPACES).startswith(("#", "!")):
            properties[_unescaped(found[1])] = _unescaped(found[2])
    return properties


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(
        lambda escape: escape[1] if len(escape[1]) == 1 else chr(int(escape[1][1:], 16)), text
    )


def _is_topic_id(text: str) -> bool:
    topic_id = _uuid(text)
    return topic_id is not None and any(topic_id)


def _uuid(text: str) -> bytes | None:
    """Read one of Kafka's ids; None for any that Kafka would not read."""
    digits = _UUID.fullmatch(text)
    return None if digits is None else base64.urlsafe_b64decode(digits[1] + "==")


def _integer(text: str, *, least: int = 0, most: int) -> int | None:
    """Read a number; None for any that Java would not read, or is out of bounds."""
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= MAX_DIGITS):
        return None
    number = int(text)
    return number if least <= number <= most else None
