"""The files of whole segments on their way in and out: ``.cleaned``, ``.swap``, ``.deleted``.

Cleaned segments replace old ones in the order that a broker's own start (LogLoader) can finish or
undo at any point:

1. the new files are complete and synced under ``.cleaned``; a crash up to here leaves the old log;
2. they are renamed to ``.swap``, the highest base offset first: a ``.swap`` beside a ``.cleaned``
   of a lower or equal base offset is void, and goes;
3. once the last one is a ``.swap``, the new files hold: the old ones are renamed to ``.deleted``,
   the lowest first, then the new ones to their plain names.

`finish_replacement` is that start, `find_replacement` tells what it does. Between the steps the
folder is synced, so that no later rename lasts where an earlier one does not.

A segment that goes is renamed to ``.deleted``, its log first, and unlinked later: whoever has it
open goes on reading, whoever comes too late sees that it is gone. When it was renamed is told by
the change time of the file.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spark_segmentlog.log.formats.producer_snapshot import ProducerState, format_producer_snapshot
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.after_changes import StorageAfterChanges, Stretch
from spark_segmentlog.log.io.reading import LOCAL, Storage
from spark_segmentlog.log.names import (
    BASE_OFFSET_DIGITS,
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    file_suffixes,
    find_base_offset,
    parse_partition_directory_name,
    segment_file_name,
    segment_suffixes,
)
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.segment.segment import Segment

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    """The `.log` of a segment, measured."""

    base_offset: int
    size_bytes: int
    modified_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What a look at the ``.deleted`` files of a partition did; `waiting` are still too young."""

    removed: int
    waiting: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacement:
    """What is left to do of a replacement of segments, as names of files in their order.

    Attributes
    ----------
    void : tuple of str
        Go first. Void ``.swap`` files before the ``.cleaned`` ones, without which beside them they
        would be taken for valid.
    replaced : tuple of str
        Plain ones, which go next.
    swapped : tuple of str
        Get their plain names then, the logs first.
    """

    directory: str
    void: tuple[str, ...]
    replaced: tuple[str, ...]
    swapped: tuple[str, ...]

    def storage_after(self, storage: Storage) -> Storage:
        """Give a storage as it is when this is done."""
        gone = dict.fromkeys((*self.void, *self.replaced, *self.swapped))
        moved = {
            name.removesuffix(SWAP_SUFFIX): (Stretch(f"{self.directory}/{name}"),)
            for name in self.swapped
        }
        return StorageAfterChanges(storage, {self.directory: {**gone, **moved}})


