"""Kafka's flexible messages as the metadata of remote segments use them, read with bounds."""

from __future__ import annotations

import struct
from typing import Final

from spark_segmentlog.log.tier.remote_segment import UUID_BYTES, uuid_text

MAX_VARINT_BYTES: Final = 5
MAX_TAGS: Final = 1024


class MalformedMetadataError(ValueError):
    """Bytes that are no such message; gets its place above."""


class MetadataReader:
    """Reads the fields of a message one after the other."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def unsigned(self) -> int:
        """Read an unsigned varint of 32 bits."""
        value = 0
        for count in range(MAX_VARINT_BYTES):
            byte = self.raw(1)[0]
            value |= (byte & 0x7F) << (7 * count)
            if byte < 0x80:
                return value
        raise MalformedMetadataError(f"a varint of more than {MAX_VARINT_BYTES} bytes")

    def raw(self, count: int) -> bytes:
        """Read some bytes."""
        end = self._position + count
        if end > len(self._data):
            raise MalformedMetadataError(f"cut off after {len(self._data)} bytes, wanted are {end}")
        data = self._data[self._position : end]
        self._position = end
        return data

    def int8(self) -> int:
        """Read a number of one byte."""
        return int.from_bytes(self.raw(1), "big", signed=True)

    def int32(self) -> int:
        """Read a number of four bytes."""
        return int(struct.unpack(">i", self.raw(4))[0])

    def int64(self) -> int:
        """Read a number of eight bytes."""
        return int(struct.unpack(">q", self.raw(8))[0])

    def uuid(self) -> str:
        """Read an id, as text."""
        return uuid_text(self.raw(UUID_BYTES))

    def nullable_bytes(self) -> bytes | None:
        """Read compact bytes, which may be null."""
        length = self.unsigned()
        return None if length == 0 else self.raw(length - 1)

    def text(self) -> str:
        """Read a compact string."""
        data = self.nullable_bytes()
        if data is None:
            raise MalformedMetadataError("a string is null")
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise MalformedMetadataError(f"a string is no UTF-8: {error}") from error

    def array_length(self) -> int:
        """Read the length of a compact array."""
        length = self.unsigned()
        if not 0 < length <= len(self._data):
            raise MalformedMetadataError(f"an array of {length - 1} elements")
        return length - 1

    def tagged_fields(self) -> dict[int, bytes]:
        """Read the tagged section at the end of a struct."""
        count = self.unsigned()
        if count > MAX_TAGS:
            raise MalformedMetadataError(f"{count} tagged fields")
        return {self.unsigned(): self.raw(self.unsigned()) for _ in range(count)}

    def check_end(self) -> None:
        """Make sure that nothing follows."""
        if self._position != len(self._data):
            left = len(self._data) - self._position
            raise MalformedMetadataError(f"{left} bytes behind its end")
