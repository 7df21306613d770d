"""Compares the leader epochs in batch headers with each other, and with the partition's checkpoint.

No checksum covers a batch's leader epoch, and no row has it. But epochs never go down along a log,
and ``leader-epoch-checkpoint`` names the first offset of each: what contradicts the others is
wrong, a batch or the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.formats.checkpoints import (
    LEADER_EPOCH_CHECKPOINT,
    LeaderEpoch,
    parse_leader_epochs,
    read_text,
)
from spark_segmentlog.log.names import MAX_OFFSET
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.record.layout import MAGIC_V2, NO_PARTITION_LEADER_EPOCH
from spark_segmentlog.record.read.header_table import HeaderTable


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochRun:
    """Neighbouring batches of one leader epoch; the place is that of the first."""

    epoch: int
    path: str
    position: int
    first_offset: int
    last_offset: int


def epoch_runs(table: HeaderTable, path: str) -> Iterator[EpochRun]:
    """Give the runs of batches that have a leader epoch."""
    has_epoch = table.partition_leader_epoch != NO_PARTITION_LEADER_EPOCH
    rows = np.flatnonzero((table.magic == MAGIC_V2) & has_epoch)
    epochs = table.partition_leader_epoch[rows]
    for part in np.split(rows, np.flatnonzero(np.diff(epochs)) + 1) if len(rows) else ():
        yield EpochRun(
            epoch=int(table.partition_leader_epoch[part[0]]),
            path=path,
            position=int(table.position[part[0]]),
            first_offset=int(table.base_offset[part[0]]),
            last_offset=int(table.last_offset[part[-1]]),
        )


def check_leader_epochs(
    log: PartitionLog, runs: Iterable[EpochRun], end_offset: int | None
) -> Iterator[Finding]:
    """Find batches whose leader epoch cannot be, or a checkpoint that is not of these batches.

    Where the log's end is damaged, it says nothing: `end_offset` is None then.
    """
    joined = _joined(runs)
    text = read_text(log.storage, log.directory, LEADER_EPOCH_CHECKPOINT)
    entries = parse_leader_epochs(text) if text else []
    if entries is None:
        # That it cannot be read is told by whoever looks around the partition.
        return
    wrong = [run for number, run in enumerate(joined) if _is_out_of_order(joined, number)]
    if entries:
        wrong = [run for run in wrong if not _agrees(run, entries)]
    right = [run for run in joined if run not in wrong]
    fault = _checkpoint_fault(log, entries, right)
    is_end_known = end_offset is not None and log.state.is_clean
    if entries and is_end_known and (end_offset or 0) < entries[-1].start_offset:
        fault = f"leader epoch {entries[-1].epoch} begins after the log's end, at {end_offset}"
    if fault:
        path = f"{log.directory}/{LEADER_EPOCH_CHECKPOINT}"
        yield Finding(
            kind=FindingKind.LEADER_EPOCH,
            path=path,
            topic_partition=log.topic_partition,
            detail=fault,
        )
        return
    for run in joined:
        is_known = bool(entries) and not _agrees(run, entries) and not _may_be_newer(log, run)
        if run in wrong or is_known:
            yield Finding(
                kind=FindingKind.LEADER_EPOCH,
                path=run.path,
                topic_partition=log.topic_partition,
                position=run.position,
                detail=f"offsets {run.first_offset} to {run.last_offset} have leader epoch "
                f"{run.epoch}, against those around them or {LEADER_EPOCH_CHECKPOINT}",
            )


def epochs_of_batches(runs: Iterable[EpochRun]) -> list[LeaderEpoch]:
    """Tell a log's leader epochs by its batches alone; one that cannot be there is left out."""
    joined = _joined(runs)
    right = [run for number, run in enumerate(joined) if not _is_out_of_order(joined, number)]
    epochs: list[LeaderEpoch] = []
    for run in right:
        if not epochs or run.epoch > epochs[-1].epoch:
            epochs.append(LeaderEpoch(run.epoch, run.first_offset))
    return epochs


def _joined(runs: Iterable[EpochRun]) -> list[EpochRun]:
    joined: list[EpochRun] = []
    for run in runs:
        if joined and joined[-1].epoch == run.epoch:
            joined[-1] = replace(joined[-1], last_offset=run.last_offset)
        else:
            joined.append(run)
    return joined


def _is_out_of_order(runs: Sequence[EpochRun], number: int) -> bool:
    """Tell whether the epochs beside a run ascend, and its own lies not between them."""
    epoch = runs[number].epoch
    before = runs[number - 1].epoch if number else 0
    after = runs[number + 1].epoch if number + 1 < len(runs) else max(epoch, before)
    return before <= after and not before <= epoch <= after


def _checkpoint_fault(
    log: PartitionLog, entries: Sequence[LeaderEpoch], runs: Sequence[EpochRun]
) -> str:
    """Tell what of the checkpoint cannot be; an empty text where nothing is known to be wrong."""
    if not entries:
        return "names no leader epoch, and batches have one" if runs else ""
    starts = [entry.start_offset for entry in entries]
    if sorted(starts) != starts or min(entries[0].epoch, starts[0]) < 0:
        return "leader epochs and their first offsets do not ascend"
    for entry, end in zip(entries, [*starts[1:], MAX_OFFSET], strict=True):
        name = f"leader epoch {entry.epoch} from offset {entry.start_offset} on"
        among = [
            run for run in runs if run.first_offset < end and entry.start_offset <= run.last_offset
        ]
        if entry is not entries[0] and any(run.first_offset < entry.start_offset for run in among):
            run = among[0]
            return f"{name} begins among batches of epoch {run.epoch}, one of {run.path} perhaps"
        # A checkpoint that was lost begins again, and one may lack what came before a crash.
        newest = among and end == MAX_OFFSET and _may_be_newer(log, among[-1])
        if among and all(run.epoch != entry.epoch for run in among) and not newest:
            return f"{name}, the batches have epoch {among[0].epoch}"
    return ""


def _agrees(run: EpochRun, entries: Sequence[LeaderEpoch]) -> bool:
    """Tell whether a run has the epoch that the checkpoint has where it begins."""
    covering = [entry for entry in entries if entry.start_offset <= run.first_offset]
    return covering[-1].epoch == run.epoch if covering else run.epoch <= entries[0].epoch


def _may_be_newer(log: PartitionLog, run: EpochRun) -> bool:
    """Tell whether a crash may have kept the epoch of a run out of the checkpoint."""
    recovery_point = log.state.recovery_point(log.topic_partition)
    return not log.state.is_clean and run.last_offset >= (recovery_point or 0)
