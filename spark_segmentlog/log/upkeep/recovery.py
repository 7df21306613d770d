"""Mending a log: open commits ended, torn ends cut off, indexes made again; only that, unasked.

What was committed is finished, since that takes nothing away. Indexes that are missing, malformed
or at odds with the batches are made again, but not those of a segment that keeps bad bytes: made
from what lies before them, they would hide the good batches after. The transaction index is made
again with them, as in a broker's recovery, unless bad bytes before it hide what was open.

Bytes are cut off only when `truncate` says so: after the last good batch of a partition's last
segment. Where good batches follow bad ones, or whole segments do, they go only with `delete_later`
too: a broker would delete them without a word. Deleted segments are renamed to ``.deleted``, not
removed, and so are producer snapshots from after the new end: whoever appends there later must not
find them. A clean-shutdown mark over what is cut was wrong, and goes first; the bad bytes, which
are why the rest is done, go last, so that a cut that was cut short is found and done again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from enum import StrEnum

from spark_segmentlog.errors import UnsafeTargetError, describe_offsets
from spark_segmentlog.log.directory.cluster import Cluster, read_cluster
from spark_segmentlog.log.directory.open_commit import has_commit_directory, read_open_commit
from spark_segmentlog.log.directory.paths import log_directory_of
from spark_segmentlog.log.formats.checkpoints import (
    CLEAN_SHUTDOWN_MARK,
    PARTITION_METADATA,
    PartitionMetadata,
    format_partition_metadata,
    read_partition_metadata,
)
from spark_segmentlog.log.formats.producer_snapshot import ProducerState
from spark_segmentlog.log.formats.transaction_index import (
    AbortedTransaction,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.lock import DEFAULT_LOCK_TIMEOUT_MS
from spark_segmentlog.log.io.reading import LOCAL, local_path
from spark_segmentlog.log.names import (
    SWAP_SUFFIX,
    TopicPartition,
    segment_file_name,
)
from spark_segmentlog.log.partition.partition_log import PartitionLog, while_it_is_there
from spark_segmentlog.log.partition.producer_replay import ProducerReplay
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.segment.segment import Segment
from spark_segmentlog.log.upkeep.index_check import check_indexes
from spark_segmentlog.log.upkeep.rebuild import rebuild_indexes
from spark_segmentlog.log.upkeep.segment_survey import SegmentSurvey, survey_segment
from spark_segmentlog.log.upkeep.swap import (
    finish_replacement,
    mark_files_behind_deleted,
    mark_segment_deleted,
    mark_snapshots_deleted,
    write_snapshot,
)
from spark_segmentlog.log.upkeep.verification import known_aborts, partition_logs
from spark_segmentlog.log.write.open_commits import finish_open_commits, locked_with_open_commits

DEFAULTS = SegmentConfig()
_log = logging.getLogger(__name__)


class RecoveryKind(StrEnum):
    """What recovery does."""

    END_COMMIT = "end commit"
    END_COMPACTION = "end compaction"
    CUT = "cut"
    DELETE_SEGMENT = "delete segment"
    REBUILD_INDEXES = "rebuild indexes"
    WRITE_TOPIC_ID = "write topic id"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecoveryAction:
    """One thing that recovery did, or would do; `is_done` tells which.

    Attributes
    ----------
    is_left : bool
        Whether it is neither done nor would be: it takes good batches away, or needs a cut that
        does.
    """

    kind: RecoveryKind
    path: str
    detail: str
    is_done: bool
    is_left: bool = False
    topic_partition: TopicPartition | None = None

    def __str__(self) -> str:
        left = "not done, " if self.is_left else ""
        return f"{self.kind}: {left}{self.detail} (file {self.path})"


def recover(
    paths: str | Sequence[str],
    *,
    topic_partitions: Iterable[TopicPartition] | None = None,
    truncate: bool = False,
    delete_later: bool = False,
    dry_run: bool = False,
    index_interval_bytes: int = DEFAULTS.index_interval_bytes,
    lock_timeout_ms: int = DEFAULT_LOCK_TIMEOUT_MS,
) -> list[RecoveryAction]:
    """Mend log directories.

    Parameters
    ----------
    paths : str or sequence of str
        Log directories, and partition directories that stand beside the log.
    topic_partitions : iterable of TopicPartition, optional
        Which ones; all where not given.
    truncate : bool
        Whether to cut off what follows the last good batch of a last segment, and zeros at the
        end of any.
    delete_later : bool
        With `truncate`: whether good batches and segments after bad bytes go too.
    dry_run : bool
        Only tell what would be done with the same other parameters; takes no lock and writes
        nothing. A compaction that was cut short is not told: a broker at work leaves the same
        files.
    index_interval_bytes, lock_timeout_ms : int

    Returns
    -------
    list of RecoveryAction

    Raises
    ------
    LogLockedError
        A broker or another writer has one of the directories.
    RecoveryError
        An open commit is in a state that no crash leaves; nothing was touched.
    """
    directories = _local_paths(paths)
    wanted = None if topic_partitions is None else set(topic_partitions)
    mender = _Mender(
        truncate=truncate,
        delete_later=delete_later,
        dry_run=dry_run,
        index_interval_bytes=index_interval_bytes,
    )
    with ExitStack() as stack:
        involved: Sequence[str] = [log_directory_of(path) for path in directories]
        if not dry_run:
            involved = stack.enter_context(
                locked_with_open_commits(involved, timeout_ms=lock_timeout_ms)
            )
        actions = _end_commits(involved, dry_run=dry_run)
        cluster = _cluster_if_known([log_directory_of(path) for path in directories])
        for log in partition_logs(directories, wanted):
            actions.extend(_write_topic_id(log, cluster, dry_run=dry_run))
            if dry_run:
                actions.extend(while_it_is_there(log, mender.tell(log)))
            else:
                actions.extend(mender.mend(_end_compaction(log, actions)))
    return actions


def reindex(
    paths: str | Sequence[str],
    *,
    topic_partitions: Iterable[TopicPartition] | None = None,
    index_interval_bytes: int = DEFAULTS.index_interval_bytes,
    lock_timeout_ms: int = DEFAULT_LOCK_TIMEOUT_MS,
) -> list[RecoveryAction]:
    """Make all indexes of all segments again from their batches.

    Parameters and errors are those of `recover`. A segment with bad bytes keeps the indexes it has,
    those after it keep their transaction indexes up to the next producer snapshot.
    """
    directories = _local_paths(paths)
    wanted = None if topic_partitions is None else set(topic_partitions)
    mender = _Mender(index_interval_bytes=index_interval_bytes)
    locks = [log_directory_of(path) for path in directories]
    with locked_with_open_commits(locks, timeout_ms=lock_timeout_ms) as involved:
        finish_open_commits(involved)
        actions: list[RecoveryAction] = []
        for log in partition_logs(directories, wanted):
            actions.extend(mender.reindex(_end_compaction(log, actions)))
    return actions


def _local_paths(paths: str | Sequence[str]) -> list[str]:
    return [local_path(path) for path in ([paths] if isinstance(paths, str) else paths)]


def _end_commits(log_directories: Sequence[str], *, dry_run: bool) -> list[RecoveryAction]:
    open_directories = [path for path in log_directories if has_commit_directory(path)]
    details = {}
    for path in open_directories:
        journal = read_open_commit(path)
        details[path] = (
            "what is left of a commit that never began or is over"
            if journal is None
            else f"write {journal.write_id} of {len(journal.partitions)} partitions"
        )
    if not dry_run:
        finish_open_commits(open_directories)
    return [
        RecoveryAction(
            kind=RecoveryKind.END_COMMIT, path=path, detail=details[path], is_done=not dry_run
        )
        for path in open_directories
    ]


def _end_compaction(log: PartitionLog, actions: list[RecoveryAction]) -> PartitionLog:
    """End a compaction that was cut short, if one was; gives the log as it is then."""
    if not finish_replacement(log.directory):
        return log
    actions.append(_end_compaction_action(log))
    return PartitionLog.open(log.directory, topic_partition=log.topic_partition)


def _cluster_if_known(log_directories: Sequence[str]) -> Cluster | None:
    """Read what a cluster knows, for those partitions that lack a topic id; all else is mended."""
    try:
        return read_cluster(log_directories)
    except UnsafeTargetError as error:
        _log.warning("no topic id is written: %s", error)
        return None


def _write_topic_id(
    log: PartitionLog, cluster: Cluster | None, *, dry_run: bool
) -> Iterator[RecoveryAction]:
    """Write the topic id that a partition lacks; another topic's is left, and so are its records.

    A partition that is none of the cluster's, or of another broker, gets none: it is stray.
    """
    topic_partition = log.topic_partition
    known = ((cluster and cluster.topics) or {}).get(topic_partition.topic)
    path = os.path.join(log.directory, PARTITION_METADATA)
    if cluster is None or known is None or os.path.basename(log.directory) != str(topic_partition):
        return
    if read_partition_metadata(LOCAL, log.directory) is not None:
        return
    if cluster.node_id not in known.replicas.get(topic_partition.partition, ()):
        return
    if not dry_run:
        files.write_atomically(path, format_partition_metadata(PartitionMetadata(known.topic_id)))
        files.fsync_directory(log.directory)
    yield RecoveryAction(
        kind=RecoveryKind.WRITE_TOPIC_ID,
        path=path,
        topic_partition=topic_partition,
        detail=f"topic id {known.topic_id}, as the cluster has it",
        is_done=not dry_run,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mender:
    truncate: bool = False
    delete_later: bool = False
    dry_run: bool = False
    index_interval_bytes: int

    def reindex(self, log: PartitionLog) -> Iterator[RecoveryAction]:
        """Make the indexes of one partition again."""
        producers = ProducerReplay(log)
        for segment in log.segments:
            survey = survey_segment(segment)
            known = known_aborts(survey, producers)
            yield self._rebuilt(survey, known.aborted)
            if survey.stop is not None:
                producers.lose_track(segment)

    def tell(self, log: PartitionLog) -> Iterator[RecoveryAction]:
        """Tell what would be mended in a partition in which a broker may be at work."""
        yield from log.resolved(lambda: list(self.mend(log)))

    def mend(self, log: PartitionLog) -> Iterator[RecoveryAction]:
        """Mend one partition, up to where bad bytes are cut off.

        Zeros to the end of a file are the rest of a preallocated one. They stand for no batch, so
        that nothing after them goes with them.
        """
        segments = list(log.segments)
        producers = ProducerReplay(log)
        for index, segment in enumerate(segments):
            survey = survey_segment(segment)
            known = known_aborts(survey, producers)
            later = [] if survey.stop is None else segments[index + 1 :]
            if survey.valid_bytes < survey.file_bytes:
                takes_good = bool(later) or _has_good_behind(survey)
                is_cut = self.truncate and (self.delete_later or not takes_good)
                done = {"is_done": is_cut and not self.dry_run, "is_left": not is_cut}
                yield _cut_action(survey, takes_good=takes_good, **done)
                if later:
                    yield _delete_action(later, **done)
                if is_cut:
                    if not self.dry_run:
                        self._cut(
                            log, survey, later, producers, is_last=segments[-1] in (segment, *later)
                        )
                    yield self._rebuilt(survey, known.aborted, is_cut=True)
                    if survey.stop is not None:
                        return
                    continue
            if survey.lost_to is not None or any(check_indexes(log, survey, known)):
                yield self._rebuilt(survey, known.aborted)
            if survey.stop is not None:
                # Lost offsets are different: with its new indexes the segment is what it is now.
                producers.lose_track(segment)

    def _cut(
        self,
        log: PartitionLog,
        survey: SegmentSurvey,
        later: Sequence[Segment],
        producers: ProducerReplay,
        *,
        is_last: bool,
    ) -> None:
        """Do all that goes before bad bytes are cut off.

        They are why the rest goes: they go last, so that whoever takes up a cut that was not ended
        finds them, and does all of it again.
        """
        segment = survey.segment
        _take_mark_away(log)
        _delete(later)
        if survey.stop is not None:
            mark_files_behind_deleted(segment.directory, segment.base_offset)
            files.fsync_directory(segment.directory)
        if is_last:
            _end_snapshots(log, survey.valid_next_offset, producers.states or ())

    def _rebuilt(
        self,
        survey: SegmentSurvey,
        aborted: Sequence[AbortedTransaction] | None,
        *,
        is_cut: bool = False,
    ) -> RecoveryAction:
        """Make indexes again where that is possible, and then cut what is to be cut."""
        is_possible = is_cut or survey.is_whole
        is_done = is_possible and not self.dry_run
        if is_done:
            rebuild_indexes(survey, aborted, index_interval_bytes=self.index_interval_bytes)
        if is_cut and is_done:
            _cut_off(survey)
        return _rebuild_action(
            survey,
            is_done=is_done,
            is_left=not is_possible,
            keeps_transactions=is_possible and aborted is None,
        )


def _take_mark_away(log: PartitionLog) -> None:
    """Take a clean-shutdown mark away for good: what is cut here was vouched for by it."""
    log_directory = os.path.dirname(log.directory)
    mark = os.path.join(log_directory, CLEAN_SHUTDOWN_MARK)
    if os.path.lexists(mark):
        files.unlink(mark, missing_ok=True)
        files.fsync_directory(log_directory)


def _has_good_behind(survey: SegmentSurvey) -> bool:
    """Tell whether a good batch lies anywhere after the first bad bytes of a segment."""
    return survey.valid_count < len(survey.positions)


def _cut_off(survey: SegmentSurvey) -> None:
    segment = survey.segment
    descriptor = files.open_for_update(segment.log_path)
    try:
        files.truncate(descriptor, survey.valid_bytes)
        files.fsync(descriptor)
    finally:
        files.close(descriptor)


def _delete(segments: Sequence[Segment]) -> None:
    """Rename segments to ``.deleted``, the last one first, so that no gap is ever left behind."""
    for segment in reversed(segments):
        mark_segment_deleted(segment.directory, segment.base_offset)
        files.fsync_directory(segment.directory)


def _end_snapshots(log: PartitionLog, end_offset: int, states: Sequence[ProducerState]) -> None:
    """Leave the producers at a log's new end behind, and none from behind it.

    Before the log is cut: a snapshot too few costs a walk, one too many tells of what is gone.
    """
    later = [it for it in log.listing.snapshot_offsets.tolist() if it > end_offset]
    mark_snapshots_deleted(log.directory, later)
    files.fsync_directory(log.directory)
    write_snapshot(log.directory, end_offset, states)
    files.fsync_directory(log.directory)


def _cut_action(
    survey: SegmentSurvey, *, takes_good: bool, is_done: bool, is_left: bool
) -> RecoveryAction:
    reason = "zeros" if survey.stop is None else f"{survey.stop.kind}, {survey.stop.detail}"
    along = ", good batches after them included" if takes_good else ""
    return RecoveryAction(
        kind=RecoveryKind.CUT,
        path=_plain_path(survey.segment),
        topic_partition=survey.segment.topic_partition,
        detail=(
            f"{survey.file_bytes - survey.valid_bytes} bytes from position {survey.valid_bytes} "
            f"on ({reason}){along}"
        ),
        is_done=is_done,
        is_left=is_left,
    )


def _plain_path(segment: Segment) -> str:
    """Name a segment's file as it is when its compaction is ended."""
    return segment.log_path.removesuffix(SWAP_SUFFIX)


