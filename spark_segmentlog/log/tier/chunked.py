"""The layout of the open plugin (Aiven's): a log in chunks, its indexes in one object, a manifest.

``<prefix><topic>-<topic id>/<partition>/<base offset>-<segment id>.<log|indexes|rsm-manifest>``,
uploaded in that order: a manifest means a whole upload. The prefix stands in front as it is,
without a slash of its own. Deletes take objects away in no fixed order. Custom metadata of the
plugin may name another prefix and key, which then win.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.io.reading import LogFile, Storage
from spark_segmentlog.log.names import (
    BASE_OFFSET_DIGITS,
    LOG_SUFFIX,
    MAX_PARTITION,
    TopicPartition,
    is_topic_name,
)
from spark_segmentlog.log.tier.chunked_file import ChunkedFile
from spark_segmentlog.log.tier.encryption import DecryptionError, open_cipher
from spark_segmentlog.log.tier.local_tiered import cut_text
from spark_segmentlog.log.tier.manifest import (
    MAX_MANIFEST_BYTES,
    SegmentManifest,
    parse_manifest,
)
from spark_segmentlog.log.tier.objects import (
    MAX_INDEX_BYTES,
    list_objects,
    read_whole,
    segment_name,
)
from spark_segmentlog.log.tier.remote_segment import (
    UUID_PATTERN,
    IndexKind,
    KeyFiles,
    RemoteSegment,
    SegmentPlace,
    StoreListing,
    StoreNote,
    TopicIdPartition,
)
from spark_segmentlog.record.system.message_reader import (
    ByteCursor,
    MessageError,
    read_compact_text,
    read_tagged_fields,
)

INDEXES_SUFFIX: Final = ".indexes"
MANIFEST_SUFFIX: Final = ".rsm-manifest"
_ALL: Final = frozenset((LOG_SUFFIX, INDEXES_SUFFIX, MANIFEST_SUFFIX))

_OBJECT_PREFIX_TAG: Final = 1
_OBJECT_KEY_TAG: Final = 2

_TOPIC: Final = re.compile(rf"(?P<topic>.+)-(?P<topic_id>{UUID_PATTERN})")
_OBJECT: Final = re.compile(
    rf"(?P<base>[0-9]{{{BASE_OFFSET_DIGITS}}})-(?P<id>{UUID_PATTERN})"
    rf"(?P<suffix>{'|'.join(map(re.escape, _ALL))})"
)


class ChunkedLayout:
    """Chunks of a fixed plain size, perhaps compressed, perhaps encrypted, with a manifest."""

    name = "aiven"

    def recognises(self, storage: Storage, root: str) -> bool:
        """Tell whether folders of topics and partitions as in this layout lie below a prefix."""
        return any(
            _partitions(storage, f"{root}{topic}-{topic_id}")
            for topic, topic_id in _topics(storage, root)
        )

    def list_partitions(self, storage: Storage, root: str) -> list[TopicIdPartition]:
        return [
            TopicIdPartition(TopicPartition(topic, partition), topic_id)
            for topic, topic_id in _topics(storage, root)
            for partition in _partitions(storage, f"{root}{topic}-{topic_id}")
        ]

    def list_segments(
        self, storage: Storage, root: str, partition: TopicIdPartition
    ) -> StoreListing:
        folder = _folder(root, partition)
        whole, notes = [], []
        for (base_offset, segment_id), suffixes in list_objects(storage, folder, _OBJECT).items():
            path = f"{folder}/{segment_name(base_offset, segment_id)}"
            if suffixes.keys() != _ALL:
                notes.append(StoreNote(path, cut_text(_ALL - suffixes.keys())))
            if MANIFEST_SUFFIX in suffixes:
                whole.append(
                    RemoteSegment(
                        segment_id=segment_id,
                        places=(SegmentPlace(0, path, suffixes),),
                        base_offset=base_offset,
                    )
                )
        return StoreListing(whole=tuple(whole), notes=tuple(notes))

    def path_of(
        self,
        root: str,
        partition: TopicIdPartition,
        base_offset: int,
        segment_id: str,
        custom_metadata: bytes | None,
    ) -> str:
        prefix, key = _parse_custom(custom_metadata)
        if key is None:
            key = f"{_folder('', partition)}/{segment_name(base_offset, segment_id)}"
        if prefix and not root.endswith(prefix):
            return f"{root}{prefix}{key}"
        return f"{root}{key}"

    def read_detail(self, storage: Storage, path: str) -> SegmentManifest:
        manifest_path = path + MANIFEST_SUFFIX
        data = read_whole(storage, manifest_path, MAX_MANIFEST_BYTES)
        return parse_manifest(data, manifest_path)

    def describe(
        self, storage: Storage, path: str, segment: RemoteSegment, detail: SegmentManifest
    ) -> RemoteSegment:
        """Tell what a segment's manifest says of it."""
        metadata = detail.metadata
        if metadata is None:
            raise RemoteStorageError(
                f"manifest {detail.path} lacks remoteLogSegmentMetadata, and with it the "
                "segment's offsets: name the broker's log directory, whose metadata have them"
            )
        if segment_name(metadata.start_offset, metadata.segment_id) != path.rpartition("/")[2]:
            raise RemoteStorageError(
                f"manifest {detail.path} is of the segment {metadata.segment_id} from offset "
                f"{metadata.start_offset} on"
            )
        return replace(
            segment,
            end_offset=metadata.end_offset + 1,
            leader_epochs=metadata.leader_epochs,
            max_timestamp_ms=metadata.max_timestamp_ms,
            size_bytes=detail.file_bytes,
        )

    def open_log(
        self, storage: Storage, path: str, detail: SegmentManifest, keys: KeyFiles
    ) -> LogFile:
        """Open a segment's log; one that is stored as it is, as the file that it is.

        Raises
        ------
        RemoteStorageError
            The object is not of the size that the manifest says.
        """
        encryption = detail.encryption
        cipher = None if encryption is None else open_cipher(encryption, keys, detail.path)
        stored = storage.open_input(path + LOG_SUFFIX, reads_blocks=detail.is_plain)
        size, expected = stored.size(), detail.stored_span(0, detail.chunks_count - 1)[1]
        if size != expected:
            stored.close()
            chunk = int(detail.stored_ends[:-1].searchsorted(size, "right"))
            raise RemoteStorageError(
                f"{path}{LOG_SUFFIX} has {size} bytes, its manifest says {expected}; chunk {chunk} "
                "of it is the first that is not as the manifest says"
            )
        return stored if detail.is_plain else ChunkedFile(stored, detail, cipher)

    def read_index(
        self, storage: Storage, path: str, kind: IndexKind, detail: SegmentManifest, keys: KeyFiles
    ) -> bytes | None:
        """Read one of a segment's indexes, each a chunk of its own that is never compressed."""
        place = detail.indexes.get(kind)
        if place is None:
            return None
        object_path = path + INDEXES_SUFFIX
        if place.size > MAX_INDEX_BYTES:
            raise RemoteStorageError(
                f"index {kind.value} in {object_path} has {place.size} bytes, allowed are "
                f"{MAX_INDEX_BYTES}"
            )
        if place.size == 0:
            return b""
        with storage.open_input(object_path, reads_blocks=False) as file:
            data = file.read_at(place.position, place.size)
        if len(data) < place.size:
            raise RemoteStorageError(
                f"{object_path} ends at {place.position + len(data)}, inside its index {kind.value}"
            )
        if detail.encryption is None:
            return data
        try:
            return open_cipher(detail.encryption, keys, detail.path)(data)
        except DecryptionError as error:
            raise RemoteStorageError(f"index {kind.value} in {object_path}: {error}") from error

    def object_path(self, path: str) -> str:
        """Name the object with a segment's chunks."""
        return path + LOG_SUFFIX


