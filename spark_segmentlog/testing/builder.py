"""A Kafka log directory, file by file, as a broker (or its crash) leaves it.

::

    from spark_segmentlog.testing.builder import COMMIT, LogBuilder, RecordSpec, SegmentSpec
    from spark_segmentlog.testing.builder import control_batch, v2_batch

    log = LogBuilder(tmp_path / "logs")
    log.partition(
        "orders",
        0,
        [
            [v2_batch([RecordSpec(key=b"k", value=b"v"), RecordSpec(value=b"")], codec="lz4")],
            SegmentSpec([v2_batch([RecordSpec(value=b"x")], base_offset=2)], tail=bytes(4096)),
        ],
    )
    log.high_watermarks({("orders", 0): 3})
    log.clean_shutdown()

A partition is a list of segments, a segment a list of batches (or a `SegmentSpec`, which can tear,
pad and rename), a batch the bytes that `v2_batch`, `control_batch`, `legacy_message_set` and their
like return. Indexes, transaction indexes, snapshots and `leader-epoch-checkpoint` follow from the
batches by Kafka's rules; each can be left out, zero-filled, or replaced by other bytes.
"""

from __future__ import annotations

import base64
import hashlib
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import crc32c

from spark_segmentlog.testing.batches import (
    ABORT,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    CODECS,
    COMMIT,
    DEFAULT_TIMESTAMP_MS,
    BatchSummary,
    RecordSpec,
    compress,
    control_batch,
    legacy_message,
    legacy_message_set,
    legacy_wrapper,
    summarize_batch,
    unsigned_varint,
    v2_batch,
    v2_record,
    varint,
)

__all__ = [
    "ABORT",
    "ATTRIBUTE_CONTROL",
    "ATTRIBUTE_DELETE_HORIZON",
    "ATTRIBUTE_LOG_APPEND_TIME",
    "ATTRIBUTE_TRANSACTIONAL",
    "AbortedTransactionSpec",
    "BatchSummary",
    "CODECS",
    "COMMIT",
    "DEFAULT_TIMESTAMP_MS",
    "LogBuilder",
    "ProducerStateSpec",
    "RecordSpec",
    "SegmentSpec",
    "compress",
    "control_batch",
    "legacy_message",
    "legacy_message_set",
    "legacy_wrapper",
    "offset_index_bytes",
    "producer_snapshot_bytes",
    "segment_file_name",
    "summarize_batch",
    "time_index_bytes",
    "transaction_index_bytes",
    "unsigned_varint",
    "v2_batch",
    "v2_record",
    "varint",
]

INDEX_INTERVAL_BYTES = 4096

