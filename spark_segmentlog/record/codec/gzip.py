"""gzip: one or more members; one is written."""

from __future__ import annotations

import zlib

import cramjam

from spark_segmentlog.record.codec.codec import (
    WHOLE_BLOCK_BYTES,
    BlockCode,
    BlockError,
    BlockStream,
    BlockWriter,
)

_INPUT_BYTES = 64 << 10
_WINDOW_BITS = 31
# The size of the last member, at the end.
_SIZE_BYTES = 4


class _Stream(BlockStream):
    """One or more gzip members."""

    def __init__(self, block: memoryview) -> None:
        self._rest = block
        self._fed = b""
        self._member = zlib.decompressobj(_WINDOW_BITS)
        self._is_inside = False

    def read_into(self, view: memoryview) -> int:
        while self._has_input() or self._is_inside:
            try:
                data = self._member.decompress(self._fed, len(view))
            except zlib.error as error:
                raise BlockError(f"gzip block: {error}") from error
            was_fed = len(self._fed)
            self._fed = self._member.unconsumed_tail
            self._is_inside = True
            if self._member.eof:
                self._fed = self._member.unused_data
                self._member = zlib.decompressobj(_WINDOW_BITS)
                self._is_inside = False
            if data:
                view[: len(data)] = data
                return len(data)
            if not was_fed:
                raise BlockError("gzip block: cut off")
        return 0

    def _has_input(self) -> bool:
        if not self._fed:
            self._fed = bytes(self._rest[:_INPUT_BYTES])
            self._rest = self._rest[_INPUT_BYTES:]
        return bool(self._fed)


def _decompress_into(block: memoryview, output: memoryview, _magic: int) -> int:
    return int(cramjam.gzip.decompress_into(block, output))


def _is_surely_large(block: memoryview) -> bool:
    return int.from_bytes(block[-_SIZE_BYTES:], "little") > WHOLE_BLOCK_BYTES


def _writer(level: int) -> BlockWriter:
    def write(data: memoryview, output: memoryview) -> int:
        block = zlib.compress(data, level, wbits=_WINDOW_BITS)
        output[: len(block)] = block
        return len(block)

    return write


CODE = BlockCode(
    decompress_into=_decompress_into,
    open_stream=lambda block, _magic: _Stream(block),
    is_surely_large=_is_surely_large,
    writer=_writer,
)
