"""Compiled loops over compressed bytes: where frames and blocks end, raw snappy piece by piece.

The rules of `kernels` hold: every read comes after a comparison with the end of the bytes, every
loop ends for any bytes. lz4 and zstd are decoded by their own libraries, which keep to the bytes
and the room that they are handed. The twin of `decode_snappy` is cramjam, which takes whole blocks
alone: its tests in `tests/unit/record/codec/test_block_window.py` compare.

Formats: https://github.com/facebook/zstd/blob/dev/doc/zstd_compression_format.md and
https://github.com/google/snappy/blob/main/format_description.txt
"""

from __future__ import annotations

from spark_segmentlog.record.jit import (
    copy_bytes,
    decode_lz4_block,
    decode_zstd_frames,
    inlined,
    int64,
    kernel,
    load_be32,
    load_u32,
)
from spark_segmentlog.record.types import Bytes, Int64s

_LZ4_HEADER_BYTES = 7
MAX_LZ4_BLOCKS = 8
_ZSTD_MAGIC = 0xFD2FB528
_ZSTD_SKIPPABLE_MAGIC = 0x184D2A50
_ZSTD_CHECKSUM_FLAG = 0x04
_ZSTD_SINGLE_SEGMENT_FLAG = 0x20
_ZSTD_WINDOW_AT = 5
# 128 MiB as a window descriptor: an exponent above 10, and eighths.
_ZSTD_LARGEST_WINDOW = 17 << 3
_ZSTD_BLOCK_HEADER_BYTES = 3
_ZSTD_RLE_BLOCK = 1
_ZSTD_RESERVED_BLOCK = 3

# The state of a snappy block: next byte of it, bytes in the room, bytes of the literal in hand that
# are still to come, bytes of the whole block that are.

SNAPPY_POSITION, SNAPPY_USED, SNAPPY_LITERAL, SNAPPY_MISSING = range(4)
SNAPPY_STATE_FIELDS = 4

SNAPPY_DONE, SNAPPY_FULL, SNAPPY_BAD, SNAPPY_FAR = range(4)

# A copy is written as a whole.
SNAPPY_SLACK_BYTES = 64


@inlined
def _zstd_header_bytes(flags: int) -> int:
    """Bytes of a frame's header after its magic."""
    is_single = flags & _ZSTD_SINGLE_SEGMENT_FLAG != 0
    size = 1 if is_single else 2
    dictionary = flags & 3
    size += 4 if dictionary == 3 else dictionary
    content = flags >> 6
    if content > 0:
        size += 1 << content
    elif is_single:
        size += 1
    return size


@kernel
def zstd_frame(buffer: Bytes, position: int, end: int) -> tuple[int, int]:
    """Index after the frame, or skippable frame, at a position, and how many blocks it has.

    The index is -1 where none ends before `end`. Only the framing is looked at: a decoder that is
    handed the frame reads up to there and no further.
    """
    if end - position < 8:
        return -1, 0
    magic = int64(load_u32(buffer, position))
    if magic & ~0xF == _ZSTD_SKIPPABLE_MAGIC:
        position += 8 + int64(load_u32(buffer, position + 4))
        return (position if position <= end else -1), 0
    if magic != _ZSTD_MAGIC:
        return -1, 0
    flags = int64(buffer[position + 4])
    position += 4 + _zstd_header_bytes(flags)
    count = 0
    is_last = False
    while not is_last:
        if end - position < _ZSTD_BLOCK_HEADER_BYTES:
            return -1, count
        header = (
            int64(buffer[position])
            | int64(buffer[position + 1]) << 8
            | int64(buffer[position + 2]) << 16
        )
        is_last = header & 1 != 0
        kind = (header >> 1) & 3
        if kind == _ZSTD_RESERVED_BLOCK:
            return -1, count
        count += 1
        position += _ZSTD_BLOCK_HEADER_BYTES
        position += 1 if kind == _ZSTD_RLE_BLOCK else header >> 3
    if flags & _ZSTD_CHECKSUM_FLAG != 0:
        position += 4
    return (position if position <= end else -1), count


@kernel
def count_full_blocks(buffer: Bytes) -> int:
    """How many blocks of zstd frames an encoder has filled: all but the last of each frame."""
    count = 0
    position = 0
    while position >= 0 and position < len(buffer):
        position, blocks = zstd_frame(buffer, position, len(buffer))
        count += max(blocks - 1, 0)
    return count