def list_segment_files(directory: str) -> list[SegmentFile]:
    """List the plain segments of a partition directory, ascending."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            base_offset = find_base_offset(entry.name)
            if base_offset is None or not entry.is_file():
                continue
            status = entry.stat()
            found.append(
                SegmentFile(
                    base_offset=base_offset,
                    size_bytes=status.st_size,
                    modified_ns=status.st_mtime_ns,
                )
            )
    return sorted(found, key=lambda segment: segment.base_offset)


def segment_path(directory: str, base_offset: int, kind: str, suffix: str = "") -> str:
    """Name a file of a segment."""
    return os.path.join(directory, segment_file_name(base_offset, kind) + suffix)


def mark_segment_deleted(directory: str, base_offset: int) -> None:
    """Rename a segment's files to ``.deleted``; those that are gone already stay gone.

    The log first: a segment without its log is none, one without its indexes is whole.
    """
    _rename_files(directory, base_offset, segment_suffixes(), "", DELETED_SUFFIX)


def mark_files_after_deleted(directory: str, base_offset: int) -> None:
    """Rename what is left of segments after this one to ``.deleted``: indexes without a log."""
    found = {_plain_offset(name) for name in os.listdir(directory)}
    for offset in sorted(known for known in found if known is not None and known > base_offset):
        mark_segment_deleted(directory, offset)


def finish_deletion(directory: str, log_start_offset: int) -> None:
    """Rename to ``.deleted`` what one that was cut short has left: indexes without their log.

    Only below the log start, which was raised before: elsewhere they tell of a log that is lost.
    """
    names = sorted(os.listdir(directory))
    logs = {find_base_offset(name) for name in names}
    for name in names:
        offset = _plain_offset(name)
        if offset is not None and offset < log_start_offset and offset not in logs:
            path = os.path.join(directory, name)
            files.rename(path, path + DELETED_SUFFIX)


def mark_snapshots_deleted(directory: str, offsets: Iterable[int]) -> None:
    """Rename the producer snapshots at these offsets to ``.deleted``."""
    for offset in offsets:
        _rename_files(directory, offset, (SNAPSHOT_SUFFIX,), "", DELETED_SUFFIX)


def write_snapshot(directory: str, offset: int, states: Sequence[ProducerState]) -> None:
    """Write a snapshot of the producers at an offset, unless there are none, or one is there."""
    path = segment_path(directory, offset, SNAPSHOT_SUFFIX)
    if states and not os.path.exists(path):
        files.write_atomically(path, format_producer_snapshot(states))


def sweep_deleted(directory: str, *, now_ms: int, delay_ms: int) -> Sweep:
    """Unlink the ``.deleted`` files that were renamed at least `delay_ms` ago."""
    removed = waiting = 0
    for name in sorted(os.listdir(directory)):
        if not _is_deleted_name(name):
            continue
        path = os.path.join(directory, name)
        if 0 < delay_ms > now_ms - os.stat(path).st_ctime_ns // 1_000_000:
            waiting += 1
            continue
        files.unlink(path, missing_ok=True)
        removed += 1
    return Sweep(removed=removed, waiting=waiting)


def replace_segments(
    directory: str, *, new_base_offsets: Sequence[int], old_base_offsets: Sequence[int]
) -> None:
    """Put ``.cleaned`` segments in the place of old ones.

    Parameters
    ----------
    directory : str
        The partition directory.
    new_base_offsets : sequence of int
        Of the cleaned segments, ascending; their files are complete and synced.
    old_base_offsets : sequence of int
        Of the segments that they replace, ascending.
    """
    for base_offset in reversed(new_base_offsets):
        _rename_files(directory, base_offset, segment_suffixes(), CLEANED_SUFFIX, SWAP_SUFFIX)
    files.fsync_directory(directory)
    for base_offset in old_base_offsets:
        mark_segment_deleted(directory, base_offset)
    files.fsync_directory(directory)
    for base_offset in new_base_offsets:
        _rename_files(directory, base_offset, segment_suffixes(), SWAP_SUFFIX, "")
    mark_snapshots_deleted(directory, sorted({*old_base_offsets} - {*new_base_offsets}))
    files.fsync_directory(directory)


def find_replacement(directory: str, storage: Storage = LOCAL) -> Replacement | None:
    """Find what ends, or undoes, a replacement under way; by the rules of a broker's start.

    Raises
    ------
    CorruptRecordError
        Bad bytes in a ``.swap``: where it ends, and so what it replaces, is not known.
    """
    names = storage.list_names(directory)
    cleaned = _temporary_offsets(names, CLEANED_SUFFIX)
    swapped = _temporary_offsets(names, SWAP_SUFFIX)
    if not cleaned and not swapped:
        return None
    first_cleaned = min(cleaned.values(), default=None)
    void = [
        name
        for name, offset in swapped.items()
        if first_cleaned is not None and offset >= first_cleaned
    ]
    valid = {name: offset for name, offset in swapped.items() if name not in void}
    return Replacement(
        directory=directory,
        void=(*sorted(void), *sorted(cleaned)),
        replaced=tuple(_replaced(directory, names, valid, storage)),
        swapped=tuple(sorted(valid, key=lambda name: (not _is_swapped_log(name), name))),
    )


def finish_replacement(directory: str) -> bool:
    """End, or undo, a replacement that a crash has cut short.

    Returns
    -------
    bool
        Whether there was anything to do.

    Raises
    ------
    CorruptRecordError
        As `find_replacement`; nothing was touched.
    """
    replacement = find_replacement(directory)
    if replacement is None:
        return False
    _remove(directory, replacement.void)
    if replacement.swapped:
        _log.warning("%s: ending a compaction that was cut short", directory)
        _remove(directory, replacement.replaced)
        for name in replacement.swapped:
            path = os.path.join(directory, name)
            files.rename(path, path.removesuffix(SWAP_SUFFIX))
        files.fsync_directory(directory)
    return True


def _remove(directory: str, names: Iterable[str]) -> None:
    for name in names:
        files.unlink(os.path.join(directory, name), missing_ok=True)
    files.fsync_directory(directory)


def _replaced(
    directory: str, names: Iterable[str], swapped: Mapping[str, int], storage: Storage
) -> list[str]:
    """Name the plain files of segments whose records the swapped ones hold."""
    bases = [offset for name, offset in swapped.items() if _is_swapped_log(name)]
    if not bases:
        return []
    first = min(bases)
    end = max(_next_offset(directory, base_offset, storage) for base_offset in bases)
    offsets = {name: _plain_offset(name) for name in sorted(names)}
    return [
        name for name, offset in offsets.items() if offset is not None and first <= offset < end
    ]


def _next_offset(directory: str, base_offset: int, storage: Storage) -> int:
    swapped = Segment(
        topic_partition=parse_partition_directory_name(os.path.basename(directory)),
        directory=directory,
        base_offset=base_offset,
        suffix=SWAP_SUFFIX,
        storage=storage,
    )
    return swapped.next_offset(buffer=ReadBuffer())


def _plain_offset(name: str) -> int | None:
    """Read the offset of a segment's plain file; snapshots stay, as the log they tell of does."""
    for suffix in segment_suffixes():
        offset = find_base_offset(name, suffix)
        if offset is not None:
            return offset
    return None


def _temporary_offsets(names: Iterable[str], suffix: str) -> dict[str, int]:
    found = {}
    for name in names:
        offset = _plain_offset(name.removesuffix(suffix)) if name.endswith(suffix) else None
        if offset is not None:
            found[name] = offset
    return found


def _is_swapped_log(name: str) -> bool:
    return name.endswith(LOG_SUFFIX + SWAP_SUFFIX)


def _is_deleted_name(name: str) -> bool:
    suffixes = tuple(suffix + DELETED_SUFFIX for suffix in file_suffixes())
    return name.endswith(suffixes) and name[:BASE_OFFSET_DIGITS].isdecimal()


def _rename_files(
    directory: str, base_offset: int, kinds: Sequence[str], old_suffix: str, new_suffix: str
) -> None:
    for kind in kinds:
        source = segment_path(directory, base_offset, kind, old_suffix)
        if os.path.exists(source):
            files.rename(source, segment_path(directory, base_offset, kind, new_suffix))