_OFFSET_INDEX_ENTRY = struct.Struct(">ii")
_TIME_INDEX_ENTRY = struct.Struct(">qi")
_TRANSACTION_INDEX_ENTRY = struct.Struct(">hqqqq")
_PRODUCER_ENTRY = struct.Struct(">qhiqiqiq")
_CHECKPOINT_VERSION = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortedTransactionSpec:
    """One entry of a `.txnindex`: `last_offset` is that of the abort marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStateSpec:
    """One entry of a `.snapshot` file; -1 as `current_txn_first_offset` says that none is open."""

    producer_id: int
    producer_epoch: int = 0
    last_sequence: int = -1
    last_offset: int = -1
    offset_delta: int = 0
    timestamp_ms: int = -1
    coordinator_epoch: int = -1
    current_txn_first_offset: int = -1


@dataclass(frozen=True, slots=True)
class SegmentSpec:
    """One segment, and how it differs from what a clean shutdown leaves.

    Parameters
    ----------
    batches : sequence of bytes
        What the `.log` holds; bytes that are no batch are written, but not indexed.
    base_offset : int, optional
        Names the files; base offset of the first batch where not given, or where the segment
        before ends if that is a wrapper.
    tail : bytes
        After the batches: zeros of a preallocated file, half a batch, rubbish.
    cut_bytes : int
        Taken off the end of the `.log`; its indexes stay whole.
    index, time_index, transaction_index : bool or bytes
        True: by Kafka's rules. False: no file. Bytes: these.
    final_time_entry : bool
        Whether the `.timeindex` ends with the segment's largest timestamp, as after a roll or a
        clean shutdown; a crash leaves it without.
    index_size_bytes : int, optional
        Zero-fills both indexes up to this size, as preallocation does.
    index_interval_bytes : int
        An entry is added once more than this was appended since the last.
    suffix : str
        After the names of all its files: ``.deleted``, ``.cleaned``, ``.swap``.
    """

    batches: Sequence[bytes]
    base_offset: int | None = None
    tail: bytes = b""
    cut_bytes: int = 0
    index: bool | bytes = True
    time_index: bool | bytes = True
    transaction_index: bool | bytes = True
    final_time_entry: bool = True
    index_size_bytes: int | None = None
    index_interval_bytes: int = INDEX_INTERVAL_BYTES
    suffix: str = ""


class LogBuilder:
    """Builds one log directory (one of a broker's `log.dirs`).

    Parameters
    ----------
    path : path-like
        Created, with its parents, where it does not exist.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)

    def partition(
        self,
        topic: str,
        partition: int = 0,
        segments: Sequence[SegmentSpec | Sequence[bytes]] = (),
        *,
        leader_epochs: Sequence[tuple[int, int]] | None = None,
        topic_id: str | None = None,
        snapshots: bool | Mapping[int, Sequence[ProducerStateSpec]] = False,
        directory_suffix: str = "",
    ) -> Path:
        """Write one partition directory.

        Parameters
        ----------
        topic : str
        partition : int
        segments : sequence of SegmentSpec or of lists of batches
            In the order of their offsets. A segment without batches starts where the one before it
            ends, unless its `SegmentSpec` has a base offset.
        leader_epochs : sequence of (epoch, start offset), optional
            ``[(0, first base offset)]`` where not given; no file for an empty one.
        topic_id : str, optional
            Of `partition.metadata`, URL-safe base64; made from the topic where not given, no file
            for an empty text.
        snapshots : bool or mapping
            True: the producer state at every segment's start and at the end, as a clean shutdown
            leaves it. A mapping gives entries by offset.
        directory_suffix : str
            After the folder's name: ``.<uuid>-delete``.

        Returns
        -------
        pathlib.Path
            The partition directory.
        """
        directory = self.path / f"{topic}-{partition}{directory_suffix}"
        directory.mkdir(exist_ok=True)
        specs = _with_base_offsets(segments)
        state = _ProducerStates()
        for spec in specs:
            if snapshots is True:
                _write_snapshot(directory, _base_offset(spec), state.entries())
            _write_segment(directory, spec, state)
        if snapshots is True:
            _write_snapshot(directory, state.next_offset, state.entries())
        elif snapshots:
            for offset, entries in snapshots.items():
                _write_snapshot(directory, offset, entries)
        if leader_epochs is None:
            leader_epochs = [(0, _base_offset(specs[0]) if specs else 0)]
        if leader_epochs:
            rows = [f"{epoch} {start}" for epoch, start in leader_epochs]
            _write_checkpoint(directory / "leader-epoch-checkpoint", rows)
        if topic_id != "":
            _write_partition_metadata(directory, topic_id or default_topic_id(topic))
        return directory

    def log_start_offsets(self, offsets: Mapping[tuple[str, int], int]) -> Path:
        """Write `log-start-offset-checkpoint`."""
        return self._offset_checkpoint("log-start-offset-checkpoint", offsets)

    def recovery_points(self, offsets: Mapping[tuple[str, int], int]) -> Path:
        """Write `recovery-point-offset-checkpoint`."""
        return self._offset_checkpoint("recovery-point-offset-checkpoint", offsets)

    def high_watermarks(self, offsets: Mapping[tuple[str, int], int]) -> Path:
        """Write `replication-offset-checkpoint`."""
        return self._offset_checkpoint("replication-offset-checkpoint", offsets)

    def clean_shutdown(self, broker_epoch: int = 1) -> Path:
        """Write `.kafka_cleanshutdown`."""
        path = self.path / ".kafka_cleanshutdown"
        path.write_text(f'{{"version":0,"brokerEpoch":{broker_epoch}}}')
        return path

    def meta_properties(
        self,
        *,
        cluster_id: str = "AF7U93bZSnOx6Nvb5YdmtA",
        node_id: int = 1,
        directory_id: str = "TjoZEKPU_jI_qMKtwYXamw",
    ) -> Path:
        """Write `meta.properties`, which says that the directory belongs to a cluster."""
        path = self.path / "meta.properties"
        lines = [
            "#",
            "#Fri Nov 27 20:59:02 UTC 2026",
            f"node.id={node_id}",
            f"directory.id={directory_id}",
            "version=1",
            f"cluster.id={cluster_id}",
        ]
        path.write_text("\n".join(lines) + "\n")
        return path

    def _offset_checkpoint(self, name: str, offsets: Mapping[tuple[str, int], int]) -> Path:
        rows = [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()]
        return _write_checkpoint(self.path / name, rows)


def segment_file_name(base_offset: int, suffix: str = ".log") -> str:
    """Name a segment's file: 20 digits and the suffix."""
    return f"{base_offset:020d}{suffix}"


