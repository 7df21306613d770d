"""The partitioner in plain Python: Kafka's murmur2 of one key at a time."""

from __future__ import annotations

from spark_segmentlog.record.write.arrow_columns import BinaryColumn

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF
_POSITIVE = 0x7FFFFFFF


def murmur2(data: bytes) -> int:
    """Hash as ``org.apache.kafka.common.utils.Utils.murmur2`` does; a signed number of 32 bits."""
    value = (_SEED ^ len(data)) & _MASK
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * _MULTIPLIER & _MASK
        word ^= word >> 24
        value = (value * _MULTIPLIER & _MASK) ^ (word * _MULTIPLIER & _MASK)
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _MULTIPLIER & _MASK
    value = (value ^ value >> 13) * _MULTIPLIER & _MASK
    value ^= value >> 15
    return value - (1 << 32) if value > _POSITIVE else value


def partition_for_key(key: bytes, partition_count: int) -> int:
    """Choose the partition of one key; plain twin of the kernel."""
    return (murmur2(key) & _POSITIVE) % partition_count


def assign_key_partitions_plainly(keys: BinaryColumn, partition_count: int) -> list[int]:
    """Choose the partition of every row, -1 where the key is null; plain twin of the kernel."""
    chosen = []
    for row in range(len(keys.lengths)):
        key = keys.value(row)
        chosen.append(-1 if key is None else partition_for_key(key, partition_count))
    return chosen