def _end_compaction_action(log: PartitionLog) -> RecoveryAction:
    return RecoveryAction(
        kind=RecoveryKind.END_COMPACTION,
        path=log.directory,
        topic_partition=log.topic_partition,
        detail="segments of a compaction that was cut short took their place, or went",
        is_done=True,
    )


def _delete_action(segments: Sequence[Segment], *, is_done: bool, is_left: bool) -> RecoveryAction:
    first, last = segments[0], segments[-1]
    what = "segment after bad bytes"
    if len(segments) > 1:
        name = segment_file_name(last.base_offset)
        what = f"{len(segments)} segments after bad bytes, up to {name}"
    return RecoveryAction(
        kind=RecoveryKind.DELETE_SEGMENT,
        path=_plain_path(first),
        topic_partition=first.topic_partition,
        detail=f"{what}, renamed to .deleted",
        is_done=is_done,
        is_left=is_left,
    )


def _rebuild_action(
    survey: SegmentSurvey, *, is_done: bool, is_left: bool, keeps_transactions: bool
) -> RecoveryAction:
    detail = "offset, time and transaction index from the batches"
    if keeps_transactions:
        detail = (
            "offset and time index from the batches, not the transaction index: bad bytes before "
            "the segment may hide what was open"
        )
    if survey.lost_range is not None:
        detail = f"{detail}; the old ones tell that {describe_offsets(*survey.lost_range)}"
    return RecoveryAction(
        kind=RecoveryKind.REBUILD_INDEXES,
        path=_plain_path(survey.segment),
        topic_partition=survey.segment.topic_partition,
        detail=f"{detail}, bad bytes are among them" if is_left else detail,
        is_done=is_done,
        is_left=is_left,
    )
