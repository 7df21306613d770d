"""The manifest of the open plugin (``SegmentManifestV1``): how a segment was cut into chunks.

One line of JSON, written when all else of a segment is there. Bytes are hostile: every number is
bounded, sizes must add up, and nothing is asked of memory before they do.

``transformedChunks`` is base64 of one zstd frame of, big endian: int32 count; of one chunk, int32
size; else int32 base, int8 width, count - 1 values of width bytes to add to the base, int32 last
size (``ChunkSizesBinaryCodec``).
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import cramjam
import numpy as np
import numpy.typing as npt

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.formats.checkpoints import MAX_LEADER_EPOCH, LeaderEpoch
from spark_segmentlog.log.names import MAX_OFFSET
from spark_segmentlog.log.segment.growth import MAX_SEGMENT_BYTES
from spark_segmentlog.log.tier.remote_segment import IndexKind

MAX_MANIFEST_BYTES: Final = 64 << 20
MAX_CHUNKS: Final = 1 << 22
MAX_DECODED_CHUNK_BYTES: Final = 256 << 20
"""A chunk is decoded whole; the plugin's default is 4 MiB. What is stored as it is has no limit."""

IV_BYTES: Final = 12
TAG_BYTES: Final = 16
ENCRYPTED_EXTRA_BYTES: Final = IV_BYTES + TAG_BYTES
AAD_BYTES: Final = 32
_VERSION: Final = "1"
_INT: Final = struct.Struct(">i")
_BASE: Final = struct.Struct(">ib")


@dataclass(frozen=True, slots=True)
class Encryption:
    """The data key of a segment, encrypted for a key pair, and what its tags cover besides."""

    key_id: str
    encrypted_key: bytes
    aad: bytes


