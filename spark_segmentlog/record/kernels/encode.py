"""Compiled half of the encoder and the partitioner: flat arrays to record batches of format 2.

Rows are visited in the order of an index array, cut into groups (one a partition); a group's rows
fill batches. One pass measures and cuts, a second writes into memory of exactly the measured size,
so nothing here checks a bound: every index comes from `plan_batches`. Lengths of -1 are nulls.

The plain twins are in the tests' `support`. A reading worker never loads this file.
"""

from __future__ import annotations

import numpy as np

from spark_segmentlog.record.jit import copy_bytes, inlined, kernel, load_be64
from spark_segmentlog.record.kernels.checksum import crc32c_of
from spark_segmentlog.record.kernels.varints import varint_size, write_varint
from spark_segmentlog.record.layout import (
    ATTRIBUTES_OFFSET,
    BASE_SEQUENCE_OFFSET,
    BASE_TIMESTAMP_OFFSET,
    BATCH_LENGTH_OFFSET,
    CRC_OFFSET,
    LAST_OFFSET_DELTA_OFFSET,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAGIC_V2,
    MAX_TIMESTAMP_OFFSET,
    OFFSET_OFFSET,
    PARTITION_LEADER_EPOCH_OFFSET,
    PRODUCER_EPOCH_OFFSET,
    PRODUCER_ID_OFFSET,
    RECORD_BATCH_OVERHEAD,
    RECORDS_COUNT_OFFSET,
)
from spark_segmentlog.record.types import Bytes, Int32s, Int64s

# Numbers


@inlined
def write_be16(buffer: Bytes, at: int, value: int) -> None:
    """Write the low 16 bits, big-endian."""
    buffer[at] = np.uint8(value >> 8)
    buffer[at + 1] = np.uint8(value)


@inlined
def write_be32(buffer: Bytes, at: int, value: int) -> None:
    """Write the low 32 bits, big-endian."""
    write_be16(buffer, at, value >> 16)
    write_be16(buffer, at + 2, value)


@inlined
def write_be64(buffer: Bytes, at: int, value: int) -> None:
    """Write 64 bits, big-endian."""
    write_be32(buffer, at, value >> 32)
    write_be32(buffer, at + 4, value)


# Sizes


@kernel
def header_section_sizes(
    list_starts: Int64s,
    list_lengths: Int64s,
    key_lengths: Int64s,
    value_lengths: Int64s,
    sizes: Int64s,
) -> None:
    """Bytes that each row's headers take after the value, their count included."""
    for row in range(len(sizes)):
        size = varint_size(list_lengths[row])
        for at in range(list_starts[row], list_starts[row] + list_lengths[row]):
            size += varint_size(key_lengths[at]) + key_lengths[at]
            size += varint_size(value_lengths[at]) + max(value_lengths[at], 0)
        sizes[row] = size


@kernel
def plan_batches(
    rows: Int64s,
    group_ends: Int64s,
    key_lengths: Int64s,
    value_lengths: Int64s,
    header_sizes: Int64s,
    timestamps: Int64s,
    batch_limit: int,
    record_limit: int,
    body_lengths: Int64s,
    first_places: Int64s,
    batch_groups: Int64s,
    batch_sizes: Int64s,
    max_timestamps: Int64s,
) -> tuple[int, int, int]:
    """Measure every record and cut the batches.

    A batch ends before the record that would bring it above `batch_limit`, and with its group. The
    batch arrays have room for a batch a row; `first_places` for one more, the end of the last.

    Returns
    -------
    tuple of (int, int, int)
        Number of batches, -1 and 0; or, as the second and third, the place in `rows` of a record
        that alone makes a batch above `record_limit`, and the size of that batch.
    """
    batch = 0
    place = 0
    for group in range(len(group_ends)):
        end = group_ends[group]
        while place < end:
            first = place
            base_timestamp = timestamps[rows[first]]
            largest = base_timestamp
            size = np.int64(RECORD_BATCH_OVERHEAD)
            while place < end:
                row = rows[place]
                timestamp = timestamps[row]
                body = 1 + varint_size(timestamp - base_timestamp) + varint_size(place - first)
                body += varint_size(key_lengths[row]) + max(key_lengths[row], 0)
                body += varint_size(value_lengths[row]) + max(value_lengths[row], 0)
                body += header_sizes[row] if len(header_sizes) else 1
                record = varint_size(body) + body
                if place > first and size + record > batch_limit:
                    break
                if size + record > record_limit:
                    return batch, place, size + record
                body_lengths[place] = body
                size += record
                largest = max(largest, timestamp)
                place += 1
            first_places[batch] = first
            batch_groups[batch] = group
            batch_sizes[batch] = size
            max_timestamps[batch] = largest
            batch += 1
    first_places[batch] = place
    return batch, -1, 0


# Writing


