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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spark_segmentlog.testing.batches import (
    ABORT,
    ATTRIBUTE_CONTROL,
    ATTRIBUTE_DELETE_HORIZON,
    ATTRIBUTE_LOG_APPEND_TIME,
    ATTRIBUTE_TRANSACTIONAL,
    COMMIT,
    DEFAULT_TIMESTAMP_MS,
    BatchSummary,
    RecordSpec,
    control_batch,
    summarize_batch,
    unsigned_varint,
    v2_batch,
    v2_record,
    varint,
)
from spark_segmentlog.testing.compression import CODECS, compress
from spark_segmentlog.testing.legacy import legacy_message, legacy_message_set, legacy_wrapper
from spark_segmentlog.testing.producer_states import ProducerStates
from spark_segmentlog.testing.side_files import (
    INDEX_INTERVAL_BYTES,
    AbortedTransactionSpec,
    ProducerStateSpec,
    offset_index_bytes,
    place_batches,
    producer_snapshot_bytes,
    time_index_bytes,
    transaction_index_bytes,
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

_CHECKPOINT_VERSION = 0


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
        state = ProducerStates()
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
            text = f"version: 0\ntopic_id: {topic_id or default_topic_id(topic)}"
            (directory / "partition.metadata").write_text(text)
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


# Files


def _with_base_offsets(
    segments: Sequence[SegmentSpec | Sequence[bytes]],
) -> list[SegmentSpec]:
    specs = []
    next_offset = 0
    for segment in segments:
        spec = segment if isinstance(segment, SegmentSpec) else SegmentSpec(segment)
        if spec.base_offset is None:
            first = next(place_batches(spec.batches, 0), None)
            # A wrapper's header tells its last offset, and a roll names the log end offset.
            is_known = first is not None and not _is_wrapper(first.summary)
            base = first.summary.base_offset if first is not None and is_known else next_offset
            spec = replace(spec, base_offset=base)
        for place in place_batches(spec.batches, 0):
            next_offset = place.summary.last_offset + 1
        specs.append(spec)
    return specs


def _is_wrapper(summary: BatchSummary) -> bool:
    return summary.magic < 2 and summary.attributes & 0x07 != 0


def _base_offset(spec: SegmentSpec) -> int:
    assert spec.base_offset is not None
    return spec.base_offset


def _write_segment(directory: Path, spec: SegmentSpec, state: ProducerStates) -> None:
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
    for place in place_batches(spec.batches, interval):
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
