"""Every codec, in one table, and what is done by a codec's number or name.

Ordinary blocks are decompressed whole, into memory of the caller's or into a `DecompressionBuffer`
of a fixed size; larger ones piece by piece, by `block_window`. Sizes that a block declares are not
believed.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Final

import cramjam

from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.record.codec.codec import (
    BlockCode,
    BlockError,
    BlockStream,
    BlockWriter,
    Codec,
    Levels,
    ManyDecompressor,
    OutputFullError,
)
from spark_segmentlog.record.layout import COMPRESSION_CODEC_MASK, MAGIC_V0, MAGIC_V2


def _code_of(module: str) -> Callable[[], BlockCode]:
    def load() -> BlockCode:
        code: BlockCode = importlib.import_module(f"{__package__}.{module}").CODE
        return code

    return load


GZIP: Final = Codec(
    number=1,
    name="gzip",
    first_format=MAGIC_V0,
    framing="may have several members",
    load_code=_code_of("gzip"),
    levels=Levels(1, 9, -1),
    is_slow=True,
)
SNAPPY: Final = Codec(
    number=2,
    name="snappy",
    first_format=MAGIC_V0,
    framing=(
        "two layouts: xerial framing (Java) or one raw block (librdkafka); told apart "
        "by the magic bytes `\\x82SNAPPY\\0`"
    ),
    load_code=_code_of("snappy"),
)
LZ4: Final = Codec(
    number=3,
    name="lz4",
    first_format=MAGIC_V0,
    framing=(
        "frames; in format 0 the header's checksum is wrong on purpose, since old "
        "clients hashed the magic bytes too"
    ),
    load_code=_code_of("lz4"),
    levels=Levels(1, 17, 9),
)
ZSTD: Final = Codec(
    number=4,
    name="zstd",
    first_format=MAGIC_V2,
    framing=(
        "frames; one may not say how large its content is, there may be several, and "
        "skippable ones between"
    ),
    load_code=_code_of("zstd"),
    levels=Levels(-131072, 22, 3),
    is_slow=True,
)

CODECS: Final = {codec.number: codec for codec in (GZIP, SNAPPY, LZ4, ZSTD)}
"""By the number in the attributes, where 0 is `NO_COMPRESSION`."""

NO_COMPRESSION: Final = "none"

_NO_FORMAT = 127
# How cramjam's streaming decoders say that their output is full.
_OUTPUT_FULL = "failed to write whole buffer"


def slow_codecs() -> list[int]:
    """Number the codecs that are worth several threads."""
    return [number for number, codec in CODECS.items() if codec.is_slow]


def codec_names() -> tuple[str, ...]:
    """Give the values of ``compression.type``."""
    return (NO_COMPRESSION, *(codec.name for codec in CODECS.values()))


def codec_name(number: int) -> str:
    """Give a codec's name; for a number that is none, the number."""
    if number == 0:
        return NO_COMPRESSION
    return CODECS[number].name if number in CODECS else str(number)


def names_by_number() -> tuple[str, ...]:
    """Give `codec_name` of every number that the attributes can hold."""
    return tuple(map(codec_name, range(COMPRESSION_CODEC_MASK + 1)))


def codec_number(name: str) -> int:
    """Find a codec by the name that ``compression.type`` has for it.

    Raises
    ------
    OptionValueError
        When there is none of that name.
    """
    numbers = {NO_COMPRESSION: 0, **{codec.name: codec.number for codec in CODECS.values()}}
    if name.lower() not in numbers:
        raise OptionValueError(f"compression.type is {name!r}, allowed are {', '.join(numbers)}")
    return numbers[name.lower()]


def first_formats() -> list[int]:
    """For every number that the attributes can hold, the format from which on it is a codec."""
    formats = [0] + [_NO_FORMAT] * COMPRESSION_CODEC_MASK
    for number, codec in CODECS.items():
        formats[number] = codec.first_format
    return formats


def unknown_codec_reason(number: int, magic: int) -> str:
    """Say what is wrong with a codec's number in a batch or message of a format; empty if nothing.

    The error of whoever meets such a number names it: it is never taken for another codec.
    """
    formats = first_formats()
    if formats[number] <= magic:
        return ""
    known = [each for each, first in enumerate(formats) if first <= magic]
    allowed = [f"{each} ({codec_name(each)})" for each in known]
    return f"compression codec {number} in format {magic}, allowed are {', '.join(allowed)}"


def decompress_into(number: int, block: memoryview, output: memoryview, *, magic: int) -> int:
    """Decompress a block into memory of the caller's.

    Parameters
    ----------
    magic : int
        Format of the batch or message that holds the block.

    Returns
    -------
    int
        Number of bytes written.

    Raises
    ------
    OutputFullError
        When `output` is too small.
    BlockError
        When the bytes are not what the codec says, or there is no such codec.
    """
    codec = _codec(number)
    try:
        return codec.code.decompress_into(block, output, magic)
    except cramjam.DecompressionError as error:
        if _OUTPUT_FULL in str(error):
            raise OutputFullError from error
        raise BlockError(f"{codec.name} block: {error}") from error


def many_decompressor(number: int) -> ManyDecompressor | None:
    """Give what decompresses many blocks of a codec by one call, where that can be."""
    return _codec(number).code.decompress_many


def is_surely_large(number: int, block: memoryview) -> bool:
    """Tell a block that says to be no ordinary one; as `BlockCode.is_surely_large`."""
    return _codec(number).code.is_surely_large(block)


def open_block(number: int, block: memoryview, *, magic: int) -> BlockStream:
    """Start to decompress a block piece by piece; parameters as of `decompress_into`."""
    codec = _codec(number)
    if not len(block):
        raise BlockError(f"{codec.name} block: no bytes")
    return codec.code.open_stream(block, magic)


def block_writer(number: int, level: int | None = None) -> BlockWriter:
    """Make the function that compresses the records of one batch, as Kafka's Java producer does.

    Parameters
    ----------
    level : int, optional
        Kafka's default of that codec where not given.

    Raises
    ------
    OptionValueError
        When the codec has no such level.
    BlockError
        When there is no such codec.
    """
    codec = _codec(number)
    return codec.code.writer(_checked_level(codec, level))


def max_compressed_bytes(size: int) -> int:
    """Give the room that a block writer needs for `size` bytes, whatever the codec and the bytes.

    Snappy's own bound is the widest, ``32 + n + n / 6`` a block.
    """
    return size + size // 5 + 1024


def _codec(number: int) -> Codec:
    codec = CODECS.get(number)
    if codec is None:
        raise BlockError(f"compression codec {number}: there is none of that number")
    return codec


def _checked_level(codec: Codec, level: int | None) -> int:
    name = f"compression.{codec.name}.level"
    levels = codec.levels
    if levels is None:
        if level is not None:
            raise OptionValueError(f"{name} is {level}, but {codec.name} has no levels")
        return 0
    if level is None or level == levels.default:
        return levels.default
    if not levels.lowest <= level <= levels.highest:
        raise OptionValueError(
            f"{name} is {level}, allowed are {levels.lowest} to {levels.highest}"
        )
    return level
