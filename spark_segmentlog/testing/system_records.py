"""Records of a broker's own topics, as a coordinator writes them."""

from __future__ import annotations

from spark_segmentlog.testing.batches import RecordSpec


def offset_commit(
    group: str,
    topic: str,
    partition: int,
    offset: int | None,
    *,
    metadata: str = "",
    timestamp_ms: int = 0,
) -> RecordSpec:
    """Make the record of a committed offset, in version 3; without an offset, what takes it back.

    Parameters
    ----------
    group : str
        The consumer group.
    topic, partition
        Where the group has read.
    offset : int or None
        The next offset that it reads.
    metadata : str
        What the client has added.
    timestamp_ms : int
        Time of the commit, and of the record.
    """
    key = _int(1, 2) + _text(group) + _text(topic) + _int(partition, 4)
    if offset is None:
        return RecordSpec(key=key, value=None, timestamp_ms=timestamp_ms)
    value = _int(3, 2) + _int(offset, 8) + _int(-1, 4) + _text(metadata) + _int(timestamp_ms, 8)
    return RecordSpec(key=key, value=value, timestamp_ms=timestamp_ms)


def _int(value: int, length: int) -> bytes:
    return value.to_bytes(length, "big", signed=True)


def _text(text: str) -> bytes:
    data = text.encode()
    return _int(len(data), 2) + data
