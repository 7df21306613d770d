"""Mending a log: open commits ended, torn ends cut off, indexes made again; only that, unasked.

What was committed is finished, since that takes nothing away. Indexes that are missing, malformed
or at odds with the batches are made again, but not those of a segment that keeps bad bytes: made
from what lies before them, they would hide the good batches after. The transaction index is made
again with them, as in a broker's recovery, unless bad bytes before it hide what was open.

Bytes are cut off only when `truncate` says so: after the last good batch of a partition's last
segment. Where good batches follow bad ones, or whole segments do, they go only with `delete_later`
too: a broker would delete them without a word. Deleted segments are renamed to ``.deleted``, not
removed, and so are producer snapshots from after the new end: whoever appends there later must not
find them. With `cut_bad_batches` bad bytes are cut out alone instead: a segment of the good batches
takes the place of theirs, as in a compaction, and offsets stay. A clean-shutdown mark over what is
cut was wrong, and goes first; the bad bytes, which are why the rest is done, go last, so that a cut
that was cut short is found and done again.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_segmentlog.errors import UnsafeTargetError
from spark_segmentlog.log.directory.cluster import Cluster, read_cluster
from spark_segmentlog.log.directory.journal import Journal
from spark_segmentlog.log.directory.paths import log_directory_of
from spark_segmentlog.log.directory.state import LogDirectoryState
from spark_segmentlog.log.formats.checkpoints import (
    PARTITION_METADATA,
    format_topic_id,
    read_topic_id,
)
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.lock import DEFAULT_LOCK_TIMEOUT_MS, is_locked
from spark_segmentlog.log.io.reading import LOCAL, Storage, local_path
from spark_segmentlog.log.io.signature import FileSignature, signature_of
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.listed_log import RESOLVE_ATTEMPTS
from spark_segmentlog.log.partition.partition_log import PartitionLog, while_it_is_there
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep.mender import Mender
from spark_segmentlog.log.upkeep.recovery_action import (
    RecoveryAction,
    RecoveryKind,
    end_commit_action,
    end_compaction_action,
)
from spark_segmentlog.log.upkeep.swap import Replacement, find_replacement, finish_replacement
from spark_segmentlog.log.upkeep.verification import partition_logs
from spark_segmentlog.log.write.after_commit import storage_after
from spark_segmentlog.log.write.open_commits import (
    find_open_commits,
    finish_open_commits,
    locked_with_open_commits,
    with_open_commits,
)

DEFAULTS = SegmentConfig()
_log = logging.getLogger(__name__)


def recover(
    paths: str | Sequence[str],
    *,
    topic_partitions: Iterable[TopicPartition] | None = None,
    truncate: bool = False,
    delete_later: bool = False,
    cut_bad_batches: bool = False,
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
    cut_bad_batches : bool
        Whether bad bytes that good batches or segments follow are cut out alone: offsets stay, a
        gap remains. Then nothing that is good goes, whatever `delete_later` says.
    dry_run : bool
        Only tell what would be done with the same other parameters; takes no lock and writes
        nothing. Where somebody has the log directory, or nobody can tell, an open commit and the
        partitions that it changes are left out, and so are the files of a compaction: a writer, or
        a broker, at work makes the same ones.

    Returns
    -------
    list of RecoveryAction

    Raises
    ------
    LogLockedError
        A broker or another writer has one of the directories.
    RecoveryError
        An open commit is in a state that no crash leaves; nothing was touched.
    CorruptRecordError
        A compaction that was cut short made a ``.swap`` of which nothing tells where it ends.
    """
    directories = _local_paths(paths)
    wanted = None if topic_partitions is None else set(topic_partitions)
    mender = Mender(
        truncate=truncate,
        delete_later=delete_later,
        cut_bad_batches=cut_bad_batches,
        dry_run=dry_run,
        index_interval_bytes=index_interval_bytes,
    )
    if dry_run:
        return _tell(directories, wanted, mender)
    locks = [log_directory_of(path) for path in directories]
    with locked_with_open_commits(locks, timeout_ms=lock_timeout_ms) as involved:
        actions = _end_commits(involved)
        cluster = _cluster_if_known(locks)
        for log in partition_logs(directories, wanted):
            actions.extend(_write_topic_id(log, cluster, dry_run=False))
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
    mender = Mender(index_interval_bytes=index_interval_bytes)
    locks = [log_directory_of(path) for path in directories]
    with locked_with_open_commits(locks, timeout_ms=lock_timeout_ms) as involved:
        finish_open_commits(involved)
        actions: list[RecoveryAction] = []
        for log in partition_logs(directories, wanted):
            actions.extend(mender.reindex(_end_compaction(log, actions)))
    return actions


def _local_paths(paths: str | Sequence[str]) -> list[str]:
    return [local_path(path) for path in ([paths] if isinstance(paths, str) else paths)]


def _end_commits(log_directories: Sequence[str]) -> list[RecoveryAction]:
    commits = find_open_commits(log_directories)
    finish_open_commits(commits)
    return [end_commit_action(path, journal, is_done=True) for path, journal in commits.items()]