@kernel
def are_whole_frames(buffer: Bytes, position: int, end: int) -> bool:
    """Whether bytes are whole zstd frames, none with a window that a stream is refused for."""
    while position < end:
        if end - position > _ZSTD_WINDOW_AT and int64(load_u32(buffer, position)) == _ZSTD_MAGIC:
            is_single = int64(buffer[position + 4]) & _ZSTD_SINGLE_SEGMENT_FLAG != 0
            if not is_single and int64(buffer[position + _ZSTD_WINDOW_AT]) > _ZSTD_LARGEST_WINDOW:
                return False
        position = zstd_frame(buffer, position, end)[0]
        if position < 0:
            return False
    return True


@kernel
def decompress_zstd_blocks(
    decoder: int,
    context: int,
    buffer: Bytes,
    spans: Int64s,
    output: Bytes,
    limits: Int64s,
    found: Int64s,
) -> int:
    """Decompress blocks of zstd frames, one after the other; gives how many.

    That is up to one that is bad, does not fit or is too large, and to the one with which there are
    enough bytes.

    Parameters
    ----------
    decoder, context : int
        Addresses of ``ZSTD_decompressDCtx`` and of a context, for this thread alone.
    limits : ndarray of int64
        What is enough, and the largest size of one.
    found : ndarray of int64, shape (n, 2)
        Filled with where each starts and ends in `output`.
    """
    used = 0
    for index in range(len(spans)):
        start, end = spans[index, 0], spans[index, 1]
        if used >= limits[0] or start < 0 or end > len(buffer) or start >= end:
            return index
        if not are_whole_frames(buffer, start, end):
            return index
        size = decode_zstd_frames(
            decoder, context, buffer, start, end - start, output, used, len(output) - used
        )
        if size < 0 or size > limits[1]:
            return index
        found[index, 0] = used
        used += size
        found[index, 1] = used
    return len(spans)


@kernel
def xerial_bytes(buffer: Bytes, position: int) -> int:
    """Sum of what the raw blocks of xerial framing declare, up to the first that cannot be one."""
    total = 0
    while position + 4 < len(buffer):
        length = int64(load_be32(buffer, position))
        if length < 1 or length > len(buffer) - position - 4:
            break
        size = int64(0)
        for at in range(min(length, 5)):
            byte = int64(buffer[position + 4 + at])
            size |= (byte & 0x7F) << (7 * at)
            if byte < 0x80:
                break
        total += size
        position += 4 + length
    return total


@kernel
def count_lz4_blocks(buffer: Bytes, position: int) -> int:
    """How many blocks of a plain lz4 frame follow, up to its end or the first that is none."""
    count = 0
    while position + 4 <= len(buffer):
        length = int64(load_u32(buffer, position)) & 0x7FFFFFFF
        if length == 0 or length > len(buffer) - position - 4:
            break
        count += 1
        position += 4 + length
    return count


@kernel
def list_lz4_blocks(
    buffer: Bytes, spans: Int64s, headers: Int64s, blocks: Int64s, firsts: Int64s
) -> int:
    """List the blocks of plain lz4 frames, from the first on; gives how many are such frames.

    Parameters
    ----------
    headers : ndarray of int64, shape (n, 2)
        The 7 bytes that a frame may begin with, as a number, and how large its blocks are at most.
    blocks : ndarray of int64, shape (n, 4)
        Filled with start, end, 1 for bytes as they are, and largest size. A frame of more blocks
        than `MAX_LZ4_BLOCKS`, or whose blocks find no room here, is not listed.
    firsts : ndarray of int64, one longer than `spans`
        Filled with the row of each frame's first block.
    """
    count = 0
    for frame in range(len(spans)):
        firsts[frame] = count
        position, end = spans[frame, 0], spans[frame, 1]
        if position < 0 or end > len(buffer) or end - position < _LZ4_HEADER_BYTES + 4:
            return frame
        header = int64(load_u32(buffer, position + 3)) << 24 | int64(load_u32(buffer, position))
        max_bytes = 0
        for index in range(len(headers)):
            if headers[index, 0] == header:
                max_bytes = headers[index, 1]
        if max_bytes == 0:
            return frame
        position += _LZ4_HEADER_BYTES
        while True:
            if end - position < 4:
                return frame
            word = int64(load_u32(buffer, position))
            position += 4
            if word == 0:
                break
            length = word & 0x7FFFFFFF
            if length == 0 or length > min(end - position, max_bytes):
                return frame
            if count == min(firsts[frame] + MAX_LZ4_BLOCKS, len(blocks)):
                return frame
            blocks[count, 0] = position
            blocks[count, 1] = position + length
            blocks[count, 2] = word >> 31
            blocks[count, 3] = max_bytes
            count += 1
            position += length
        if position != end:
            return frame
    firsts[len(spans)] = count
    return len(spans)


