"""Log files to measure on, made without any code of the library.

Keys of 16 and values of 100 bytes, where nothing else is asked for, one millisecond apart, in
batches of magic 2, or in messages of magic 1. Batches of magic 2 that hold the same number of
records differ in their first 61 bytes and their content, which is drawn from a pool of variants:
compressing, framing and the CRC are done once a variant and once a batch, so that a gigabyte takes
seconds. Indexes follow a broker's rules:
an entry every 4096 bytes of log, a last time-index entry for the largest timestamp.
"""

from __future__ import annotations

import gzip
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import cramjam
import crc32c
import pyarrow as pa

from tests.bench import message_sets

KEY_BYTES = 16
VALUE_BYTES = 100
FIRST_TIMESTAMP_MS = 1_700_000_000_000
INDEX_INTERVAL_BYTES = 4096
PRODUCERS_COUNT = 4
ABORT_EVERY = 50
VARIANTS_COUNT = 64
# Different messages of magic 1; more than a window of lz4 holds.
MESSAGES_COUNT = 5_000
SEGMENT_SUFFIXES = (".log", ".index", ".timeindex")

# base offset, length, leader epoch, magic, crc | attributes .. records count, which the crc covers
_PREFIX = struct.Struct(">qiibI")
_COVERED = struct.Struct(">hiqqqhii")
_OFFSET_ENTRY = struct.Struct(">ii")
_TIME_ENTRY = struct.Struct(">qi")
# A record with key (version, type) and value (version, coordinator epoch), its lengths before them.
_MARKER = struct.Struct(">5BhhBhiB")
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_CODEC_IDS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class LogShape:
    """What a generated partition looks like.

    Attributes
    ----------
    records_count
        Records in the whole partition.
    records_per_batch
        Records of every batch, the last included, so `records_count` is a multiple of it.
    segment_bytes
        A segment is rolled before a batch that would make it larger than this.
    segment_records
        A segment is rolled after this many records; 0 for no such limit.
    transaction_batches
        Batches of each transaction, of `PRODUCERS_COUNT` producers in turns, each with a marker
        after it, one in `ABORT_EVERY` an ABORT; 0 for none. No transaction index is made.
    magic
        Message format, 2 or 1; in 1 what is uncompressed has one record a batch.
    """

    records_count: int
    records_per_batch: int
    codec: str = "none"
    segment_bytes: int = 1 << 30
    segment_records: int = 0
    transaction_batches: int = 0
    value_bytes: int = VALUE_BYTES
    magic: int = 2
    topic: str = "bench"

    @property
    def name(self) -> str:
        batches = (self.records_count, self.records_per_batch, self.codec)
        segments = (self.segment_bytes, self.segment_records, self.transaction_batches)
        return "-".join(map(str, (*batches, *segments, self.value_bytes, self.magic)))


def generate_partition(cache: Path, shape: LogShape) -> Path:
    """Return a log directory with one partition of that shape, made on first use.

    The directory carries the mark of a clean shutdown, so that its indexes are trusted.
    """
    log_directory = cache / shape.name
    if log_directory.is_dir():
        return log_directory
    unfinished = cache / f"{shape.name}.unfinished"
    shutil.rmtree(unfinished, ignore_errors=True)
    partition = unfinished / f"{shape.topic}-0"
    partition.mkdir(parents=True)
    segment: _SegmentWriter | None = None
    batches = _batches(shape) if shape.magic == 2 else _message_sets(shape)
    for base_offset, last_offset, batch in batches:
        if segment is None or segment.is_full(len(batch), base_offset, shape):
            if segment is not None:
                segment.close()
            segment = _SegmentWriter(partition, base_offset)
        segment.append(batch, last_offset)
    if segment is not None:
        segment.close()
    write_clean_shutdown(unfinished)
    unfinished.rename(log_directory)
    return log_directory


