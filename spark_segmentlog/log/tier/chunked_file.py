"""A segment's log that is stored in chunks, as the plain file that it was made of.

Chunks that a read needs and that lie beside each other come in one request; they are decrypted and
decompressed by several threads. Who reads on where the last read ended gets the next chunks fetched
and decoded ahead, so that a scan makes requests of some MiB and one for each byte.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import Final

import cramjam
import numpy as np
import numpy.typing as npt

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.io.reading import LogFile
from spark_segmentlog.log.io.remote_file import READ_AHEAD_BYTES
from spark_segmentlog.log.tier.encryption import Decrypt, DecryptionError
from spark_segmentlog.log.tier.manifest import SegmentManifest

_KEPT_BYTES: Final = 2 * READ_AHEAD_BYTES


class ChunkedFile(LogFile):
    """The plain bytes of a log in chunks.

    Parameters
    ----------
    stored : LogFile
        The chunks, one after the other.
    """

    def __init__(self, stored: LogFile, manifest: SegmentManifest, decrypt: Decrypt | None) -> None:
        self.path = stored.path
        self._stored = stored
        self._manifest = manifest
        self._decrypt = decrypt
        self._plain: dict[int, bytes] = {}
        self._ahead: tuple[int, int, Future[list[bytes]]] | None = None
        self._reached = -1

    def size(self) -> int:
        return self._manifest.file_bytes

    def read_at(self, position: int, length: int) -> bytes:
        buffer = np.empty(max(min(length, self.size() - position), 0), np.uint8)
        return buffer[: self.pread_into(buffer, position, len(buffer))].tobytes()

    def pread_into(self, buffer: npt.NDArray[np.uint8], position: int, length: int) -> int:
        """Read plain bytes at a position to the start of a buffer.

        Raises
        ------
        RemoteStorageError
            A chunk is cut, is not what the manifest says, or has the tag of other bytes.
        """
        end = min(position + length, self.size())
        if position >= end:
            return 0
        step = self._manifest.chunk_bytes
        first, last = position // step, (end - 1) // step
        done = 0
        for chunk, data in self._chunks(first, last):
            start = chunk * step
            part = data[max(position - start, 0) : end - start]
            buffer[done : done + len(part)] = np.frombuffer(part, np.uint8)
            done += len(part)
        return done

    def close(self) -> None:
        """Close the stored log, once nothing is fetched of it any more."""
        if self._ahead is not None:
            future = self._ahead[2]
            self._ahead = None
            if not future.cancel():
                future.exception()
        self._stored.close()

    def _chunks(self, first: int, last: int) -> Iterator[tuple[int, bytes]]:
        """Give the chunks from first to last, inclusive, a few MiB of them in memory."""
        is_next = first in (self._reached, self._reached + 1)
        for chunk in range(first, last + 1):
            if chunk not in self._plain:
                self._load(chunk, last, is_next=is_next or chunk > first)
            yield chunk, self._plain[chunk]
        self._reached = last
        if is_next:
            self._fetch_ahead(last + 1)

    def _load(self, chunk: int, last: int, *, is_next: bool) -> None:
        if self._ahead is not None and self._ahead[0] <= chunk <= self._ahead[1]:
            begin, _, future = self._ahead
            self._ahead = None
            decoded = future.result()
        else:
            begin = chunk
            wanted = self._group_end(chunk)
            end = wanted if is_next else min(wanted, last)
            while end > begin and end in self._plain:
                end -= 1
            decoded = self._fetch(begin, end)
        if len(self._plain) * self._manifest.chunk_bytes > _KEPT_BYTES:
            kept = self._plain.get(chunk - 1)
            self._plain = {} if kept is None else {chunk - 1: kept}
        self._plain.update(enumerate(decoded, begin))

    def _fetch_ahead(self, chunk: int) -> None:
        if self._ahead is not None or chunk >= self._manifest.chunks_count or chunk in self._plain:
            return
        end = self._group_end(chunk)
        self._ahead = chunk, end, _fetching_pool().submit(self._fetch, chunk, end)

    def _group_end(self, first: int) -> int:
        """Find the last of the chunks that one request takes, from a first one on."""
        start, _ = self._manifest.stored_span(first, first)
        ends = self._manifest.stored_ends
        found = int(np.searchsorted(ends, start + READ_AHEAD_BYTES, "right")) - 1
        plain = first + max(READ_AHEAD_BYTES // self._manifest.chunk_bytes, 1) - 1
        return min(max(found, first), max(plain, first), len(ends) - 1)

    def _fetch(self, first: int, last: int) -> list[bytes]:
        start, end = self._manifest.stored_span(first, last)
        data = self._stored.read_at(start, end - start)
        if len(data) < end - start:
            chunk = first + int(
                np.searchsorted(
                    self._manifest.stored_ends[first : last + 1], start + len(data), "right"
                )
            )
            raise self._error(
                chunk, f"the object ends at {start + len(data)}, before the chunk does"
            )
        stored = memoryview(data)
        parts = []
        for chunk in range(first, last + 1):
            chunk_start, chunk_end = self._manifest.stored_span(chunk, chunk)
            parts.append((chunk, stored[chunk_start - start : chunk_end - start]))
        if len(parts) == 1:
            return [self._decode(parts[0])]
        return list(_decoding_pool().map(self._decode, parts))

    def _decode(self, part: tuple[int, memoryview]) -> bytes:
        chunk, stored = part
        size = self._manifest.plain_bytes(chunk)
        data: bytes | memoryview = stored
        if self._decrypt is not None:
            try:
                data = self._decrypt(bytes(stored))
            except DecryptionError as error:
                raise self._error(chunk, str(error)) from error
        if self._manifest.is_compressed:
            plain = bytearray(size)
            try:
                count = cramjam.zstd.decompress_into(data, plain)
            except cramjam.DecompressionError as error:
                raise self._error(chunk, f"no zstd frame of {size} bytes: {error}") from error
            data = bytes(plain[:count]) if count < size else bytes(plain)
        if len(data) != size:
            raise self._error(chunk, f"{len(data)} plain bytes, the manifest says {size}")
        return bytes(data)

    def _error(self, chunk: int, text: str) -> RemoteStorageError:
        start, end = self._manifest.stored_span(chunk, chunk)
        return RemoteStorageError(
            f"chunk {chunk} of {self.path}, stored bytes {start} to {end}: {text}"
        )


@cache
def _fetching_pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(4, thread_name_prefix="segmentlog-chunks")


@cache
def _decoding_pool() -> ThreadPoolExecutor:
    """Make the threads that decode; not those that fetch, which wait for them."""
    return ThreadPoolExecutor(max(os.cpu_count() or 1, 2), thread_name_prefix="segmentlog-decode")