def _end_compaction(log: PartitionLog, actions: list[RecoveryAction]) -> PartitionLog:
    """End a compaction that was cut short, if one was; gives the log as it is then."""
    if not finish_replacement(log.directory):
        return log
    actions.append(end_compaction_action(log, is_done=True))
    return _opened_again(log, LOCAL)


def _tell(
    directories: Sequence[str], wanted: Container[TopicPartition] | None, mender: Mender
) -> list[RecoveryAction]:
    """Tell what would be done.

    What was found while somebody came to end the commits, or was done with it, is looked for again.
    """
    locks = [log_directory_of(path) for path in directories]
    told: list[RecoveryAction] = []
    for _ in range(RESOLVE_ATTEMPTS):
        commits = _find_commits_cut_short(locks)
        try:
            told = list(_tell_after(commits, directories, wanted, mender))
        except FileNotFoundError:
            if _find_commits_cut_short(locks) == commits:
                raise
        else:
            if _find_commits_cut_short(locks) == commits:
                break
    return told


def _tell_after(
    commits: Mapping[str, Journal | None],
    directories: Sequence[str],
    wanted: Container[TopicPartition] | None,
    mender: Mender,
) -> Iterator[RecoveryAction]:
    """Tell what would be done, commits being ended first."""
    for path, journal in commits.items():
        yield end_commit_action(path, journal, is_done=False)
    storage = storage_after(filter(None, commits.values())) if commits else None
    cluster = _cluster_if_known([log_directory_of(path) for path in directories])
    for log in partition_logs(directories, wanted, storage=storage):
        if log.state.is_written(log.topic_partition):
            # Somebody is at it, and will leave it whole.
            continue
        yield from _write_topic_id(log, cluster, dry_run=True)
        yield from while_it_is_there(log, _tell_of(log, mender))


def _find_commits_cut_short(log_directories: Sequence[str]) -> Mapping[str, Journal | None]:
    """Find open commits that were cut short: they are open at a moment when nobody has a lock.

    They are if they were before it, and are after it.
    """
    involved = with_open_commits(log_directories)
    before = find_open_commits(involved)
    if any(is_locked(path) is not False for path in involved):
        return {}
    return before if find_open_commits(involved) == before else {}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """What tells whether a partition was written, or files of it renamed, since another moment."""

    state: LogDirectoryState
    folder: FileSignature | None
    end: FileSignature | None

    @classmethod
    def now(cls, log: PartitionLog) -> _Moment:
        return cls(
            state=log.state.with_commits(log.storage),
            folder=signature_of(log.storage, log.directory),
            end=log.end_signature(),
        )


def _tell_of(log: PartitionLog, mender: Mender) -> Iterator[RecoveryAction]:
    """Tell what would be mended in a partition in which a broker, or a writer, may be at work.

    What was found while files were renamed is believed once another look finds the same; but not
    of a segment that grows, and nothing of a partition that an open commit changes.
    """

    def look() -> list[RecoveryAction]:
        replacement = _find_cut_short(log)
        if replacement is None:
            return list(mender.mend(log))
        after = _opened_again(log, replacement.storage_after(log.storage))
        return [end_compaction_action(log, is_done=False), *mender.mend(after)]

    told: list[RecoveryAction] = []
    for _ in range(RESOLVE_ATTEMPTS):
        before = _Moment.now(log)
        log.list_again()
        earlier, told = told, log.resolved(look)
        now = _Moment.now(log)
        if any(moment.state.is_written(log.topic_partition) for moment in (before, now)):
            return
        if told in ([], earlier) or now == before:
            break
    growing = None if now.end == before.end else log.segments[-1].log_path
    yield from (action for action in told if action.path != growing)


def _find_cut_short(log: PartitionLog) -> Replacement | None:
    """Find a compaction that was cut short: its files stand at a moment when nobody has the lock.

    They do if they stood before it, and stand after it.
    """
    before = find_replacement(log.directory, log.storage) if _is_free(log) else None
    if before is None or not _is_free(log):
        return None
    return before if find_replacement(log.directory, log.storage) == before else None


def _is_free(log: PartitionLog) -> bool:
    return is_locked(log.state.path) is False


def _opened_again(log: PartitionLog, storage: Storage) -> PartitionLog:
    return PartitionLog.open(
        log.directory, state=log.state, storage=storage, topic_partition=log.topic_partition
    )


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
    if read_topic_id(log.storage, log.directory) is not None:
        return
    if cluster.node_id not in known.replicas.get(topic_partition.partition, ()):
        return
    if not dry_run:
        files.write_atomically(path, format_topic_id(known.topic_id))
        files.fsync_directory(log.directory)
    yield RecoveryAction(
        kind=RecoveryKind.WRITE_TOPIC_ID,
        path=path,
        topic_partition=topic_partition,
        detail=f"topic id {known.topic_id}, as the cluster has it",
        is_done=not dry_run,
    )
