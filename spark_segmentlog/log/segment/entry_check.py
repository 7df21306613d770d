"""One batch or message in a file: what its header says, and whether its checksum is right.

A checksum is compared piece by piece, so that no memory is taken for a batch, however large.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Final

import crc32c
import numpy as np
import numpy.typing as npt

from spark_segmentlog.errors import InvalidBatchError
from spark_segmentlog.log.io.reading import LogFile
from spark_segmentlog.record.layout import (
    ATTRIBUTES_OFFSET,
    COMPRESSION_CODEC_MASK,
    CRC_LENGTH,
    CRC_OFFSET,
    LEGACY_ATTRIBUTES_OFFSET,
    LEGACY_CRC_OFFSET,
    LEGACY_FIELD_LENGTH,
    LEGACY_KEY_OFFSET_V0,
    LEGACY_KEY_OFFSET_V1,
    LOG_OVERHEAD,
    LOG_PREFIX,
    MAGIC_OFFSET,
    MAGIC_V0,
    MAGIC_V1,
    MAGIC_V2,
    MIN_MESSAGE_SIZE_V0,
    RECORD_BATCH_OVERHEAD,
)
from spark_segmentlog.record.plain.batch import parse_record_batch_header

CHECKSUM_PIECE_BYTES: Final = 256 * 1024
MAX_PROVEN_BYTES: Final = 64 * 1024 * 1024
MIN_ENTRY_BYTES: Final = LOG_OVERHEAD + MIN_MESSAGE_SIZE_V0

_KEY_OFFSETS: Final = {MAGIC_V0: LEGACY_KEY_OFFSET_V0, MAGIC_V1: LEGACY_KEY_OFFSET_V1}


def has_good_checksum(
    file: LogFile,
    position: int,
    size_bytes: int,
    buffer: npt.NDArray[np.uint8] | None = None,
) -> bool:
    """Compare the checksum of the entry at a position, whose size is known.

    Parameters
    ----------
    buffer : ndarray of uint8, optional
        Memory to read into, which is overwritten.
    """
    if buffer is None:
        buffer = np.empty(min(size_bytes, CHECKSUM_PIECE_BYTES), np.uint8)
    header = file.read_at(position, RECORD_BATCH_OVERHEAD)
    is_batch = header[MAGIC_OFFSET] == MAGIC_V2
    start, stored_at, checksum = (
        (ATTRIBUTES_OFFSET, CRC_OFFSET, crc32c.crc32c)
        if is_batch
        else (MAGIC_OFFSET, LEGACY_CRC_OFFSET, zlib.crc32)
    )
    crc = 0
    while start < size_bytes:
        count = file.pread_into(buffer, position + start, min(len(buffer), size_bytes - start))
        if count == 0:
            return False
        crc = checksum(buffer.data[:count], crc)
        start += count
    return crc == int.from_bytes(header[stored_at : stored_at + CRC_LENGTH], "big")


def find_proven_size(file: LogFile, position: int) -> int | None:
    """Find the size of an entry at which its checksum is right; None where none is known.

    Its offset or its format may be wrong all the same, and so may the length of a message of
    formats 0 and 1: its key and value tell it too.
    """
    header = file.read_at(position, RECORD_BATCH_OVERHEAD)
    if len(header) < MIN_ENTRY_BYTES:
        return None
    rest = min(file.size() - position, MAX_PROVEN_BYTES)
    claimed = LOG_OVERHEAD + int(LOG_PREFIX.unpack_from(header)[1])
    if RECORD_BATCH_OVERHEAD <= claimed <= rest:
        data = file.read_at(position, claimed)
        stored = int.from_bytes(data[CRC_OFFSET : CRC_OFFSET + CRC_LENGTH], "big")
        if crc32c.crc32c(data[ATTRIBUTES_OFFSET:]) == stored:
            return claimed
    stored = int.from_bytes(header[LEGACY_CRC_OFFSET : LEGACY_CRC_OFFSET + CRC_LENGTH], "big")
    for magic, key_offset in _KEY_OFFSETS.items():
        for size in {claimed, _size_by_fields(file, position, key_offset)}:
            if MIN_ENTRY_BYTES <= size <= rest:
                data = file.read_at(position + MAGIC_OFFSET + 1, size - MAGIC_OFFSET - 1)
                if zlib.crc32(data, zlib.crc32(bytes([magic]))) == stored:
                    return size
    return None


def tells_its_size(file: LogFile, position: int) -> bool:
    """Tell whether a message's length agrees with those of its key and value, which may be cut off.

    So it is as long as it says, and what looks like messages in it is its own.
    """
    header = file.read_at(position, MIN_ENTRY_BYTES)
    if len(header) < MIN_ENTRY_BYTES or header[MAGIC_OFFSET] not in _KEY_OFFSETS:
        return False
    claimed = LOG_OVERHEAD + int(LOG_PREFIX.unpack_from(header)[1])
    return _size_by_fields(file, position, _KEY_OFFSETS[header[MAGIC_OFFSET]]) == claimed


def fills_its_size(file: LogFile, position: int) -> bool:
    """Tell whether an entry may be as long as it says: of a message, key and value tell it too."""
    is_batch = file.read_at(position + MAGIC_OFFSET, 1) == bytes([MAGIC_V2])
    return is_batch or tells_its_size(file, position)


def _size_by_fields(file: LogFile, position: int, key_offset: int) -> int:
    """Add up the size of a message from the lengths of its key and value."""
    size = key_offset
    for _ in range(2):
        field = file.read_at(position + size, LEGACY_FIELD_LENGTH.size)
        if len(field) < LEGACY_FIELD_LENGTH.size:
            return 0
        size += LEGACY_FIELD_LENGTH.size + max(LEGACY_FIELD_LENGTH.unpack(field)[0], 0)
    return size


@dataclass(frozen=True, slots=True, kw_only=True)
class EntrySpan:
    """What the header of one batch or message says of its place.

    The first offset of a wrapper stands in its messages alone; here it is its last one.
    """

    base_offset: int
    last_offset: int
    size_bytes: int
    is_wrapper: bool = False

    @property
    def first_known_offset(self) -> int | None:
        """First offset, or None for a wrapper."""
        return None if self.is_wrapper else self.base_offset


def read_entry_span(file: LogFile, position: int) -> EntrySpan | None:
    """Read the header of an entry that lies whole in a file; None where none can start."""
    header = file.read_at(position, RECORD_BATCH_OVERHEAD)
    if len(header) < MIN_ENTRY_BYTES:
        return None
    offset, length = LOG_PREFIX.unpack_from(header)
    size_bytes = LOG_OVERHEAD + length
    is_wrapper = False
    if header[MAGIC_OFFSET] == MAGIC_V2:
        try:
            parsed = parse_record_batch_header(header)
        except InvalidBatchError:
            return None
        base_offset, last_offset = parsed.base_offset, parsed.last_offset
    elif header[MAGIC_OFFSET] > MAGIC_V2 or length < MIN_MESSAGE_SIZE_V0 or offset < 0:
        return None
    else:
        base_offset = last_offset = offset
        is_wrapper = header[LEGACY_ATTRIBUTES_OFFSET] & COMPRESSION_CODEC_MASK != 0
    if size_bytes > file.size() - position:
        return None
    return EntrySpan(
        base_offset=base_offset,
        last_offset=last_offset,
        size_bytes=size_bytes,
        is_wrapper=is_wrapper,
    )
