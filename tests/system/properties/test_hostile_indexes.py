"""No content of an index, a snapshot or a checkpoint changes what is read of a whole log.

Logs hold values that are whole record batches with right checksums and plausible offsets; index
entries point at those, at batches, into batches and beyond the file, in any order, and files are
zeros, garbage, cut anywhere, missing, or those of another segment. Every answer equals that of the
same log without such files.

Only a time index that is borne out by the batches which it names, and still is not the running
maximum, can mislead, and only lookups by time: verification finds it. And an index that is right as
far as it can be compared, and names offsets in a gap at a closed segment's end, cannot be told from
that of a segment that was cut: the read may say that offsets are lost there, and gives the same
rows.
"""

from __future__ import annotations

import struct
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog import read_arrow
from spark_segmentlog.log.findings import FindingKind
from spark_segmentlog.log.partition.log_watch import LogWatch
from spark_segmentlog.log.segment.scanner import ALL_COLUMNS
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.testing.builder import (
    ABORT,
    BatchSummary,
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    control_batch,
    legacy_message_set,
    segment_file_name,
    summarize_batch,
    v2_batch,
)
from spark_segmentlog.testing.model import LogRow
from spark_segmentlog.testing.strategies import GeneratedLog, partition_logs, timestamps_ms
from tests.support.reading import column, open_one, scan_options

GARBAGE = st.binary(max_size=60)
TOP_FILES = (
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
    "log-start-offset-checkpoint",
    "cleaner-offset-checkpoint",
)
TIME_OFFSET = struct.Struct(">qi")
OFFSET_POSITION = struct.Struct(">ii")


@dataclass(frozen=True, slots=True)
class Placed:
    """A batch of a segment and where it lies."""

    position: int
    summary: BatchSummary


@st.composite
def forged_batches(draw: st.DrawFn, end_offset: int) -> bytes:
    """Draw bytes that are a whole batch, with an offset that might be in its place."""
    base_offset = draw(st.integers(0, end_offset + 4))
    timestamp = draw(timestamps_ms())
    kind = draw(st.sampled_from(["data", "legacy", "abort"]))
    if kind == "abort":
        return control_batch(ABORT, base_offset=base_offset, producer_id=draw(st.integers(1, 3)))
    records = [RecordSpec(value=b"forged", timestamp_ms=timestamp)] * draw(st.integers(1, 3))
    if kind == "legacy":
        return legacy_message_set(1, records, base_offset=base_offset)
    return v2_batch(records, base_offset=base_offset)


@st.composite
def logs_with_forgeries(draw: st.DrawFn) -> GeneratedLog:
    """Draw logs some of whose values are batches, in any segment."""
    log = draw(partition_logs(max_batches=5))
    for _ in range(draw(st.integers(1, 3))):
        if draw(st.booleans()):
            log.segments.append([])
        base_offset = log.model.log_end_offset
        forged = draw(st.lists(forged_batches(base_offset), min_size=1, max_size=3))
        record = RecordSpec(
            value=draw(st.sampled_from([b"", b"x"])) + b"".join(forged) + draw(GARBAGE),
            timestamp_ms=draw(timestamps_ms()),
        )
        log.segments[-1].append(v2_batch([record], base_offset=base_offset))
        row = LogRow(
            offset=base_offset,
            timestamp_ms=record.timestamp_ms,
            timestamp_type=0,
            key=record.key,
            value=record.value,
            headers=None,
        )
        log.model.append([row])
    return log


def placed_batches(path: Path) -> Iterator[Placed]:
    """Walk the batches of a file."""
    data = path.read_bytes()
    position = 0
    while position + 12 <= len(data):
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big")
        batch = data[position : position + size]
        summary = summarize_batch(batch)
        assert summary is not None
        yield Placed(position, summary)
        position += size


def batch_starts(data: bytes) -> list[int]:
    """Find every byte where the header of a batch might stand, in a value or not."""
    return [
        at
        for at in range(len(data) - 16)
        if data[at + 8 : at + 10] == b"\0\0" and data[at + 16] < 3
    ]


