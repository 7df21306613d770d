"""Ends a commit whose journal is written: takes its steps, whether for the first time or again.

Every step can be repeated, and a step that copies always is: after a crash nobody knows whether a
sync of what lies there once failed, so the bytes are cut off and copied again from staging. Before
anything is cut, everything is looked at: a target must be as the journal recorded it, or hold our
bytes (or zeros, where the power took some of them), or all of them. Anything else is an error and
nothing is touched.

The caller holds the locks of all the journal's log directories.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from spark_segmentlog.log.directory.commit_steps import AdoptStep, PartitionPlan, SegmentPlan
from spark_segmentlog.log.directory.journal import (
    COMMIT_DIRECTORY_NAME,
    CommitPhase,
    Journal,
    journal_path,
)
from spark_segmentlog.log.directory.versions import (
    VERSIONS_FILE_NAME,
    ApplicationVersion,
    read_versions,
)
from spark_segmentlog.log.formats.checkpoints import CLEAN_SHUTDOWN_MARK
from spark_segmentlog.log.io import files
from spark_segmentlog.log.segment.growth import BatchExtents, SegmentEnd
from spark_segmentlog.log.write.append_state import write_tail_file
from spark_segmentlog.log.write.commit_files import checkpoint_files, partition_files
from spark_segmentlog.log.write.index_completion import complete_indexes
from spark_segmentlog.log.write.target_check import (
    StagedSources,
    adopt_step,
    check_copies,
    check_targets,
    copy_steps,
    is_to_be_renamed,
    kept_bytes,
    log_path,
)


def write_journals(journals: Sequence[Journal]) -> None:
    """Write the parts of a commit, the deciding one last: from here on the write is committed."""
    deciding, *others = journals
    for journal in others:
        _write_journal(journal.in_phase(CommitPhase.PREPARED))
    _write_journal(deciding)


def announce_decision(journals: Sequence[Journal]) -> None:
    """Tell every part that the commit is decided: each can be ended without the others now."""
    for journal in journals[1:]:
        # A journal of the first format may need files of another directory: it stays as it is.
        if all(
            os.path.dirname(staged_path) == journal.log_directory
            for staged_path in journal.staged_paths
        ):
            _write_journal(journal)


def remove_journals(log_directories: Iterable[str]) -> None:
    """Take journals away, the first directory's last, and make that last."""
    for directory in reversed(list(log_directories)):
        folder = os.path.join(directory, COMMIT_DIRECTORY_NAME)
        path = journal_path(directory)
        files.unlink(path, missing_ok=True)
        files.unlink(path + files.TEMPORARY_SUFFIX, missing_ok=True)
        files.rmdir(folder, missing_ok=True)
        files.fsync_directory(directory)


KnownBatches = Mapping[tuple[str, int], BatchExtents]


def roll_forward(journals: Sequence[Journal], *, known_batches: KnownBatches | None = None) -> None:
    """Take the steps of a commit to their end.

    Parameters
    ----------
    journals : sequence of Journal
        The parts of the commit that are ended together; the deciding one, if it is there, first.
    known_batches : mapping, optional
        For the first time: the batches of extents, by staged path and position, as far as they are
        at hand. None says that steps may have been taken before.

    Raises
    ------
    RecoveryError
        A file is in a state that no crash of this commit leaves; nothing was touched.
    OSError
        A step failed; the journals stay.
    """
    # After a visible journal all steps are taken, and others may have written since.
    if not any(journal.is_visible for journal in journals):
        if known_batches is None:
            for journal in journals:
                check_targets(journal)
        announce_decision(journals)
        for journal in journals:
            _roll_forward_part(journal, known_batches)
        _publish(journals)
    remove_journals([journal.log_directory for journal in journals])
    for journal in journals:
        for path in journal.staged_paths:
            if os.path.dirname(path) == journal.log_directory:
                files.unlink(path, missing_ok=True)


def _roll_forward_part(journal: Journal, known_batches: KnownBatches | None) -> None:
    _unlink_mark(journal)
    _make_partition_directories(journal)
    with StagedSources() as sources:
        for plan in journal.partitions:
            _take_steps(journal, plan, sources, known_batches)
    for name, data in checkpoint_files(journal).items():
        files.write_atomically(os.path.join(journal.log_directory, name), data)


# The steps


def _take_steps(
    journal: Journal,
    plan: PartitionPlan,
    sources: StagedSources,
    known_batches: KnownBatches | None,
) -> None:
    directory = plan.directory
    made = partition_files(plan)
    for name, data in made.items():
        files.write_atomically(os.path.join(directory, name), data)
    segment_end: SegmentEnd | None = None
    for segment in plan.segments:
        _write_log(plan, segment, sources)
        if known_batches is None:
            check_copies(plan, segment, sources)
        segment_end = _complete_indexes(journal, plan, segment, known_batches)
    if segment_end is not None:
        write_tail_file(directory, segment_end)
    # Indexes that were made again were renamed to their names, which a mark speaks of too.
    if made or _makes_segments(plan) or journal.clean_shutdown_mark is not None:
        files.fsync_directory(directory)