@kernel
def decompress_lz4_frames(
    decoder: int,
    buffer: Bytes,
    blocks: Int64s,
    firsts: Int64s,
    output: Bytes,
    limits: Int64s,
    found: Int64s,
) -> int:
    """Decompress frames that `list_lz4_blocks` listed, one after the other; gives how many.

    As `decompress_zstd_blocks`, by the address of ``LZ4_decompress_safe``. One for whose blocks, at
    their largest, there is no room is taken for one that does not fit: a decoder that runs out of
    room cannot be told from one that met bad bytes.
    """
    used = 0
    for frame in range(len(firsts) - 1):
        if used >= limits[0]:
            return frame
        start = used
        for block in range(firsts[frame], firsts[frame + 1]):
            at, length = blocks[block, 0], blocks[block, 1] - blocks[block, 0]
            is_stored = blocks[block, 2] != 0
            if len(output) - used < (length if is_stored else blocks[block, 3]):
                return frame
            if is_stored:
                copy_bytes(output, used, buffer, at, length)
                size = length
            else:
                size = decode_lz4_block(decoder, buffer, at, length, output, used, blocks[block, 3])
            if size < 0:
                return frame
            used += size
        if used - start > limits[1]:
            return frame
        found[frame, 0] = start
        found[frame, 1] = used
    return len(firsts) - 1


@kernel
def decode_snappy(block: Bytes, room: Bytes, state: Int64s) -> int:
    """Decode elements of a raw snappy block into a room, from where the state stands.

    Returns SNAPPY_FULL when the room is, SNAPPY_DONE at the end of the block, SNAPPY_BAD for bytes
    that are no block, SNAPPY_FAR for a copy from before the room. Before the next call the caller
    may move the last bytes to the room's front.
    """
    position = state[SNAPPY_POSITION]
    used = state[SNAPPY_USED]
    literal = state[SNAPPY_LITERAL]
    missing = state[SNAPPY_MISSING]
    end = len(block)
    code = SNAPPY_FULL
    while True:
        if literal > 0:
            count = min(literal, len(room) - used)
            copy_bytes(room, used, block, position, count)
            position += count
            used += count
            literal -= count
            missing -= count
        if len(room) - used < SNAPPY_SLACK_BYTES and missing > 0:
            break
        if position == end:
            code = SNAPPY_DONE if missing == 0 else SNAPPY_BAD
            break
        tag = int64(block[position])
        kind = tag & 3
        position += 1
        extra = kind
        if kind == 0:
            extra = max((tag >> 2) - 59, 0)
        elif kind == 3:
            extra = 4
        if extra > end - position:
            code = SNAPPY_BAD
            break
        number = int64(0)
        for at in range(extra):
            number |= int64(block[position + at]) << (8 * at)
        position += extra
        if kind == 0:
            literal = (number if extra > 0 else tag >> 2) + 1
            if literal > end - position or literal > missing:
                code = SNAPPY_BAD
                break
            continue
        length = (tag >> 2) + 1
        if kind == 1:
            length = ((tag >> 2) & 7) + 4
            number |= (tag >> 5) << 8
        if number == 0 or length > missing:
            code = SNAPPY_BAD
            break
        if number > used:
            code = SNAPPY_FAR
            break
        if number >= length:
            copy_bytes(room, used, room, used - number, length)
        else:
            for at in range(length):
                room[used + at] = room[used + at - number]
        used += length
        missing -= length
    state[SNAPPY_POSITION] = position
    state[SNAPPY_USED] = used
    state[SNAPPY_LITERAL] = literal
    state[SNAPPY_MISSING] = missing
    return code