@st.composite
def hostile_files(draw: st.DrawFn, directory: Path, base_offset: int) -> dict[str, bytes | None]:
    """Draw the files that stand beside one segment; None for a missing one."""
    data = (directory / segment_file_name(base_offset)).read_bytes()
    starts = batch_starts(data)
    positions = st.one_of(st.sampled_from(starts or [0]), st.integers(0, len(data) + 50))
    relative = st.integers(-2, 30)
    times = st.one_of(
        timestamps_ms(),
        st.sampled_from(
            [
                placed_batch.summary.max_timestamp
                for placed_batch in placed_batches(directory / segment_file_name(base_offset))
            ]
            or [0]
        ),
    )
    # What a forged batch says of itself, as an index that is right would have it.
    telling = st.sampled_from(
        [(_last_offset(data, at) - base_offset, at) for at in starts] or [(0, 0)]
    )
    some = st.tuples(relative, positions)
    offset_entries = st.lists(st.one_of(telling, telling, some), max_size=4)
    time_entries = st.lists(st.tuples(times, relative), max_size=5)
    is_sorted = draw(st.booleans())
    entries, timed = draw(offset_entries), draw(time_entries)
    files: dict[str, bytes | None] = {
        ".index": _packed(OFFSET_POSITION, sorted(entries) if is_sorted else entries),
        ".timeindex": _packed(TIME_OFFSET, sorted(timed) if is_sorted else timed),
        ".txnindex": draw(GARBAGE),
        ".snapshot": draw(GARBAGE),
    }
    for name, content in files.items():
        files[name] = draw(_mangled(content or b""))
    return files


def _last_offset(data: bytes, at: int) -> int:
    base_offset, is_v2 = int.from_bytes(data[at : at + 8], "big"), data[at + 16] == 2
    delta = int.from_bytes(data[at + 23 : at + 27], "big") if is_v2 else 0
    return min(base_offset + delta, 1 << 30)


def _packed(layout: struct.Struct, entries: list[tuple[int, int]]) -> bytes:
    return b"".join(layout.pack(*entry) for entry in entries)


def _mangled(content: bytes) -> st.SearchStrategy[bytes | None]:
    return st.one_of(
        st.just(content),
        st.just(content),
        st.just(content + bytes(24)),
        st.integers(0, len(content)).map(lambda end: content[:end]),
        st.just(bytes(len(content))),
        GARBAGE,
        st.none(),
    )


def answers(
    directory: Path, chance: tuple[int, int, int], *, fail_on_data_loss: bool = True
) -> dict[str, Any]:
    """Ask a log everything that does not go by time."""
    start, end, max_bytes = chance
    found: dict[str, Any] = {}
    for level in ("read_uncommitted", "read_committed"):
        for mode in ("FAILFAST", "PERMISSIVE", "DROPMALFORMED"):
            reader = read_arrow(
                directory,
                mode=mode,
                kafka_isolation_level=level,
                fail_on_data_loss=fail_on_data_loss,
            )
            found[f"rows {level} {mode}"] = reader.read_all().select(list(ALL_COLUMNS)).to_pylist()
    log = open_one(directory)
    for committed in (False, True):
        options = scan_options(
            start=start, end=end, committed=committed, fail_on_data_loss=fail_on_data_loss
        )
        found[f"offsets {committed}"] = column(log.scan(options=options), "offset")
    found["bounds"] = log.log_start_offset, log.log_end_offset, log.last_stable_offset()
    fetched = log.read(min(start, log.log_end_offset), max_bytes + 1)
    found["next"] = fetched.next_offset >= start or start > log.log_end_offset
    watched = LogWatch([str(directory)]).refresh()
    found["watched"] = {
        str(topic_partition): state.log_end_offset for topic_partition, state in watched.items()
    }
    return found


def answers_by_time(
    directory: Path, time: int, *, fail_on_data_loss: bool = True
) -> dict[str, Any]:
    """Ask a log what goes by time."""
    log = open_one(directory)
    by_time = scan_options(min_ms=time, fail_on_data_loss=fail_on_data_loss)
    return {
        "lookup": log.offset_for_timestamp(time),
        "late": column(log.scan(options=by_time), "offset"),
    }


def is_borne_out_lie(directory: Path, base_offset: int, content: bytes | None) -> bool:
    """Tell whether a time index misleads though the batches that it names bear it out."""
    batches = list(placed_batches(directory / segment_file_name(base_offset)))
    data = content or b""
    entries = [TIME_OFFSET.unpack_from(data, at) for at in range(0, len(data) - 11, 12)]
    for timestamp, relative in entries:
        running = -(2**63)
        for batch in batches:
            running = max(running, batch.summary.max_timestamp)
            if batch.summary.last_offset >= base_offset + relative:
                is_borne_out = batch.summary.max_timestamp == timestamp
                if is_borne_out and running != timestamp:
                    return True
                break
    return False


