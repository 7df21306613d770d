"""Scans of a tier in a local folder, against scans of the log directory that it was copied from."""

from __future__ import annotations

import base64
import json
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import cramjam

import spark_segmentlog
from spark_segmentlog.log.formats.producer_snapshot import format_producer_snapshot
from tests.bench.harness import Figure, Settings, ns_a_record, seconds, take_turns
from tests.bench.log_files import LogShape, generate_partition

RECORDS_COUNT = 2_000_000
RECORDS_PER_BATCH = 100
SEGMENT_BYTES = 128 << 20
CHUNK_BYTES = 4 << 20
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"


def tier_figures(settings: Settings) -> Iterator[Figure]:
    """Measure plain copies, plain chunks and compressed ones."""
    plain, zstd = _shape(settings, "none"), _shape(settings, "zstd")
    directory = generate_partition(settings.cache, plain)
    yield _figure("tier_copies", copy_of(directory, plain), directory, plain, settings)
    chunks = chunks_of(directory, plain, is_compressed=False)
    yield _figure("tier_plain_chunks", chunks, directory, plain, settings)
    chunks = chunks_of(directory, plain, is_compressed=True)
    batches = generate_partition(settings.cache, zstd)
    yield _figure("tier_zstd_chunks", chunks, batches, plain, settings)


def copy_of(log_directory: Path, shape: LogShape) -> Path:
    """Give the log in the layout of Kafka's ``LocalTieredStorage``, made on first use."""

    def fill(folder: Path) -> None:
        partition = folder / "kafka-tiered-storage" / f"{shape.topic}-0-{TOPIC_ID}"
        partition.mkdir(parents=True)
        for log in _logs(log_directory, shape):
            stem = f"{partition}/{log.stem}-{_segment_id(log)}"
            for suffix in (".log", ".index", ".timeindex"):
                shutil.copyfile(log.with_suffix(suffix), f"{stem}{suffix}")
            Path(f"{stem}.leader_epoch_checkpoint").write_bytes(_EPOCHS)
            Path(f"{stem}.snapshot").write_bytes(format_producer_snapshot([]))

    return _made_once(log_directory, "copies", fill)


def chunks_of(log_directory: Path, shape: LogShape, *, is_compressed: bool) -> Path:
    """Give the log in chunks, in the layout of the open plugin, made on first use."""

    def fill(folder: Path) -> None:
        partition = folder / f"{shape.topic}-{TOPIC_ID}" / "0"
        partition.mkdir(parents=True)
        logs = _logs(log_directory, shape)
        ends = [int(log.stem) for log in logs[1:]] + [shape.records_count]
        for log, end in zip(logs, ends, strict=True):
            _upload(log, f"{partition}/{log.stem}-{_segment_id(log)}", end, is_compressed)

    return _made_once(log_directory, "zstd-chunks" if is_compressed else "chunks", fill)


_EPOCHS = b"0\n1\n0 0\n"


def _shape(settings: Settings, codec: str) -> LogShape:
    return LogShape(
        records_count=settings.sized(RECORDS_COUNT, multiple_of=RECORDS_PER_BATCH),
        records_per_batch=RECORDS_PER_BATCH,
        segment_bytes=SEGMENT_BYTES,
        codec=codec,
    )


def _logs(log_directory: Path, shape: LogShape) -> list[Path]:
    return sorted((log_directory / f"{shape.topic}-0").glob("*.log"))


def _segment_id(log: Path) -> str:
    return log.stem.zfill(22)


def _made_once(log_directory: Path, name: str, fill: Callable[[Path], None]) -> Path:
    folder = log_directory.with_name(f"{log_directory.name}-{name}")
    if not folder.is_dir():
        unfinished = folder.with_name(f"{folder.name}.unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        fill(unfinished)
        unfinished.rename(folder)
    return folder


def _upload(log: Path, stem: str, end_offset: int, is_compressed: bool) -> None:
    data = log.read_bytes()
    chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    if is_compressed:
        chunks = [bytes(cramjam.zstd.compress(chunk, 3)) for chunk in chunks]
    places: dict[str, object] = {"transaction": None}
    indexes = b""
    for name, part in (
        ("offset", log.with_suffix(".index").read_bytes()),
        ("timestamp", log.with_suffix(".timeindex").read_bytes()),
        ("producerSnapshot", format_producer_snapshot([])),
        ("leaderEpoch", _EPOCHS),
    ):
        places[name] = {"position": len(indexes), "size": len(part)}
        indexes += part
    manifest = {
        "version": "1",
        "chunkIndex": {
            "originalChunkSize": CHUNK_BYTES,
            "originalFileSize": len(data),
            **_sizes([len(chunk) for chunk in chunks], is_compressed),
        },
        "segmentIndexes": places,
        "compression": is_compressed,
        "remoteLogSegmentMetadata": {
            "remoteLogSegmentId": {"id": _segment_id(log)},
            "startOffset": int(log.stem),
            "endOffset": end_offset - 1,
            "maxTimestampMs": -1,
            "segmentLeaderEpochs": {"0": int(log.stem)},
        },
    }
    Path(f"{stem}.log").write_bytes(b"".join(chunks))
    Path(f"{stem}.indexes").write_bytes(indexes)
    Path(f"{stem}.rsm-manifest").write_text(json.dumps(manifest))


def _sizes(sizes: list[int], is_compressed: bool) -> dict[str, object]:
    """Write the chunk sizes as the plugin does: their count, those before the last, the last."""
    if not is_compressed:
        first = {"type": "fixed", "transformedChunkSize": CHUNK_BYTES}
        return {**first, "finalTransformedChunkSize": sizes[-1]}
    coded = struct.pack(">i", len(sizes))
    if len(sizes) > 1:
        coded += struct.pack(">ib", 0, 4)
        coded += b"".join(struct.pack(">i", size) for size in sizes[:-1])
    coded += struct.pack(">i", sizes[-1])
    frame = bytes(cramjam.zstd.compress(coded, 3))
    return {"type": "variable", "transformedChunks": base64.b64encode(frame).decode()}


def _figure(name: str, store: Path, directory: Path, shape: LogShape, settings: Settings) -> Figure:
    remote, local = take_turns(
        [
            seconds(lambda: _scan(store, shape.records_count)),
            seconds(lambda: _scan(directory, shape.records_count)),
        ],
        settings.repetitions,
    )
    detail = (
        f"{ns_a_record(remote, shape.records_count)}; "
        f"log directory {ns_a_record(local, shape.records_count)}"
    )
    return Figure(name=name, value=remote.best / local.best, detail=detail)


def _scan(path: Path, records_count: int) -> None:
    rows = sum(batch.num_rows for batch in spark_segmentlog.read_arrow(str(path)))
    assert rows == records_count