@kernel
def write_records(
    buffer: Bytes,
    positions: Int64s,
    first_places: Int64s,
    body_lengths: Int64s,
    rows: Int64s,
    timestamps: Int64s,
    key_starts: Int64s,
    key_lengths: Int64s,
    key_data: Bytes,
    value_starts: Int64s,
    value_lengths: Int64s,
    value_data: Bytes,
    list_starts: Int64s,
    list_lengths: Int64s,
    header_key_starts: Int64s,
    header_key_lengths: Int64s,
    header_key_data: Bytes,
    header_value_starts: Int64s,
    header_value_lengths: Int64s,
    header_value_data: Bytes,
) -> None:
    """Write the records of some batches, those of each from its position on, without its header."""
    for batch in range(len(positions)):
        first = first_places[batch]
        base_timestamp = timestamps[rows[first]]
        at = positions[batch]
        for place in range(first, first_places[batch + 1]):
            row = rows[place]
            at = write_varint(buffer, at, body_lengths[place])
            buffer[at] = 0
            at = write_varint(buffer, at + 1, timestamps[row] - base_timestamp)
            at = write_varint(buffer, at, place - first)
            at = write_varint(buffer, at, key_lengths[row])
            if key_lengths[row] > 0:
                copy_bytes(buffer, at, key_data, key_starts[row], key_lengths[row])
                at += key_lengths[row]
            at = write_varint(buffer, at, value_lengths[row])
            if value_lengths[row] > 0:
                copy_bytes(buffer, at, value_data, value_starts[row], value_lengths[row])
                at += value_lengths[row]
            if len(list_lengths) == 0:
                buffer[at] = 0
                at += 1
                continue
            at = write_varint(buffer, at, list_lengths[row])
            for header in range(list_starts[row], list_starts[row] + list_lengths[row]):
                length = header_key_lengths[header]
                at = write_varint(buffer, at, length)
                copy_bytes(buffer, at, header_key_data, header_key_starts[header], length)
                at += length
                length = header_value_lengths[header]
                at = write_varint(buffer, at, length)
                if length > 0:
                    copy_bytes(buffer, at, header_value_data, header_value_starts[header], length)
                    at += length


@kernel
def write_batch_headers(
    buffer: Bytes,
    positions: Int64s,
    sizes: Int64s,
    base_offsets: Int64s,
    record_counts: Int64s,
    base_timestamps: Int64s,
    max_timestamps: Int64s,
    attributes: int,
) -> None:
    """Write the headers of some batches around what stands after them already."""
    for batch in range(len(positions)):
        at = positions[batch]
        write_be64(buffer, at + OFFSET_OFFSET, base_offsets[batch])
        write_be32(buffer, at + BATCH_LENGTH_OFFSET, sizes[batch] - LOG_OVERHEAD)
        write_be32(buffer, at + PARTITION_LEADER_EPOCH_OFFSET, 0)
        buffer[at + MAGIC_OFFSET] = MAGIC_V2
        write_be16(buffer, at + ATTRIBUTES_OFFSET, attributes)
        write_be32(buffer, at + LAST_OFFSET_DELTA_OFFSET, record_counts[batch] - 1)
        write_be64(buffer, at + BASE_TIMESTAMP_OFFSET, base_timestamps[batch])
        write_be64(buffer, at + MAX_TIMESTAMP_OFFSET, max_timestamps[batch])
        write_be64(buffer, at + PRODUCER_ID_OFFSET, -1)
        write_be16(buffer, at + PRODUCER_EPOCH_OFFSET, -1)
        write_be32(buffer, at + BASE_SEQUENCE_OFFSET, -1)
        write_be32(buffer, at + RECORDS_COUNT_OFFSET, record_counts[batch])
        crc = crc32c_of(buffer, at + ATTRIBUTES_OFFSET, at + sizes[batch])
        write_be32(buffer, at + CRC_OFFSET, crc)


@kernel
def patch_offsets(buffer: Bytes, positions: Int64s, base_offset: int, leader_epoch: int) -> None:
    """Raise base offsets and stamp the leader epoch; the CRC covers neither."""
    for batch in range(len(positions)):
        at = positions[batch]
        write_be64(buffer, at + OFFSET_OFFSET, load_be64(buffer, at + OFFSET_OFFSET) + base_offset)
        write_be32(buffer, at + PARTITION_LEADER_EPOCH_OFFSET, leader_epoch)


# Partitions


@inlined
def murmur2_bytes(data: Bytes, start: int, length: int) -> np.uint32:
    """Hash some bytes as ``org.apache.kafka.common.utils.Utils.murmur2`` does."""
    multiplier = np.uint32(0x5BD1E995)
    value = np.uint32(0x9747B28C) ^ np.uint32(length)
    whole = start + (length & ~3)
    for at in range(start, whole, 4):
        word = (
            np.uint32(data[at])
            | np.uint32(data[at + 1]) << np.uint32(8)
            | np.uint32(data[at + 2]) << np.uint32(16)
            | np.uint32(data[at + 3]) << np.uint32(24)
        )
        word = np.uint32(word * multiplier)
        word ^= word >> np.uint32(24)
        value = np.uint32(np.uint32(value * multiplier) ^ np.uint32(word * multiplier))
    rest = length & 3
    if rest == 3:
        value ^= np.uint32(data[whole + 2]) << np.uint32(16)
    if rest >= 2:
        value ^= np.uint32(data[whole + 1]) << np.uint32(8)
    if rest >= 1:
        value = np.uint32((value ^ np.uint32(data[whole])) * multiplier)
    value = np.uint32((value ^ (value >> np.uint32(13))) * multiplier)
    return value ^ (value >> np.uint32(15))


@kernel
def murmur2_partitions(
    starts: Int64s, lengths: Int64s, data: Bytes, partition_count: int, partitions: Int32s
) -> None:
    """Choose the partition of every row that has a key and no partition yet (-1)."""
    for row in range(len(lengths)):
        if partitions[row] < 0 and lengths[row] >= 0:
            positive = murmur2_bytes(data, starts[row], lengths[row]) & np.uint32(0x7FFFFFFF)
            partitions[row] = np.int64(positive) % partition_count