def names_gaps_at_ends(directory: Path) -> bool:
    """Tell whether an index names an offset between a closed segment's last batch and the next."""
    paths = sorted(directory.glob("*.log"))
    for path, following in pairwise(paths):
        base_offset, bound = int(path.stem), int(following.stem)
        *_, last = placed_batches(path)
        gap = range(last.summary.last_offset + 1, bound)
        for suffix, layout, field in (
            (".index", OFFSET_POSITION, 0),
            (".timeindex", TIME_OFFSET, 1),
        ):
            data = path.with_suffix(suffix)
            content = data.read_bytes() if data.exists() else b""
            whole = content[: len(content) // layout.size * layout.size]
            if any(base_offset + entry[field] in gap for entry in layout.iter_unpack(whole)):
                return True
    return False


@settings(max_examples=20)
@given(st.data(), logs_with_forgeries(), st.booleans())
def test_no_index_changes_what_is_read(
    data: st.DataObject, log: GeneratedLog, is_clean: bool
) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        builder = LogBuilder(temporary)
        bare: dict[str, Any] = {"index": False, "time_index": False, "transaction_index": False}
        segments = [
            SegmentSpec(batches, base_offset=0 if place == 0 else None, **bare)
            for place, batches in enumerate(log.segments)
        ]
        directory = builder.partition("t", 0, segments, leader_epochs=[], topic_id="")
        if is_clean:
            builder.clean_shutdown()
        chance = data.draw(
            st.tuples(st.integers(0, 40), st.integers(0, 60), st.integers(0, 2000)), "range"
        )
        time = data.draw(timestamps_ms(), "time")
        expected = answers(builder.path, chance)
        by_time = answers_by_time(builder.path, time)
        assert [record["offset"] for record in expected["rows read_uncommitted FAILFAST"]] == [
            row.offset for row in log.model.rows()
        ]

        lies = []
        for path in sorted(directory.glob("*.log")):
            base_offset = int(path.stem)
            files = data.draw(hostile_files(directory, base_offset), path.name)
            for suffix, content in files.items():
                if content is not None:
                    (directory / segment_file_name(base_offset, suffix)).write_bytes(content)
            if is_borne_out_lie(directory, base_offset, files[".timeindex"]):
                lies.append(str(directory / segment_file_name(base_offset, ".timeindex")))
        for name in ("leader-epoch-checkpoint", "partition.metadata"):
            (directory / name).write_bytes(data.draw(GARBAGE, name))
        for name in TOP_FILES:
            (builder.path / name).write_bytes(data.draw(GARBAGE, name))

        is_strict = not names_gaps_at_ends(directory)
        assert answers(builder.path, chance, fail_on_data_loss=is_strict) == expected
        if not lies:
            assert answers_by_time(builder.path, time, fail_on_data_loss=is_strict) == by_time
            return
        found = {
            finding.path for finding in verify(temporary) if finding.kind is FindingKind.TIME_INDEX
        }
        assert found


@settings(max_examples=20)
@given(st.integers(1, 9), st.booleans())
def test_an_entry_that_points_at_a_forged_batch_is_not_believed(
    base_offset: int, is_clean: bool
) -> None:
    """What the search above meets seldom: an entry that is right about a batch in a value."""
    forged = v2_batch([RecordSpec(value=b"forged")] * 3, base_offset=base_offset)
    first = v2_batch([RecordSpec(value=forged)], base_offset=0)
    second = v2_batch([RecordSpec(value=b"x")] * 3, base_offset=1)
    index = OFFSET_POSITION.pack(base_offset + 2, first.index(forged))
    with tempfile.TemporaryDirectory() as temporary:
        builder = LogBuilder(temporary)
        builder.partition("t", 0, [SegmentSpec([first, second], base_offset=0, index=index)])
        if is_clean:
            builder.clean_shutdown()
        log = open_one(builder.path)
        assert log.log_end_offset == 4
        for start in range(5):
            found = column(log.scan(options=scan_options(start=start)), "offset")
            assert found == list(range(start, 4))