def write_clean_shutdown(log_directory: Path) -> None:
    """Write the mark by which a reader knows that indexes are complete."""
    (log_directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":-1}')


def batch_templates(
    records_per_batch: int, codec: str, value_bytes: int = VALUE_BYTES
) -> list[bytes]:
    """Return the records sections, compressed, that batches are made of."""
    draw, words = _vocabulary()
    compress = _COMPRESS[codec]
    return [
        compress(
            b"".join(_record(draw, words, delta, value_bytes) for delta in range(records_per_batch))
        )
        for _ in range(VARIANTS_COUNT)
    ]


def batch(
    records: bytes,
    base_offset: int,
    records_per_batch: int,
    codec: str,
    *,
    producer_id: int = -1,
    base_sequence: int = -1,
) -> bytes:
    """Frame one batch around a records section.

    With a producer id it is of a transaction; without a sequence it is a marker then.
    """
    last_delta = records_per_batch - 1
    first_timestamp = FIRST_TIMESTAMP_MS + base_offset
    last_timestamp = first_timestamp + last_delta
    attributes = _CODEC_IDS[codec]
    epoch = -1
    if producer_id >= 0:
        attributes |= _TRANSACTIONAL | (_CONTROL if base_sequence < 0 else 0)
        epoch = 0
    producer = (producer_id, epoch, base_sequence)
    covered = _COVERED.pack(
        attributes, last_delta, first_timestamp, last_timestamp, *producer, records_per_batch
    )
    crc = crc32c.crc32c(records, crc32c.crc32c(covered))
    length = 9 + len(covered) + len(records)
    return _PREFIX.pack(base_offset, length, 0, 2, crc) + covered + records


class _SegmentWriter:
    """A segment being written: its log, and the index entries so far."""

    def __init__(self, directory: Path, base_offset: int) -> None:
        self._base_offset = base_offset
        self._stem = directory / f"{base_offset:020d}"
        self._log = open(f"{self._stem}.log", "wb", buffering=1 << 20)  # noqa: SIM115
        self._size_bytes = 0
        self._since_entry_bytes = 0
        self._last_offset = base_offset - 1
        self._offset_index = bytearray()
        self._time_index = bytearray()

    def is_full(self, batch_bytes: int, base_offset: int, shape: LogShape) -> bool:
        if shape.segment_records and base_offset - self._base_offset >= shape.segment_records:
            return True
        return self._size_bytes + batch_bytes > shape.segment_bytes

    def append(self, batch: bytes, last_offset: int) -> None:
        # A broker's rule: an entry before the batch, once enough bytes lie after the last one.
        if self._since_entry_bytes > INDEX_INTERVAL_BYTES:
            self._offset_index += _OFFSET_ENTRY.pack(
                last_offset - self._base_offset, self._size_bytes
            )
            self._append_time_entry(self._last_offset)
            self._since_entry_bytes = 0
        self._log.write(batch)
        self._size_bytes += len(batch)
        self._since_entry_bytes += len(batch)
        self._last_offset = last_offset

    def close(self) -> None:
        self._log.close()
        self._append_time_entry(self._last_offset)
        Path(f"{self._stem}.index").write_bytes(self._offset_index)
        Path(f"{self._stem}.timeindex").write_bytes(self._time_index)

    def _append_time_entry(self, offset: int) -> None:
        entry = _TIME_ENTRY.pack(FIRST_TIMESTAMP_MS + offset, offset - self._base_offset)
        if self._time_index[-_TIME_ENTRY.size :] != entry:
            self._time_index += entry


def _batches(shape: LogShape) -> Iterator[tuple[int, int, bytes]]:
    """Give base and last offset of each batch of magic 2, and its bytes."""
    templates = batch_templates(shape.records_per_batch, shape.codec, shape.value_bytes)
    base_offset = ended = 0
    for index in range(shape.records_count // shape.records_per_batch):
        records = templates[index * 7 % VARIANTS_COUNT]
        producer_id = base_sequence = -1
        if shape.transaction_batches:
            turn, producer_id = divmod(index, PRODUCERS_COUNT)
            base_sequence = turn * shape.records_per_batch
        yield (
            base_offset,
            base_offset + shape.records_per_batch - 1,
            batch(
                records,
                base_offset,
                shape.records_per_batch,
                shape.codec,
                producer_id=producer_id,
                base_sequence=base_sequence,
            ),
        )
        base_offset += shape.records_per_batch
        if producer_id >= 0 and _ends_transaction(index, shape):
            ended += 1
            marker = _marker(base_offset, producer_id, is_commit=ended % ABORT_EVERY != 0)
            yield base_offset, base_offset, marker
            base_offset += 1


def _message_sets(shape: LogShape) -> Iterator[tuple[int, int, bytes]]:
    """Give base and last offset of each message of magic 1, or of each wrapper, and its bytes."""
    draw, words = _vocabulary()
    pool = [_key_and_value(draw, words, shape.value_bytes) for _ in range(MESSAGES_COUNT)]
    for base_offset in range(0, shape.records_count, shape.records_per_batch):
        timestamp_ms = FIRST_TIMESTAMP_MS + base_offset
        last_offset = base_offset + shape.records_per_batch - 1
        offsets = range(base_offset, last_offset + 1)
        records = [pool[offset % MESSAGES_COUNT] for offset in offsets]
        if shape.codec == "none":
            (record,) = records
            yield base_offset, base_offset, message_sets.message(base_offset, timestamp_ms, record)
        else:
            codec_id, compress = _CODEC_IDS[shape.codec], _COMPRESS[shape.codec]
            wrapped = message_sets.wrapper(base_offset, timestamp_ms, records, codec_id, compress)
            yield base_offset, last_offset, wrapped


def _ends_transaction(index: int, shape: LogShape) -> bool:
    """Tell whether a batch is the last one of its producer's transaction."""
    batches_count = shape.records_count // shape.records_per_batch
    turn = index // PRODUCERS_COUNT + 1
    return turn % shape.transaction_batches == 0 or index + PRODUCERS_COUNT >= batches_count


def _marker(base_offset: int, producer_id: int, *, is_commit: bool) -> bytes:
    record = _MARKER.pack(32, 0, 0, 0, 8, 0, int(is_commit), 12, 0, 0, 0)
    return batch(record, base_offset, 1, "none", producer_id=producer_id)


def _vocabulary() -> tuple[random.Random, list[bytes]]:
    draw = random.Random(7)
    return draw, [draw.randbytes(3).hex().encode() for _ in range(500)]


def _key_and_value(
    draw: random.Random, words: list[bytes], value_bytes: int
) -> tuple[bytes, bytes]:
    key = draw.randbytes(KEY_BYTES // 2).hex().encode()
    return key, b" ".join(draw.choices(words, k=value_bytes // 7 + 1))[:value_bytes]


def _record(draw: random.Random, words: list[bytes], delta: int, value_bytes: int) -> bytes:
    key, value = _key_and_value(draw, words, value_bytes)
    body = b"\0" + _varint(delta) * 2 + _varint(KEY_BYTES) + key
    body += _varint(value_bytes) + value + _varint(0)
    return _varint(len(body)) + body


def _varint(value: int) -> bytes:
    zigzag = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while zigzag > 0x7F:
        encoded.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    encoded.append(zigzag)
    return bytes(encoded)


def _xerial(data: bytes) -> bytes:
    blocks = [data[at : at + 32768] for at in range(0, len(data), 32768)]
    framed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for block in blocks:
        packed = bytes(cramjam.snappy.compress_raw(block))
        framed += struct.pack(">i", len(packed)) + packed
    return framed


_COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "none": lambda data: data,
    "gzip": lambda data: gzip.compress(data, 6),
    "snappy": _xerial,
    # Independent blocks and no checksums of blocks or content, as the Java client writes them.
    "lz4": lambda data: bytes(pa.compress(data, codec="lz4", asbytes=True)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data, 3)),
}