def default_topic_id(topic: str) -> str:
    """Make a topic id that is always the same for a topic's name."""
    digest = hashlib.sha256(topic.encode()).digest()[:16]
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


# Index files


def offset_index_bytes(
    batches: Sequence[bytes], base_offset: int, *, interval_bytes: int = INDEX_INTERVAL_BYTES
) -> bytes:
    """Build an `.index`: (last offset relative to the base, position) of each indexed batch."""
    return b"".join(
        _OFFSET_INDEX_ENTRY.pack(place.summary.last_offset - base_offset, place.position)
        for place in _placed(batches, interval_bytes)
        if place.indexed
    )


def time_index_bytes(
    batches: Sequence[bytes],
    base_offset: int,
    *,
    interval_bytes: int = INDEX_INTERVAL_BYTES,
    final_entry: bool = True,
) -> bytes:
    """Build a `.timeindex`: (running maximum, relative offset of the batch's last record)."""
    out = b""
    largest, offset, last_written = -1, base_offset, -1
    for place in _placed(batches, interval_bytes):
        if place.summary.max_timestamp > largest:
            largest, offset = place.summary.max_timestamp, place.summary.last_offset
        if place.indexed and largest > last_written:
            out += _TIME_INDEX_ENTRY.pack(largest, offset - base_offset)
            last_written = largest
    if final_entry and largest > last_written:
        out += _TIME_INDEX_ENTRY.pack(largest, offset - base_offset)
    return out


def transaction_index_bytes(entries: Sequence[AbortedTransactionSpec]) -> bytes:
    """Build a `.txnindex`."""
    return b"".join(
        _TRANSACTION_INDEX_ENTRY.pack(
            0, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset
        )
        for entry in entries
    )


def producer_snapshot_bytes(entries: Sequence[ProducerStateSpec]) -> bytes:
    """Build a producer snapshot of version 1, its CRC-32C over what follows it."""
    body = struct.pack(">i", len(entries)) + b"".join(
        _PRODUCER_ENTRY.pack(
            entry.producer_id,
            entry.producer_epoch,
            entry.last_sequence,
            entry.last_offset,
            entry.offset_delta,
            entry.timestamp_ms,
            entry.coordinator_epoch,
            entry.current_txn_first_offset,
        )
        for entry in entries
    )
    return struct.pack(">hI", 1, crc32c.crc32c(body)) + body


@dataclass(frozen=True, slots=True)
class _PlacedBatch:
    position: int
    indexed: bool
    data: bytes
    summary: BatchSummary


def _placed(batches: Sequence[bytes], interval_bytes: int) -> Iterator[_PlacedBatch]:
    """Walk whole batches with their positions; bytes that are none move the position only."""
    position, since_last = 0, 0
    for block in batches:
        for data, summary in _split(block):
            indexed = since_last > interval_bytes
            if indexed:
                since_last = 0
            if summary is not None:
                yield _PlacedBatch(position, indexed, data, summary)
            position += len(data)
            since_last += len(data)


def _split(block: bytes) -> Iterator[tuple[bytes, BatchSummary | None]]:
    """Cut bytes that may hold several batches or messages into single ones."""
    start = 0
    while start < len(block):
        summary = summarize_batch(block[start:])
        if summary is None or not 17 <= summary.size_bytes <= len(block) - start:
            yield block[start:], None
            return
        yield block[start : start + summary.size_bytes], summary
        start += summary.size_bytes


