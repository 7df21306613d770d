"""Compares producer snapshots with the producers of the batches before them."""

from __future__ import annotations

from collections.abc import Container, Iterator

from spark_segmentlog.log.findings import Finding, FindingKind
from spark_segmentlog.log.formats.producer_snapshot import (
    NO_TRANSACTION,
    ProducerState,
    find_snapshot_fault,
    parse_producer_snapshot,
)
from spark_segmentlog.log.names import SNAPSHOT_SUFFIX, segment_file_name
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.partition.producer_replay import ProducerReplay
from spark_segmentlog.log.partition.transaction_index_check import batch_at
from spark_segmentlog.log.upkeep.segment_survey import SegmentSurvey


def check_snapshot_at(
    log: PartitionLog, survey: SegmentSurvey, producers: ProducerReplay
) -> Iterator[Finding]:
    """Compare the snapshot at the end of a segment with the producers of the batches up to there.

    A producer that was silent for long may be missing in it, and one whose batches are gone in the
    log.
    """
    bound = survey.segment.end_offset_bound
    offset = survey.next_offset if bound is None else bound
    states = log.snapshot_at(offset)
    if states is None or producers.states is None:
        return
    if any(lost.start_offset < offset <= lost.end_offset for lost in log.lost_segments):
        return
    if any(state.last_offset >= offset for state in states):
        return
    known = {state.producer_id: state for state in producers.states}
    told = {state.producer_id: state for state in states}
    for producer_id in sorted({*known, *told}):
        detail = _state_fault(log, told.get(producer_id), known.get(producer_id))
        if detail:
            yield _snapshot_finding(log, offset, f"producer {producer_id} {detail}")
            return


def _state_fault(
    log: PartitionLog, state: ProducerState | None, known: ProducerState | None
) -> str:
    begin = NO_TRANSACTION if state is None else state.current_txn_first_offset
    if known is not None and known.current_txn_first_offset != begin:
        return (
            f"with a transaction from offset {begin}, in the log it is from "
            f"{known.current_txn_first_offset} (-1 for none)"
        )
    if state is None:
        return ""
    last_offset = state.last_offset
    if last_offset < 0 or (known is not None and known.last_offset == last_offset):
        return ""
    if known is not None and known.last_offset > last_offset:
        return f"with last offset {last_offset}, its batches reach offset {known.last_offset}"
    found = batch_at(log, last_offset)
    if found is None or (known is not None and known.last_offset < 0):
        return ""
    piece, row = found
    if int(piece.table.producer_id[row]) == state.producer_id:
        return ""
    return f"with last offset {last_offset}, where no batch of it is"


def _snapshot_finding(log: PartitionLog, offset: int, detail: str, broker: str = "") -> Finding:
    return Finding(
        kind=FindingKind.PRODUCER_SNAPSHOT,
        path=f"{log.directory}/{segment_file_name(offset, SNAPSHOT_SUFFIX)}",
        topic_partition=log.topic_partition,
        detail=detail,
        broker=broker,
    )


def check_snapshots(log: PartitionLog, compared: Container[int]) -> Iterator[Finding]:
    """Find producer snapshots that are damaged, or speak of other batches.

    Those at the end of a segment were compared with all of its producers.
    """
    for offset in log.listing.snapshot_offsets.tolist():
        path = f"{log.directory}/{segment_file_name(offset, SNAPSHOT_SUFFIX)}"
        data = log.storage.read_file(path)
        if data is None:
            continue
        states = parse_producer_snapshot(data)
        if states is None:
            fault = find_snapshot_fault(data)
            yield _snapshot_finding(log, offset, fault, "a broker deletes it")
        elif any(state.last_offset >= offset for state in states):
            yield _snapshot_finding(log, offset, "names offsets at or after its own")
        elif offset not in compared:
            details = (_state_fault(log, state, None) for state in states)
            detail = next(filter(None, details), "")
            if detail:
                yield _snapshot_finding(log, offset, f"a producer {detail}")
