"""The reading of a file in pieces: memory that is used again, and where its bytes lie.

A piece grows with the walk, from `FIRST_READ_BYTES` to the size of its buffer, and beyond that only
for one large batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from spark_segmentlog.log.io.reading import LogFile
from spark_segmentlog.record.plain.batch import iterate_records
from spark_segmentlog.record.read.header_table import HeaderTable

FIRST_READ_BYTES: Final = 256 * 1024
READ_BUFFER_BYTES: Final = 4 * 1024 * 1024


class ReadBuffer:
    """Memory for pieces of a file, used again for each; grows only for a larger batch."""

    __slots__ = ("array",)

    def __init__(self, size_bytes: int = READ_BUFFER_BYTES) -> None:
        self.array: npt.NDArray[np.uint8] = np.empty(size_bytes, np.uint8)

    def reserve(self, size_bytes: int) -> None:
        """Make room for a batch of this size."""
        if len(self.array) < size_bytes:
            self.array = np.empty(size_bytes, np.uint8)


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a segment in memory: the headers of its batches, its bytes and where they lie.

    `file_position` is that of the first byte of `buffer`. Offsets below `floor` were met before, in
    batches in front of the piece. `offset_before` is the offset after all that the walk met in
    front of the piece, `next_offset` the one after all up to its end.
    """

    table: HeaderTable
    buffer: npt.NDArray[np.uint8]
    file_position: int
    floor: int = 0
    offset_before: int = 0
    next_offset: int = 0

    def parse_batch(self, row: int, source: str) -> None:
        """Parse one batch of format 2 plainly, only to raise what is wrong with it."""
        position, size_bytes = int(self.table.position[row]), int(self.table.size_bytes[row])
        start = position - self.file_position
        batch = self.buffer.data[start : start + size_bytes]
        for _ in iterate_records(batch, source=source, file_position=position):
            pass


class PieceReader:
    """Reads one piece of a file after the other.

    Attributes
    ----------
    file_position : int
        Of the first byte of `buffer`.
    """

    def __init__(
        self, file: LogFile, position: int, read_buffer: ReadBuffer | None, first_read_bytes: int
    ) -> None:
        self.file_position = position
        self._file = file
        self._read_buffer = read_buffer or ReadBuffer()
        self._read_bytes = first_read_bytes
        self._kept_bytes = 0

    @property
    def buffer(self) -> npt.NDArray[np.uint8]:
        """The piece of the file that is in memory."""
        return self._read_buffer.array

    def exchange(self, read_buffer: ReadBuffer) -> ReadBuffer:
        """Read into other memory from now on; gives what was read into until now."""
        before, self._read_buffer = self._read_buffer, read_buffer
        self.forget()
        return before

    def keep(self, end_position: int) -> None:
        """Have what is in memory up to a position serve the next `read` too."""
        self._kept_bytes = end_position - self.file_position

    def forget(self) -> None:
        """Have the next `read` read: the memory is used for something else."""
        self._kept_bytes = 0

    def read(self, position: int, needed: int) -> tuple[int, int, bool]:
        """Read the piece from a position on, of `needed` bytes at least; 0 for any size.

        Returns
        -------
        tuple of (int, int, bool)
            Its start and end in `buffer`, and whether the file ends there.
        """
        start = position - self.file_position
        if needed == 0 and 0 < start < self._kept_bytes:
            return start, self._kept_bytes, False
        length = min(max(self._read_bytes, needed), max(len(self.buffer), needed))
        self._read_buffer.reserve(length)
        count = self._file.pread_into(self.buffer, position, length)
        self._read_bytes = min(self._read_bytes * 4, READ_BUFFER_BYTES)
        self.file_position = position
        self.forget()
        return 0, count, count < length