@dataclass(slots=True)
class _ProducerStates:
    """Producers and transactions as a broker tracks them while it appends."""

    next_offset: int = 0
    _entries: dict[int, ProducerStateSpec] = field(default_factory=dict)

    def entries(self) -> list[ProducerStateSpec]:
        return list(self._entries.values())

    def append(self, data: bytes, summary: BatchSummary) -> AbortedTransactionSpec | None:
        """Take one batch; an abort marker that ends an open transaction gives its index entry."""
        self.next_offset = summary.last_offset + 1
        if summary.producer_id < 0:
            return None
        old = self._entries.get(
            summary.producer_id, ProducerStateSpec(producer_id=summary.producer_id)
        )
        if summary.attributes & ATTRIBUTE_CONTROL:
            return self._end_transaction(old, data, summary)
        delta = summary.last_offset - summary.base_offset
        first = old.current_txn_first_offset
        if summary.attributes & ATTRIBUTE_TRANSACTIONAL and first < 0:
            first = summary.base_offset
        self._entries[summary.producer_id] = replace(
            old,
            producer_epoch=summary.producer_epoch,
            last_sequence=-1 if summary.base_sequence < 0 else summary.base_sequence + delta,
            last_offset=summary.last_offset,
            offset_delta=delta,
            timestamp_ms=summary.max_timestamp,
            current_txn_first_offset=first,
        )
        return None

    def _end_transaction(
        self, old: ProducerStateSpec, data: bytes, summary: BatchSummary
    ) -> AbortedTransactionSpec | None:
        # Markers are never compressed: the kind is the second number of the key, which starts
        # after length, attributes, two deltas and the key's length, a byte each.
        kind = int.from_bytes(data[61 + 5 + 2 : 61 + 5 + 4])
        is_emptied = int.from_bytes(data[57:61]) == 0
        if is_emptied or kind not in (ABORT, COMMIT):
            return None
        first = old.current_txn_first_offset
        if old.producer_epoch != summary.producer_epoch:
            # A new epoch starts its sequence numbers again, so the last batch is forgotten.
            old = replace(old, last_sequence=-1, last_offset=-1, offset_delta=0)
        self._entries[summary.producer_id] = replace(
            old,
            producer_epoch=summary.producer_epoch,
            timestamp_ms=summary.max_timestamp,
            coordinator_epoch=int.from_bytes(data[-5:-1]),
            current_txn_first_offset=-1,
        )
        if kind != ABORT or first < 0:
            return None
        still_open = [
            entry.current_txn_first_offset
            for entry in self._entries.values()
            if entry.current_txn_first_offset >= 0
        ]
        return AbortedTransactionSpec(
            producer_id=summary.producer_id,
            first_offset=first,
            last_offset=summary.last_offset,
            last_stable_offset=min(still_open, default=summary.last_offset + 1),
        )


# Files


def _with_base_offsets(
    segments: Sequence[SegmentSpec | Sequence[bytes]],
) -> list[SegmentSpec]:
    specs = []
    next_offset = 0
    for segment in segments:
        spec = segment if isinstance(segment, SegmentSpec) else SegmentSpec(segment)
        if spec.base_offset is None:
            first = next(_placed(spec.batches, 0), None)
            # A wrapper's header tells its last offset, and a roll names the log end offset.
            is_known = first is not None and not _is_wrapper(first.summary)
            base = first.summary.base_offset if first is not None and is_known else next_offset
            spec = replace(spec, base_offset=base)
        for place in _placed(spec.batches, 0):
            next_offset = place.summary.last_offset + 1
        specs.append(spec)
    return specs


def _is_wrapper(summary: BatchSummary) -> bool:
    return summary.magic < 2 and summary.attributes & 0x07 != 0


def _base_offset(spec: SegmentSpec) -> int:
    assert spec.base_offset is not None
    return spec.base_offset


def _write_segment(directory: Path, spec: SegmentSpec, state: _ProducerStates) -> None:
    base = _base_offset(spec)
    log = b"".join(spec.batches) + spec.tail
    _write(directory, spec, ".log", log[: len(log) - spec.cut_bytes])
    interval = spec.index_interval_bytes
    index = offset_index_bytes(spec.batches, base, interval_bytes=interval)
    _write_index(directory, spec, ".index", spec.index, index)
    times = time_index_bytes(
        spec.batches, base, interval_bytes=interval, final_entry=spec.final_time_entry
    )
    _write_index(directory, spec, ".timeindex", spec.time_index, times)
    aborted = []
    for place in _placed(spec.batches, interval):
        entry = state.append(place.data, place.summary)
        if entry is not None:
            aborted.append(entry)
    if isinstance(spec.transaction_index, bytes):
        _write(directory, spec, ".txnindex", spec.transaction_index)
    elif spec.transaction_index and aborted:
        _write(directory, spec, ".txnindex", transaction_index_bytes(aborted))


def _write_index(
    directory: Path, spec: SegmentSpec, suffix: str, wanted: bool | bytes, entries: bytes
) -> None:
    if isinstance(wanted, bytes):
        _write(directory, spec, suffix, wanted)
    elif wanted:
        _write(directory, spec, suffix, entries.ljust(spec.index_size_bytes or 0, b"\x00"))


def _write(directory: Path, spec: SegmentSpec, suffix: str, data: bytes) -> None:
    name = segment_file_name(_base_offset(spec), suffix) + spec.suffix
    (directory / name).write_bytes(data)


def _write_snapshot(directory: Path, offset: int, entries: Sequence[ProducerStateSpec]) -> None:
    path = directory / segment_file_name(offset, ".snapshot")
    path.write_bytes(producer_snapshot_bytes(entries))


def _write_checkpoint(path: Path, rows: Sequence[str]) -> Path:
    path.write_text("\n".join([str(_CHECKPOINT_VERSION), str(len(rows)), *rows]) + "\n")
    return path


def _write_partition_metadata(directory: Path, topic_id: str) -> None:
    (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
