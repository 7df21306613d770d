"""A partition directory with the segments of remote stores beside its local files.

Local files win: a remote piece is shown where it starts below the first local segment. It has the
names that a broker gives a segment's files, so that whoever lists and opens the files of a
partition directory reads both alike. Nothing is ever written here.
"""

from __future__ import annotations

from typing import Any

from spark_segmentlog.log.formats import checkpoints
from spark_segmentlog.log.io.reading import LogFile, Storage, not_there
from spark_segmentlog.log.names import (
    BASE_OFFSET_DIGITS,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    find_base_offset,
    find_base_offsets,
    segment_file_name,
)
from spark_segmentlog.log.tier.objects import INDEX_KINDS, BytesFile
from spark_segmentlog.log.tier.remote_log import RemoteLog
from spark_segmentlog.log.tier.remote_segment import RemotePiece


class TieredStorage(Storage):
    """The files of one partition directory, local and remote. Pickles.

    Parameters
    ----------
    directory : str
        The partition directory, or the folder in the store where there is no local one.
    local : Storage or None
        Where the local files are; None without.

    Attributes
    ----------
    first_local : int or None
        Base offset of the first local segment, as of the last listing.
    """

    def __init__(self, directory: str, local: Storage | None, remote: RemoteLog) -> None:
        self.directory = directory
        self.local = local
        self.remote = remote
        self.first_local: int | None = None
        self._has_listed = False

    def __reduce__(self) -> tuple[Any, ...]:
        return TieredStorage, (self.directory, self.local, self.remote)

    def narrowed(self, base_offset: int) -> TieredStorage:
        """Give the same storage for a task that reads one segment."""
        is_remote = self.find_piece(base_offset) is not None
        remote = self.remote.narrowed(base_offset if is_remote else -1)
        narrowed = TieredStorage(self.directory, self.local, remote)
        narrowed._has_listed = True
        return narrowed

    def settle(self, start_offset: int, end_offset: int) -> bool:
        """Make sure which remote pieces hold offsets in [start, end); tells whether others do.

        The next listing then shows those.
        """
        is_changed = self.remote.settle(start_offset, end_offset)
        self._has_listed &= not is_changed
        return is_changed

    def find_piece(self, base_offset: int) -> RemotePiece | None:
        """Find the remote piece that is shown at a base offset; None for a local segment."""
        if self.first_local is not None and base_offset >= self.first_local:
            return None
        known = self.remote.known
        if known is not None and known.start_offset == base_offset:
            return known
        if self.local is not None and self.first_local is None:
            path = f"{self.directory}/{segment_file_name(base_offset)}"
            if self.local.exists(path):
                return None
        return self.remote.find(base_offset)

    # What a Storage does

    def open_input(
        self, path: str, *, reads_blocks: bool = True, size: int | None = None
    ) -> LogFile:
        found = self._find(path)
        if found is None:
            data = self._made_up(path)
            return self._local(path).open_input(path) if data is None else BytesFile(path, data)
        piece, suffix = found
        if suffix == LOG_SUFFIX:
            return self.remote.objects.open_log(piece)
        data = self.remote.objects.read_index(piece, INDEX_KINDS[suffix])
        if data is None:
            raise not_there(path)
        return BytesFile(path, data)

    def size(self, path: str) -> int:
        found = self._find(path)
        if found is not None and found[1] == LOG_SUFFIX:
            return self.remote.objects.size_bytes(found[0])
        if found is None and self.local is not None:
            return self.local.size(path)
        with self.open_input(path) as file:
            return file.size()

    def exists(self, path: str) -> bool:
        if path == self.directory and self.local is None:
            return bool(self.remote.pieces())
        found = self._find(path)
        if found is None:
            if self._made_up(path) is not None:
                return True
            return self.local is not None and self.local.exists(path)
        piece, suffix = found
        return (
            suffix == LOG_SUFFIX
            or self.remote.objects.read_index(piece, INDEX_KINDS[suffix]) is not None
        )

    def is_directory(self, path: str) -> bool:
        return path == self.directory or (self.local is not None and self.local.is_directory(path))

    def list_names(self, path: str) -> list[str]:
        """List the names of local and remote files, in no order; again each time but the first."""
        if path != self.directory:
            return [] if self.local is None else self.local.list_names(path)
        if self._has_listed:
            self.remote.list_again()
        self._has_listed = True
        local = [] if self.local is None else self.local.list_names(path)
        self.first_local = next(iter(find_base_offsets(local)), None)
        names = set(local)
        for piece in self.remote.pieces():
            if self.first_local is None or piece.start_offset < self.first_local:
                names.update(self._names_of(piece))
        return list(names)

    def list_directories(self, path: str) -> tuple[list[str], list[str]]:
        return [], self.list_names(path)

    def real_path(self, path: str) -> str:
        return path if self.local is None else self.local.real_path(path)

    def glob(self, pattern: str) -> list[str]:
        """Match nothing: what a pattern names is looked for before partitions are."""
        return []

    def _names_of(self, piece: RemotePiece) -> list[str]:
        names = [segment_file_name(piece.start_offset)]
        if piece.segment.has_transaction_index:
            names.append(segment_file_name(piece.start_offset, TRANSACTION_INDEX_SUFFIX))
        if piece.end_offset is not None and piece.end_offset == piece.segment.end_offset:
            names.append(segment_file_name(piece.end_offset, SNAPSHOT_SUFFIX))
        return names

    def _find(self, path: str) -> tuple[RemotePiece, str] | None:
        """Find the piece and the suffix of a file; None for a local file, or none."""
        name = path.rpartition("/")[2]
        suffix = name[BASE_OFFSET_DIGITS:]
        if suffix == SNAPSHOT_SUFFIX:
            return self._find_snapshot(path, name)
        if suffix != LOG_SUFFIX and suffix not in INDEX_KINDS:
            return None
        base_offset = find_base_offset(name, suffix)
        piece = None if base_offset is None else self.find_piece(base_offset)
        return None if piece is None else (piece, suffix)

    def _find_snapshot(self, path: str, name: str) -> tuple[RemotePiece, str] | None:
        """Find the piece that a snapshot was taken at the end of."""
        offset = find_base_offset(name, SNAPSHOT_SUFFIX)
        if offset is None or (self.local is not None and self.local.exists(path)):
            return None
        for piece in self.remote.pieces():
            if piece.end_offset == offset:
                return piece, SNAPSHOT_SUFFIX
        return None

    def _made_up(self, path: str) -> bytes | None:
        """Give what a store tells otherwise than by a file of a partition directory."""
        if self.local is not None:
            return None
        name = path.rpartition("/")[2]
        if name == checkpoints.LEADER_EPOCH_CHECKPOINT:
            return self.remote.leader_epochs_text()
        if name == checkpoints.PARTITION_METADATA:
            return checkpoints.format_topic_id(self.remote.partition.topic_id)
        return None

    def _local(self, path: str) -> Storage:
        if self.local is None:
            raise not_there(path)
        return self.local
