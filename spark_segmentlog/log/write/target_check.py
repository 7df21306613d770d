"""Whether files are still as a journal left them, before its steps are taken on them."""

from __future__ import annotations

import os
from typing import Final

import numpy as np

from spark_segmentlog.errors import RecoveryError
from spark_segmentlog.log.directory.commit_steps import (
    AdoptStep,
    CopyStep,
    PartitionPlan,
    SegmentPlan,
)
from spark_segmentlog.log.directory.journal import Journal
from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import segment_file_name
from spark_segmentlog.log.write.stamping import header_checksum_of
from spark_segmentlog.record.layout import RECORD_BATCH_HEADER

COMPARED_BYTES: Final = 1024 * 1024

MAX_OPEN_STAGED: Final = 64


def check_targets(journal: Journal) -> None:
    """Look at all that the steps would touch.

    Raises
    ------
    RecoveryError
        A file is in a state that no crash of this commit leaves.
    """
    with StagedSources() as sources:
        for plan in journal.partitions:
            _check_folder(journal, plan)
            for segment in plan.segments:
                _check_segment(plan, segment, sources)


def _check_folder(journal: Journal, plan: PartitionPlan) -> None:
    """Refuse to go through a link that is not, in this very directory, what it was."""
    if not os.path.islink(plan.directory):
        return
    is_the_same = os.stat(journal.log_directory).st_ino == journal.inode
    try:
        leads_to = os.stat(plan.directory).st_ino
    except FileNotFoundError:
        leads_to = None
    if plan.linked_inode is None or not is_the_same or leads_to != plan.linked_inode:
        raise RecoveryError(
            f"partition folder {plan.directory} is a link, and not the one of the open commit: put "
            "the folder itself, or a mount of it, in its place, then run segmentlog recover"
        )


def _check_segment(plan: PartitionPlan, segment: SegmentPlan, sources: StagedSources) -> None:
    path = log_path(plan, segment.base_offset)
    size = _size_if_there(path)
    adopt = adopt_step(plan, segment.base_offset)
    is_as_before = size == segment.file_bytes_before
    if adopt is not None:
        if is_to_be_renamed(adopt, path):
            if is_as_before:
                # The power may take back a rename, and leave what was appended after it since.
                path = adopt.staged_path
                size = _size_if_there(path)
            elif adopt.size_bytes > size:
                raise _unexpected(path, size, segment)
        _check_adopted(path, size, adopt, segment)
    elif is_as_before:
        return
    if (
        not kept_bytes(segment, adopt)
        <= size
        <= max(segment.bytes_after, segment.file_bytes_before)
    ):
        raise _unexpected(path, size, segment)
    for step in copy_steps(plan, segment.base_offset):
        _check_copied(path, size, step, sources, torn_bytes=segment.file_bytes_before)


def is_to_be_renamed(adopt: AdoptStep, path: str) -> bool:
    """Tell whether the staged file still waits; the power may leave it with both of its names."""
    if not os.path.lexists(adopt.staged_path):
        return False
    return not (os.path.lexists(path) and os.path.samefile(adopt.staged_path, path))


def _check_adopted(path: str, size: int, adopt: AdoptStep, segment: SegmentPlan) -> None:
    """Know a staged file by inode, size and first batch; a copy of it by all its headers."""
    if size < adopt.size_bytes or _first_header(path) != adopt.first_header:
        raise _unexpected(path, size, segment)
    is_the_same = os.stat(path).st_ino == adopt.inode
    if not is_the_same and header_checksum_of(path, adopt.size_bytes) != adopt.header_checksum:
        raise _unexpected(path, size, segment)


def _check_copied(
    path: str,
    size: int,
    step: CopyStep,
    sources: StagedSources,
    *,
    torn_bytes: int,
    allow_zeros: bool = True,
) -> None:
    """Compare what is there of a copy with its source: lost pages are zeros.

    Up to `torn_bytes` the file held a torn tail before, which may be there again.
    """
    source = sources.open(step.staged_path)
    with files.closed_after(files.open_plain_file(path)) as target:
        done, there = (
            max(torn_bytes - step.position, 0),
            min(step.length_bytes, size - step.position),
        )
        while done < there:
            count = min(COMPARED_BYTES, there - done)
            ours = files.read_exactly(source, step.staged_position + done, count)
            found = files.read_exactly(target, step.position + done, count)
            if found != ours and not (allow_zeros and _is_ours(found, ours)):
                raise RecoveryError(
                    f"bytes that are not of the open commit near position "
                    f"{step.position + done} (file {path})"
                )
            done += count


def check_copies(plan: PartitionPlan, segment: SegmentPlan, sources: StagedSources) -> None:
    """Read back what was copied again, since something went wrong the first time."""
    path = log_path(plan, segment.base_offset)
    for step in copy_steps(plan, segment.base_offset):
        _check_copied(path, segment.bytes_after, step, sources, torn_bytes=0, allow_zeros=False)


def _is_ours(found: bytes, ours: bytes) -> bool:
    """Compare bytes, taking zeros for bytes of ours that were lost."""
    if len(found) != len(ours):
        return False
    there = np.frombuffer(found, np.uint8)
    return bool(((there == np.frombuffer(ours, np.uint8)) | (there == 0)).all())


class StagedSources:
    """Staged files that are open for copying, not too many at a time."""

    def __init__(self) -> None:
        self._descriptors: dict[str, int] = {}

    def __enter__(self) -> StagedSources:
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self._descriptors.values():
            files.close(descriptor)
        self._descriptors.clear()

    def open(self, path: str) -> int:
        """Open a staged file, or give the descriptor that is open."""
        if path not in self._descriptors:
            if len(self._descriptors) >= MAX_OPEN_STAGED:
                files.close(self._descriptors.pop(next(iter(self._descriptors))))
            try:
                self._descriptors[path] = files.open_plain_file(path)
            except FileNotFoundError as error:
                raise RecoveryError(
                    f"a staged file of the open commit is missing (file {path})"
                ) from error
        return self._descriptors[path]


def adopt_step(plan: PartitionPlan, base_offset: int) -> AdoptStep | None:
    """Give the step that makes a segment of a staged file; None where none does."""
    for step in plan.steps:
        if isinstance(step, AdoptStep) and step.base_offset == base_offset:
            return step
    return None


def copy_steps(plan: PartitionPlan, base_offset: int) -> list[CopyStep]:
    """Give the steps that copy to a segment, in their order."""
    return [
        step
        for step in plan.steps
        if isinstance(step, CopyStep) and step.base_offset == base_offset
    ]


def kept_bytes(segment: SegmentPlan, adopt: AdoptStep | None) -> int:
    """Tell up to where a log is there before anything is copied to it."""
    return segment.valid_bytes_before if adopt is None else adopt.size_bytes


def log_path(plan: PartitionPlan, base_offset: int) -> str:
    """Name the log of a segment that a plan touches."""
    return os.path.join(plan.directory, segment_file_name(base_offset))


def _size_if_there(path: str) -> int:
    """Measure a file; -1 where it is not there."""
    try:
        return os.lstat(path).st_size
    except FileNotFoundError:
        return -1


def _first_header(path: str) -> bytes:
    with files.closed_after(files.open_plain_file(path)) as descriptor:
        return files.read_exactly(descriptor, 0, RECORD_BATCH_HEADER.size)


def _unexpected(path: str, size: int, segment: SegmentPlan) -> RecoveryError:
    return RecoveryError(
        f"segment is in a state that no crash of the open commit leaves: {size} bytes (-1: not "
        f"there), recorded are {segment.file_bytes_before} before and {segment.bytes_after} "
        f"after (file {path})"
    )