def _topics(storage: Storage, root: str) -> Iterable[tuple[str, str]]:
    """List topics and their ids below a prefix, which may end inside of a name."""
    above, _, beginning = root.rpartition("/")
    if not storage.is_directory(above or "/"):
        return
    for name in storage.list_directories(above or "/")[0]:
        found = _TOPIC.fullmatch(name.removeprefix(beginning))
        if name.startswith(beginning) and found and is_topic_name(found["topic"]):
            yield found["topic"], found["topic_id"]


def _partitions(storage: Storage, folder: str) -> list[int]:
    names = storage.list_directories(folder)[0]
    numbers = [int(name) for name in names if name.isascii() and name.isdigit()]
    return sorted(number for number in numbers if number <= MAX_PARTITION)


def _folder(root: str, partition: TopicIdPartition) -> str:
    topic_partition = partition.topic_partition
    return f"{root}{topic_partition.topic}-{partition.topic_id}/{topic_partition.partition}"


def _parse_custom(data: bytes | None) -> tuple[str | None, str | None]:
    """Read the prefix and the key that custom metadata name; None each where they do not."""
    if not data:
        return None, None
    try:
        cursor = ByteCursor(data)
        fields = dict(read_tagged_fields(cursor))
        if cursor.left:
            raise MessageError(f"{cursor.left} bytes stand after the last field")
        prefix, key = (
            None if fields.get(tag) is None else _custom_text(fields[tag])
            for tag in (_OBJECT_PREFIX_TAG, _OBJECT_KEY_TAG)
        )
    except MessageError as error:
        raise RemoteStorageError(f"custom metadata {data[:64]!r}: {error}") from error
    return prefix, key


def _custom_text(field: bytes) -> str:
    text = read_compact_text(ByteCursor(field))
    if ".." in text.split("/"):
        raise MessageError(f"the path {text!r} leads out of the store")
    return text
