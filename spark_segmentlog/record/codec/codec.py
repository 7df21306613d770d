"""What a codec is (an entry of the table in `codecs`), its errors, and blocks as streams."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from spark_segmentlog.record.types import Bytes, Int64s

SMALL_BLOCK_BYTES: Final = 16 << 10
"""What is smaller is decompressed without a look at how large it says to be."""

WHOLE_BLOCK_BYTES: Final = 2 << 20
"""A block that does not fit here is read as a stream."""


class OutputFullError(Exception):
    """The output is too small for the block; the caller may come again with a larger one."""


class BlockError(ValueError):
    """A block that its codec refuses; the caller names its file and position."""


class BlockTooLargeError(ValueError):
    """A block above a limit, or that declares what it cannot hold; the caller names its file."""


class BlockStream(ABC):
    """Decompressed bytes of one block, in order."""

    @abstractmethod
    def read_into(self, view: memoryview) -> int:
        """Write the next bytes, at most as many as `view` has; 0 only at the block's end.

        Raises
        ------
        BlockError
            When the bytes are not what the codec says, or end too early.
        BlockTooLargeError
            When they declare more than they can hold.
        """


@dataclass(frozen=True, slots=True)
class Levels:
    """Kafka's bounds (inclusive) and default of a codec's level, which may lie outside of them."""

    lowest: int
    highest: int
    default: int


BlockWriter: TypeAlias = Callable[[memoryview, memoryview], int]
"""Writes a block into the start of the output, which has room for it; gives its size."""


ManyDecompressor: TypeAlias = "Callable[[Bytes, Int64s, Bytes, Int64s], Int64s]"
"""Decompresses blocks that lie in a buffer, at spans, one after the other into an output, by one
call without the GIL. Gives a row of where each starts and ends, up to one that it does not take,
for whatever reason. Two limits come last: the bytes that are enough, and the most that one has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockCode:
    """What a codec does with blocks.

    Attributes
    ----------
    decompress_into : callable
        Decompresses a block of a format into an output and gives the size; raises
        `OutputFullError`, `BlockError`, or cramjam's ``DecompressionError``.
    open_stream : callable
        Starts to read a block of a format piece by piece; raises `BlockError` and
        `BlockTooLargeError`.
    is_surely_large : callable
        Tells a block that says to be no ordinary one, without decompressing it. Whether that is
        true the stream finds out; it spares an attempt that fails. Not asked of a block below
        `SMALL_BLOCK_BYTES`.
    writer : callable
        Makes, for a level, what compresses blocks as Kafka's Java producer does.
    decompress_many : callable, optional
        Decompresses many blocks by one call, where that can be.
    """

    decompress_into: Callable[[memoryview, memoryview, int], int]
    open_stream: Callable[[memoryview, int], BlockStream]
    is_surely_large: Callable[[memoryview], bool]
    writer: Callable[[int], BlockWriter]
    decompress_many: ManyDecompressor | None = None


@dataclass(frozen=True, kw_only=True)
class Codec:
    """One codec.

    Attributes
    ----------
    number : int
        In bits 0 to 2 of the attributes.
    name : str
        In ``compression.type``.
    first_format : int
        The magic from which on there is this codec.
    framing : str
        One line for the documentation: what its blocks look like.
    load_code : callable
        Imports what it does with blocks, which who reads the table alone has no use for.
    levels : Levels, optional
        None for a codec without.
    is_slow : bool
        Whether decompressing takes longer than what is done with the records, so that several
        threads pay.
    """

    number: int
    name: str
    first_format: int
    framing: str
    load_code: Callable[[], BlockCode]
    levels: Levels | None = None
    is_slow: bool = False

    @cached_property
    def code(self) -> BlockCode:
        """What it does with blocks."""
        return self.load_code()


def check_block_size(size: int, max_bytes: int) -> None:
    """Refuse a block that is above a limit, as far as it is decompressed."""
    if size > max_bytes:
        raise BlockTooLargeError(
            f"decompressed block larger than the {max_bytes} bytes that are allowed"
        )