def _complete_indexes(
    journal: Journal,
    plan: PartitionPlan,
    segment: SegmentPlan,
    known_batches: KnownBatches | None,
) -> SegmentEnd:
    """Complete the indexes; after a crash make them again, as unsynced entries may be gone."""
    indexed = segment.indexed
    is_marked = journal.clean_shutdown_mark is not None
    if known_batches is None:
        indexed = SegmentEnd.empty(segment.base_offset, created_ms=indexed.created_ms)
    return complete_indexes(
        plan.topic_partition,
        plan.directory,
        indexed,
        bytes_after=segment.bytes_after,
        index_interval_bytes=journal.index_interval_bytes,
        # Without the mark the next writer looks at the last segment's indexes, at no others.
        durable=is_marked or segment is not plan.segments[-1],
        batches=_batches_after(plan, segment, indexed, known_batches or {}),
    )


def _batches_after(
    plan: PartitionPlan, segment: SegmentPlan, indexed: SegmentEnd, known: KnownBatches
) -> BatchExtents | None:
    """Join the batches after a state of a segment; None where not all of them are known."""
    adopt = adopt_step(plan, segment.base_offset)
    places = [] if adopt is None else [(adopt.staged_path, 0)]
    places.extend(
        (step.staged_path, step.staged_position) for step in copy_steps(plan, segment.base_offset)
    )
    if indexed.size_bytes != segment.valid_bytes_before or not known.keys() >= set(places):
        return None
    return BatchExtents.concatenate([known[place] for place in places])


def _makes_segments(plan: PartitionPlan) -> bool:
    """Tell whether logs appear or are replaced in the partition directory."""
    return any(segment.file_bytes_before < 0 for segment in plan.segments) or any(
        isinstance(step, AdoptStep) for step in plan.steps
    )


def _write_log(plan: PartitionPlan, segment: SegmentPlan, sources: StagedSources) -> None:
    path = log_path(plan, segment.base_offset)
    adopt = adopt_step(plan, segment.base_offset)
    start = kept_bytes(segment, adopt)
    if adopt is not None and is_to_be_renamed(adopt, path):
        _adopt(adopt, path, sources)
    copies = copy_steps(plan, segment.base_offset)
    with files.closed_after(
        files.open_for_update(path, create=segment.file_bytes_before < 0)
    ) as descriptor:
        is_longer = os.fstat(descriptor).st_size > start
        if is_longer:
            files.truncate(descriptor, start)
        for step in copies:
            files.copy_range(
                sources.open(step.staged_path),
                descriptor,
                source_position=step.staged_position,
                target_position=step.position,
                length=step.length_bytes,
            )
        if copies or is_longer or (adopt is None and segment.file_bytes_before < 0):
            files.fsync(descriptor)


def _adopt(adopt: AdoptStep, path: str, sources: StagedSources) -> None:
    """Rename a staged file to a segment; copied where the folder is on another mount after all."""
    try:
        files.rename(adopt.staged_path, path)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        _copy_whole(adopt, path, sources)


def _copy_whole(adopt: AdoptStep, path: str, sources: StagedSources) -> None:
    temporary = path + files.TEMPORARY_SUFFIX
    with files.closed_after(files.open_for_update(temporary, create=True)) as descriptor:
        files.truncate(descriptor, 0)
        files.copy_range(
            sources.open(adopt.staged_path),
            descriptor,
            source_position=0,
            target_position=0,
            length=adopt.size_bytes,
        )
        files.fsync(descriptor)
    files.rename(temporary, path)


def _unlink_mark(journal: Journal) -> None:
    if journal.clean_shutdown_mark is not None:
        directory = journal.log_directory
        files.unlink(os.path.join(directory, CLEAN_SHUTDOWN_MARK), missing_ok=True)
        files.fsync_directory(directory)


def _make_partition_directories(journal: Journal) -> None:
    made = [plan for plan in journal.partitions if plan.start_before is None]
    for plan in made:
        files.mkdir(plan.directory, exist_ok=True)
    if made:
        files.fsync_directory(journal.log_directory)


def _publish(journals: Sequence[Journal]) -> None:
    """Raise the counters, put the marks back, and show what is new in all directories at once.

    What the marks vouch for lasts by now, and so do the checkpoints before a mark does: the folder
    is synced between the two.
    """
    for journal in journals:
        directory = journal.log_directory
        files.write_atomically(os.path.join(directory, VERSIONS_FILE_NAME), _next_versions(journal))
        mark = journal.clean_shutdown_mark
        if mark is not None:
            files.fsync_directory(directory)
            files.write_atomically(os.path.join(directory, CLEAN_SHUTDOWN_MARK), mark)
        files.fsync_directory(directory)
    if len(journals) > 1:
        _write_journal(journals[0].in_phase(CommitPhase.VISIBLE))


def _next_versions(journal: Journal) -> bytes:
    versions = read_versions(journal.log_directory)
    applications: Mapping[str, ApplicationVersion] = versions.applications
    if journal.application is not None and journal.version is not None:
        entry = ApplicationVersion(version=journal.version, write_id=journal.write_id)
        applications = {**applications, journal.application: entry}
    return replace(versions, counter=versions.counter + 1, applications=applications).to_bytes()


def _write_journal(journal: Journal) -> None:
    path = journal_path(journal.log_directory)
    folder = os.path.dirname(path)
    files.mkdir(folder, exist_ok=True)
    files.fsync_directory(journal.log_directory)
    files.write_atomically(path, journal.to_bytes())
    files.fsync_directory(folder)
