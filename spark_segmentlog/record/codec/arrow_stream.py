"""Frames that Arrow's bindings decompress piece by piece."""

from __future__ import annotations

from spark_segmentlog.record.codec.codec import BlockError, BlockStream


class ArrowStream(BlockStream):
    """A block of frames, by Arrow's binding of the codec's own library."""

    def __init__(self, name: str, block: memoryview) -> None:
        # Here: the table of codecs is loaded by a daemon that forks workers, Arrow is not.
        import pyarrow as pa

        self._name = name
        self._stream = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(block)), name)

    def read_into(self, view: memoryview) -> int:
        """Write the next bytes; as `BlockStream.read_into`."""
        try:
            return int(self._stream.readinto(view))
        except OSError as error:
            raise BlockError(f"{self._name} block: {error}") from error
