"""The layout of Kafka's ``LocalTieredStorage``: plain copies of a segment's files.

``kafka-tiered-storage/<topic>-<partition>-<topic id>/<base offset>-<segment id><suffix>`` below the
store's root, which may also be that folder. Nothing but copies is stored. Files are written under
their last names in the order log, index, timeindex, txnindex, leader epochs, snapshot: one whose
upload was killed lacks the later ones. Deleting takes files away, never folders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

from spark_segmentlog.errors import RemoteStorageError
from spark_segmentlog.log.formats.checkpoints import LeaderEpoch, parse_leader_epochs
from spark_segmentlog.log.io.reading import LogFile, Storage
from spark_segmentlog.log.names import (
    BASE_OFFSET_DIGITS,
    LOG_SUFFIX,
    MAX_OFFSET,
    TopicPartition,
    find_topic_partition,
)
from spark_segmentlog.log.segment.index_trust import LOOKUP_READ_BYTES, offset_beyond_end
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.segment.segment import RemoteCopy, Segment
from spark_segmentlog.log.segment.walk import HeaderWalk
from spark_segmentlog.log.tier.objects import (
    INDEX_KINDS,
    MAX_INDEX_BYTES,
    SegmentFiles,
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

FOLDER: Final = "kafka-tiered-storage"
SUFFIXES: Final = {
    **{kind: suffix for suffix, kind in INDEX_KINDS.items()},
    IndexKind.LEADER_EPOCHS: ".leader_epoch_checkpoint",
}
_ALWAYS_THERE: Final = frozenset(
    (LOG_SUFFIX, *(suffix for kind, suffix in SUFFIXES.items() if kind != IndexKind.TRANSACTION))
)
_DIRECTORY: Final = re.compile(rf"(?P<partition>.+-[0-9]+)-(?P<topic_id>{UUID_PATTERN})")
_FILE: Final = re.compile(
    rf"(?P<base>[0-9]{{{BASE_OFFSET_DIGITS}}})-(?P<id>{UUID_PATTERN})(?P<suffix>\.\w+)"
)


class LocalTieredLayout:
    """Copies of files, as Kafka's own tests keep them."""

    name = "local"

    def recognises(self, storage: Storage, root: str) -> bool:
        """Tell whether a folder is a store of this layout."""
        if not storage.is_directory(root):
            return False
        folders, _ = storage.list_directories(root)
        return FOLDER in folders or any(_parse_directory(name) for name in folders)

    def list_partitions(self, storage: Storage, root: str) -> list[TopicIdPartition]:
        """List the partitions in a store, those that have lost all segments too."""
        folders, _ = storage.list_directories(_folder(storage, root))
        return [partition for partition in map(_parse_directory, folders) if partition is not None]

    def list_segments(
        self, storage: Storage, root: str, partition: TopicIdPartition
    ) -> StoreListing:
        folder = f"{_folder(storage, root)}/{_directory(partition)}"
        whole, notes = [], []
        for (base_offset, segment_id), suffixes in list_objects(storage, folder, _FILE).items():
            path = f"{folder}/{segment_name(base_offset, segment_id)}"
            missing = _ALWAYS_THERE - suffixes.keys()
            if missing:
                notes.append(StoreNote(path, cut_text(missing)))
                continue
            whole.append(
                RemoteSegment(
                    segment_id=segment_id,
                    places=(SegmentPlace(0, path, suffixes),),
                    base_offset=base_offset,
                    has_transaction_index=SUFFIXES[IndexKind.TRANSACTION] in suffixes,
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
        above = root if root.rstrip("/").endswith(FOLDER) else f"{root.rstrip('/')}/{FOLDER}"
        name = segment_name(base_offset, segment_id)
        return f"{above.rstrip('/')}/{_directory(partition)}/{name}"

    def read_detail(self, storage: Storage, path: str) -> None:
        """Read nothing: copies are opened as they are."""

    def describe(
        self, storage: Storage, path: str, segment: RemoteSegment, detail: Any
    ) -> RemoteSegment:
        """Find where a segment ends by walking it from its last index entry on.

        Raises
        ------
        RemoteStorageError
            It ends inside of a batch, or before an offset that its index names.
        """
        epochs_path = path + SUFFIXES[IndexKind.LEADER_EPOCHS]
        text = read_whole(storage, epochs_path, MAX_INDEX_BYTES).decode("utf-8", "replace")
        epochs = parse_leader_epochs(text)
        if epochs is None:
            raise RemoteStorageError(f"{epochs_path} is no checkpoint of leader epochs")
        end_offset, size_bytes = _find_end(
            Segment(
                topic_partition=TopicPartition("", 0),
                directory=path.rpartition("/")[0],
                base_offset=segment.base_offset,
                is_index_trusted=True,
                copy=RemoteCopy(self.object_path(path)),
                storage=SegmentFiles(storage, path),
            )
        )
        return replace(
            segment,
            end_offset=end_offset,
            leader_epochs=epochs_between(epochs, segment.base_offset, end_offset),
            size_bytes=size_bytes,
        )

    def open_log(self, storage: Storage, path: str, detail: Any, keys: KeyFiles) -> LogFile:
        return storage.open_input(path + LOG_SUFFIX)

    def read_index(
        self, storage: Storage, path: str, kind: IndexKind, detail: Any, keys: KeyFiles
    ) -> bytes | None:
        try:
            return read_whole(storage, path + SUFFIXES[kind], MAX_INDEX_BYTES)
        except FileNotFoundError:
            if kind is IndexKind.TRANSACTION:
                return None
            raise

    def object_path(self, path: str) -> str:
        return path + LOG_SUFFIX


def cut_text(missing: Iterable[str]) -> str:
    """Say what the objects of a segment lack, and why."""
    return f"lacks {', '.join(sorted(missing))}: its upload or its deletion was cut"


def epochs_between(
    epochs: list[LeaderEpoch], start_offset: int, end_offset: int
) -> tuple[LeaderEpoch, ...]:
    """Cut the epochs of a whole log to those of [start, end)."""
    ends = [entry.start_offset for entry in epochs[1:]] + [MAX_OFFSET]
    return tuple(
        LeaderEpoch(entry.epoch, max(entry.start_offset, start_offset))
        for entry, end in zip(epochs, ends, strict=True)
        if entry.start_offset < end_offset and end > start_offset
    )


def _find_end(segment: Segment) -> tuple[int, int]:
    """Find the offset and the byte after a segment's last batch."""
    with segment.open_log() as file:
        position, size = segment.position_for(MAX_OFFSET, file), file.size()
        walk = HeaderWalk(segment, file, position=position, buffer=ReadBuffer(LOOKUP_READ_BYTES))
        for _ in walk:
            pass
        if walk.position != size:
            raise RemoteStorageError(
                f"{segment.log_path} ends inside of a batch: batches reach to {walk.position}, the "
                f"file to {size}"
            )
        named = offset_beyond_end(segment, file, size, walk.next_offset)
    if named is not None:
        raise RemoteStorageError(
            f"{segment.log_path} ends before offset {walk.next_offset}, its index names {named}"
        )
    return walk.next_offset, size


def _folder(storage: Storage, root: str) -> str:
    inner = f"{root.rstrip('/')}/{FOLDER}"
    return inner if storage.is_directory(inner) else root.rstrip("/")


def _directory(partition: TopicIdPartition) -> str:
    return f"{partition.topic_partition}-{partition.topic_id}"


def _parse_directory(name: str) -> TopicIdPartition | None:
    parts = _DIRECTORY.fullmatch(name)
    if parts is None:
        return None
    topic_partition = find_topic_partition(parts["partition"])
    return None if topic_partition is None else TopicIdPartition(topic_partition, parts["topic_id"])