@dataclass(frozen=True, slots=True)
class IndexPlace:
    """Where an index lies in ``.indexes``, encrypted bytes and all."""

    position: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMetadata:
    """What a manifest repeats of Kafka's own metadata; the end offset is inclusive."""

    segment_id: str
    start_offset: int
    end_offset: int
    max_timestamp_ms: int
    leader_epochs: tuple[LeaderEpoch, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentManifest:
    """What a manifest says, all of it checked.

    Attributes
    ----------
    chunk_bytes, file_bytes : int
        Of plain bytes: each chunk but the last, and all of them.
    stored_ends : ndarray of int64
        Where each chunk ends in the stored log.
    metadata : SegmentMetadata or None
        None where the manifest is without.
    """

    path: str
    chunk_bytes: int
    file_bytes: int
    stored_ends: npt.NDArray[np.int64]
    is_compressed: bool
    encryption: Encryption | None
    indexes: Mapping[IndexKind, IndexPlace]
    metadata: SegmentMetadata | None

    @property
    def is_plain(self) -> bool:
        """Whether the stored log is the log itself."""
        return not self.is_compressed and self.encryption is None

    @property
    def chunks_count(self) -> int:
        """How many chunks there are."""
        return len(self.stored_ends)

    def stored_span(self, first: int, last: int) -> tuple[int, int]:
        """Give where chunks first to last, inclusive, begin and end in the stored log."""
        start = int(self.stored_ends[first - 1]) if first else 0
        return start, int(self.stored_ends[last])

    def plain_bytes(self, chunk: int) -> int:
        """Count the plain bytes of a chunk."""
        return min(self.chunk_bytes, self.file_bytes - chunk * self.chunk_bytes)


def parse_manifest(data: bytes, path: str) -> SegmentManifest:
    """Read a manifest.

    Raises
    ------
    RemoteStorageError
        It is none, or of another version, or its numbers cannot be.
    """
    try:
        return _parse(json.loads(data), path)
    except (ValueError, RecursionError, UnicodeDecodeError) as error:
        raise RemoteStorageError(f"manifest {path}: {error}") from error


def _parse(found: Any, path: str) -> SegmentManifest:
    fields = _object(found, "the manifest")
    if fields.get("version") != _VERSION:
        raise ValueError(f"its version is {fields.get('version')!r}, known is {_VERSION!r}")
    is_compressed = fields.get("compression")
    if not isinstance(is_compressed, bool):
        raise ValueError(f"'compression' is {is_compressed!r}, no true or false")
    encryption = _encryption(fields.get("encryption"))
    extra = 0 if encryption is None else ENCRYPTED_EXTRA_BYTES
    chunks = _object(fields.get("chunkIndex"), "'chunkIndex'")
    chunk_bytes = _integer(chunks, "originalChunkSize", 1, MAX_SEGMENT_BYTES)
    file_bytes = _integer(chunks, "originalFileSize", 1, MAX_SEGMENT_BYTES)
    count = -(-file_bytes // chunk_bytes)
    if count > MAX_CHUNKS:
        raise ValueError(f"{count} chunks, allowed are {MAX_CHUNKS}")
    is_decoded = is_compressed or encryption is not None
    if is_decoded and min(chunk_bytes, file_bytes) > MAX_DECODED_CHUNK_BYTES:
        raise ValueError(
            f"chunks of {chunk_bytes} bytes, allowed are {MAX_DECODED_CHUNK_BYTES} where they are "
            "compressed or encrypted"
        )
    sizes = _stored_sizes(chunks, count)
    plain = np.full(count, chunk_bytes, np.int64)
    plain[-1] = file_bytes - (count - 1) * chunk_bytes
    _check_sizes(sizes, plain, extra, is_compressed=is_compressed)
    return SegmentManifest(
        path=path,
        chunk_bytes=chunk_bytes,
        file_bytes=file_bytes,
        stored_ends=np.cumsum(sizes),
        is_compressed=is_compressed,
        encryption=encryption,
        indexes=_indexes(_object(fields.get("segmentIndexes"), "'segmentIndexes'"), extra),
        metadata=_metadata(fields.get("remoteLogSegmentMetadata")),
    )


def _stored_sizes(chunks: Mapping[str, Any], count: int) -> npt.NDArray[np.int64]:
    kind = chunks.get("type")
    if kind == "fixed":
        size = _integer(chunks, "transformedChunkSize", 1, MAX_SEGMENT_BYTES)
        last = _integer(chunks, "finalTransformedChunkSize", 1, MAX_SEGMENT_BYTES)
        sizes = np.full(count, size, np.int64)
        sizes[-1] = last
        return sizes
    if kind == "variable":
        text = chunks.get("transformedChunks")
        if not isinstance(text, str):
            raise ValueError("'transformedChunks' is no text")
        return _parse_sizes(text, count)
    raise ValueError(f"the chunk index is of type {kind!r}, known are 'fixed' and 'variable'")


def _parse_sizes(text: str, count: int) -> npt.NDArray[np.int64]:
    try:
        frame = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"'transformedChunks' is no base64: {error}") from error
    largest = 2 * _INT.size + _BASE.size + 4 * count
    output = bytearray(largest)
    try:
        used = cramjam.zstd.decompress_into(frame, output)
    except cramjam.DecompressionError as error:
        raise ValueError(
            f"'transformedChunks' is no zstd frame of {count} sizes: {error}"
        ) from error
    data = bytes(output[:used])
    if len(data) < _INT.size or _INT.unpack_from(data)[0] != count:
        raise ValueError(f"'transformedChunks' is not of {count} chunks")
    if count == 1:
        _check_length(data, 2 * _INT.size)
        return np.array([_last_size(data)], np.int64)
    if len(data) < _INT.size + _BASE.size:
        raise ValueError("'transformedChunks' is cut off")
    base, width = _BASE.unpack_from(data, _INT.size)
    start = _INT.size + _BASE.size
    if not 1 <= width <= 4:
        raise ValueError(f"'transformedChunks' has values of {width} bytes, allowed are 1 to 4")
    end = start + (count - 1) * width
    _check_length(data, end + _INT.size)
    digits = np.frombuffer(data, np.uint8, end - start, start).reshape(count - 1, width)
    values = np.zeros(count - 1, np.int64)
    for column in range(width):
        values = values << 8 | digits[:, column]
    return np.append(base + values, _last_size(data))


def _check_length(data: bytes, size: int) -> None:
    if len(data) != size:
        raise ValueError(f"'transformedChunks' has {len(data)} bytes in place of {size}")


def _last_size(data: bytes) -> int:
    return int(_INT.unpack_from(data, len(data) - _INT.size)[0])


def _check_sizes(
    sizes: npt.NDArray[np.int64], plain: npt.NDArray[np.int64], extra: int, *, is_compressed: bool
) -> None:
    """Compare stored sizes with plain ones: equal but for compression, which adds a little."""
    most = plain + extra + (plain // 128 + 1024 if is_compressed else 0)
    least = np.full(len(plain), extra + 1, np.int64) if is_compressed else most
    wrong = np.flatnonzero((sizes < least) | (sizes > most))
    if len(wrong):
        chunk = int(wrong[0])
        raise ValueError(
            f"chunk {chunk} has {sizes[chunk]} stored bytes, allowed are {least[chunk]} to "
            f"{most[chunk]}"
        )


def _encryption(found: Any) -> Encryption | None:
    if found is None:
        return None
    fields = _object(found, "'encryption'")
    key_id, colon, encrypted = _text(fields, "dataKey").rpartition(":")
    if not colon or not key_id:
        raise ValueError("'dataKey' names no key pair")
    aad = _base64(_text(fields, "aad"), "aad")
    if len(aad) != AAD_BYTES:
        raise ValueError(f"'aad' has {len(aad)} bytes, expected are {AAD_BYTES}")
    return Encryption(key_id, _base64(encrypted, "dataKey"), aad)


def _base64(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"'{name}' is no base64: {error}") from error


def _indexes(fields: Mapping[str, Any], extra: int) -> dict[IndexKind, IndexPlace]:
    places: dict[IndexKind, IndexPlace] = {}
    end = 0
    for kind in IndexKind:
        found = fields.get(kind.value)
        if found is None:
            if kind is not IndexKind.TRANSACTION:
                raise ValueError(f"'segmentIndexes' lacks '{kind.value}'")
            continue
        each = _object(found, f"'{kind.value}'")
        size = _integer(each, "size", 0, MAX_SEGMENT_BYTES)
        if _integer(each, "position", 0, MAX_OFFSET) != end or 0 < size < extra:
            raise ValueError(f"index '{kind.value}' lies elsewhere than at {end}, or is too small")
        places[kind] = IndexPlace(end, size)
        end += size
    return places


def _metadata(found: Any) -> SegmentMetadata | None:
    if found is None:
        return None
    fields = _object(found, "'remoteLogSegmentMetadata'")
    segment_id = _object(fields.get("remoteLogSegmentId"), "'remoteLogSegmentId'")
    start = _integer(fields, "startOffset", 0, MAX_OFFSET)
    epochs = _object(fields.get("segmentLeaderEpochs"), "'segmentLeaderEpochs'")
    return SegmentMetadata(
        segment_id=_text(segment_id, "id"),
        start_offset=start,
        end_offset=_integer(fields, "endOffset", start, MAX_OFFSET - 1),
        max_timestamp_ms=_integer(fields, "maxTimestampMs", -1, MAX_OFFSET),
        leader_epochs=_epochs(epochs),
    )


def _epochs(found: Mapping[str, Any]) -> tuple[LeaderEpoch, ...]:
    epochs = []
    for text in found:
        if not (text.isascii() and text.isdigit() and len(text) <= 10):
            raise ValueError(f"{text!r} is no leader epoch")
        if int(text) > MAX_LEADER_EPOCH:
            raise ValueError(f"{text} is no leader epoch")
        epochs.append(LeaderEpoch(int(text), _integer(found, text, 0, MAX_OFFSET)))
    return tuple(sorted(epochs, key=lambda entry: entry.epoch))


def _object(found: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(found, dict):
        raise ValueError(f"{name} is no JSON object")
    return found


def _text(fields: Mapping[str, Any], name: str) -> str:
    found = fields.get(name)
    if not isinstance(found, str):
        raise ValueError(f"'{name}' is no text")
    return found


def _integer(fields: Mapping[str, Any], name: str, least: int, most: int) -> int:
    found = fields.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
        shown = repr(found)[:40]
        raise ValueError(f"'{name}' is {shown}, allowed are {least} to {most}")
    return found
