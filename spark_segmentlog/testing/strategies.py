"""Hypothesis strategies: records, batches and whole partition logs, each with its oracle.

Logs hold what real ones hold: every codec, null and empty keys and values, timestamps out of
order, offsets with gaps, batches that compaction emptied, transactions that commit, abort or stay
open, and segments cut anywhere. Needs the package hypothesis.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hypothesis import strategies as st

from spark_segmentlog.testing.batches import (
    ABORT,
    COMMIT,
    DEFAULT_TIMESTAMP_MS,
    RecordSpec,
    control_batch,
    v2_batch,
)
from spark_segmentlog.testing.legacy import legacy_message_set
from spark_segmentlog.testing.model import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    NO_TIMESTAMP_TYPE,
    LogRow,
    PartitionModel,
)

V2_CODECS = ("none", "gzip", "snappy", "snappy-raw", "lz4", "zstd", "zstd-frames")
_LEGACY_CODECS = {
    0: ("none", "gzip", "snappy", "lz4-legacy-checksum"),
    1: ("none", "gzip", "snappy", "snappy-raw", "lz4"),
}

# A fixed alphabet: drawing from all of Unicode costs seconds at the first draw.
_NAME_ALPHABET = "ab-\x00\u00e9\u30ad\U0001f600"

# What Spark's TIMESTAMP holds: years 1 to 9999.
MAX_TIMESTAMP_MS = 253_402_300_799_999


@dataclass(slots=True)
class GeneratedLog:
    """A partition log: batches by segment, and the model that was appended to beside them."""

    segments: list[list[bytes]] = field(default_factory=lambda: [[]])
    model: PartitionModel = field(default_factory=PartitionModel)

    @property
    def batches(self) -> list[bytes]:
        """The batches of all segments."""
        return [batch for segment in self.segments for batch in segment]


def nullable_binary(max_size: int = 40) -> st.SearchStrategy[bytes | None]:
    """Keys and values: None, empty, one byte, UTF-8 text beyond ASCII, any bytes."""
    return st.one_of(
        st.none(),
        st.sampled_from([b"", b"x", "schl\u00fcssel-\u30ad\u30fc".encode()]),
        st.binary(max_size=max_size),
    )


def headers(max_size: int = 3) -> st.SearchStrategy[list[tuple[str, bytes | None]]]:
    """Header lists: names may repeat and may be empty, values may be None."""
    names = st.one_of(st.sampled_from(["", "trace-id"]), st.text(_NAME_ALPHABET, max_size=8))
    return st.lists(st.tuples(names, nullable_binary(12)), max_size=max_size)


def timestamps_ms(*, any_in_range: bool = False) -> st.SearchStrategy[int]:
    """Timestamps around one point, so that order and ties matter; or any that may be written."""
    near = st.integers(DEFAULT_TIMESTAMP_MS - 1000, DEFAULT_TIMESTAMP_MS + 1000)
    if not any_in_range:
        return near
    return st.one_of(near, st.just(-1), st.integers(0, MAX_TIMESTAMP_MS))


def record_specs(
    *, with_headers: bool = True, any_timestamp: bool = False
) -> st.SearchStrategy[RecordSpec]:
    """Single records."""
    return st.builds(
        RecordSpec,
        key=nullable_binary(),
        value=nullable_binary(),
        timestamp_ms=timestamps_ms(any_in_range=any_timestamp),
        headers=headers() if with_headers else st.just(()),
    )


@st.composite
def partition_logs(
    draw: st.DrawFn,
    *,
    max_batches: int = 8,
    max_records: int = 6,
    legacy: bool = True,
    transactions: bool = True,
    gaps: bool = True,
    codecs: Sequence[str] = V2_CODECS,
) -> GeneratedLog:
    """Whole partition logs.

    Parameters
    ----------
    max_batches, max_records : int
        Batches a log, records a batch.
    legacy : bool
        Whether messages of formats 0 and 1 may stand in front, as in a log that was upgraded.
    transactions : bool
        Whether three producers write transactions.
    gaps : bool
        Whether offsets are missing and batches empty, as compaction leaves them.
    """
    log = GeneratedLog()
    steps = draw(st.integers(0, max_batches))
    legacy_steps = draw(st.integers(0, steps)) if legacy and draw(st.booleans()) else 0
    for step in range(steps):
        if log.segments[-1] and draw(st.integers(0, 3)) == 0:
            log.segments.append([])
        if step < legacy_steps:
            _draw_legacy(draw, log, max_records, gaps)
        elif transactions and draw(st.integers(0, 3)) == 0:
            _draw_marker(draw, log)
        else:
            _draw_v2(draw, log, max_records, gaps, transactions, codecs)
    return log


def _draw_v2(
    draw: st.DrawFn,
    log: GeneratedLog,
    max_records: int,
    gaps: bool,
    transactions: bool,
    codecs: Sequence[str],
) -> None:
    records = draw(st.lists(record_specs(), min_size=0 if gaps else 1, max_size=max_records))
    records, last_delta = _with_gaps(draw, records, gaps)
    base = log.model.log_end_offset
    producer_id = draw(st.sampled_from([None, None, 1, 2, 3])) if transactions else None
    append_time = draw(st.integers(0, 3)) == 0 and bool(records)
    append_time_ms = draw(timestamps_ms()) if append_time else None
    batch = v2_batch(
        records,
        base_offset=base,
        # The cleaner writes an emptied batch uncompressed.
        codec=draw(st.sampled_from(list(codecs))) if records else "none",
        last_offset_delta=last_delta,
        log_append_time=append_time,
        max_timestamp=append_time_ms,
        transactional=producer_id is not None,
        producer_id=-1 if producer_id is None else producer_id,
        producer_epoch=-1 if producer_id is None else 0,
    )
    log.segments[-1].append(batch)
    log.model.append(
        [_row(record, base, append_time_ms, CREATE_TIME) for record in records],
        next_offset=base + last_delta + 1,
        producer_id=producer_id,
    )


def _draw_marker(draw: st.DrawFn, log: GeneratedLog) -> None:
    kind = draw(st.sampled_from([ABORT, COMMIT, COMMIT, 99]))
    producer_id = draw(st.sampled_from([1, 2, 3]))
    base = log.model.log_end_offset
    # Producers of transaction.version 2 get markers with the next epoch.
    epoch = draw(st.sampled_from([0, 1]))
    if kind not in (ABORT, COMMIT):
        log.segments[-1].append(control_batch(kind, base_offset=base))
        log.model.skip_offsets(1)
        return
    log.segments[-1].append(
        control_batch(kind, base_offset=base, producer_id=producer_id, producer_epoch=epoch)
    )
    log.model.end_transaction(producer_id, commit=kind == COMMIT)


def _draw_legacy(draw: st.DrawFn, log: GeneratedLog, max_records: int, gaps: bool) -> None:
    magic = draw(st.sampled_from([0, 1]))
    records = draw(st.lists(record_specs(with_headers=False), min_size=1, max_size=max_records))
    records, _ = _with_gaps(draw, records, gaps)
    append_time_ms = draw(timestamps_ms()) if magic == 1 and draw(st.booleans()) else None
    base = log.model.log_end_offset
    codec = draw(st.sampled_from(_LEGACY_CODECS[magic]))
    log.segments[-1].append(
        legacy_message_set(
            magic, records, base_offset=base, codec=codec, log_append_time_ms=append_time_ms
        )
    )
    kind = NO_TIMESTAMP_TYPE if magic == 0 else CREATE_TIME
    rows = [_row(record, base, -1 if magic == 0 else append_time_ms, kind) for record in records]
    log.model.append(rows)


def _with_gaps(
    draw: st.DrawFn, records: list[RecordSpec], gaps: bool
) -> tuple[list[RecordSpec], int]:
    """Give the records their offset deltas; returns them and the last delta of the batch."""
    delta = -1
    spread = []
    for record in records:
        delta += draw(st.sampled_from([1, 1, 1, 2, 5])) if gaps else 1
        spread.append(
            RecordSpec(
                key=record.key,
                value=record.value,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
                offset_delta=delta,
            )
        )
    return spread, max(delta, 0) + (draw(st.sampled_from([0, 0, 3])) if gaps else 0)


def _row(record: RecordSpec, base: int, stamped_ms: int | None, kind: int) -> LogRow:
    delta = record.offset_delta or 0
    if stamped_ms is not None and kind == CREATE_TIME:
        kind = LOG_APPEND_TIME
    return LogRow(
        offset=base + delta,
        timestamp_ms=record.timestamp_ms if stamped_ms is None else stamped_ms,
        timestamp_type=kind,
        key=record.key,
        value=record.value,
        headers=tuple((str(name), value) for name, value in record.headers) or None,
    )
