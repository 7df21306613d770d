"""Log directories as they are once their open commits are ended, seen before they are.

It is what `roll_forward` leaves that takes up a commit which was cut short, but for journals,
staged files, and what writers alone read: ``.segmentlog-versions`` and ``.segmentlog-tail``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from spark_segmentlog.log.directory.commit_steps import PartitionPlan, SegmentPlan
from spark_segmentlog.log.directory.journal import Journal
from spark_segmentlog.log.formats.checkpoints import CLEAN_SHUTDOWN_MARK
from spark_segmentlog.log.io.after_changes import Parts, StorageAfterChanges, Stretch
from spark_segmentlog.log.io.reading import LOCAL, Storage
from spark_segmentlog.log.names import LOG_SUFFIX, segment_file_name
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.write.commit_files import checkpoint_files, partition_files
from spark_segmentlog.log.write.index_completion import rebuilt_indexes
from spark_segmentlog.log.write.target_check import (
    StagedSources,
    adopt_step,
    check_targets,
    copy_steps,
    is_to_be_renamed,
    kept_bytes,
    log_path,
)


def storage_after(journals: Iterable[Journal]) -> Storage:
    """Give the local disk as it is once commits are ended, none of them being open any more.

    Raises
    ------
    RecoveryError
        A file is in a state that no crash of its commit leaves: it could not be ended.
    CorruptRecordError
        Bad bytes in a segment of which indexes would be made: it could not be ended either.
    """
    folders: dict[str, Mapping[str, Parts]] = {}
    for journal in journals:
        # After a visible journal all steps are taken.
        if not journal.is_visible:
            check_targets(journal)
            folders[journal.log_directory] = _as_parts(_directory_files(journal))
            with StagedSources() as sources:
                for plan in journal.partitions:
                    folders[plan.directory] = _partition_after(journal, plan, sources)
    return StorageAfterChanges(LOCAL, folders)


def _directory_files(journal: Journal) -> dict[str, bytes]:
    mark = journal.clean_shutdown_mark
    marks = {} if mark is None else {CLEAN_SHUTDOWN_MARK: mark}
    return {**checkpoint_files(journal), **marks}


def _partition_after(
    journal: Journal, plan: PartitionPlan, sources: StagedSources
) -> Mapping[str, Parts]:
    made: dict[str, Parts] = _as_parts(partition_files(plan))
    for segment in plan.segments:
        name = segment_file_name(segment.base_offset, LOG_SUFFIX)
        made[name] = _log_parts(plan, segment, sources)
        joined = Segment(
            topic_partition=plan.topic_partition,
            directory=plan.directory,
            base_offset=segment.base_offset,
            storage=StorageAfterChanges(LOCAL, {plan.directory: made}),
        )
        indexes = rebuilt_indexes(
            joined,
            bytes_after=segment.bytes_after,
            index_interval_bytes=journal.index_interval_bytes,
        )
        for suffix, data in indexes.items():
            made[segment_file_name(segment.base_offset, suffix)] = (data,)
    return made


def _log_parts(plan: PartitionPlan, segment: SegmentPlan, sources: StagedSources) -> Parts:
    """Tell of what a log is joined; a staged file that is missing is an error, as it is then."""
    path = log_path(plan, segment.base_offset)
    adopt = adopt_step(plan, segment.base_offset)
    present = adopt.staged_path if adopt is not None and is_to_be_renamed(adopt, path) else path
    parts = [Stretch(present, length=kept_bytes(segment, adopt))]
    for step in copy_steps(plan, segment.base_offset):
        sources.open(step.staged_path)
        parts.append(Stretch(step.staged_path, step.staged_position, step.length_bytes))
    return parts


def _as_parts(made: Mapping[str, bytes]) -> dict[str, Parts]:
    return {name: (data,) for name, data in made.items()}
