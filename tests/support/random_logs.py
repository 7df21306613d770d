"""Random partition logs of any shape that brokers have written, from a seed.

They hold few keys, tombstones and records without a key; every codec; formats 0 and 1 before
format 2; producers with sequences, transactions that commit, abort or stay open, markers in later
segments, with the epoch of the data or the next one; timestamps out of order, of the broker, none,
or before 1970; gaps within and between batches; empty segments.
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    control_batch,
    legacy_message_set,
    v2_batch,
)

TOPIC = "t"
START_MS = 1_700_000_000_000
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_LEGACY_CODECS = ("none", "none", "gzip", "snappy")
_KEYS = (*(b"k%d" % number for number in range(7)), b"")
_TRANSACTIONAL_IDS = (1, 2, 3)
_IDEMPOTENT_IDS = (101, 102)


@dataclass(slots=True)
class _Producer:
    epoch: int = 0
    next_sequence: int = 0
    is_open: bool = False


@dataclass(slots=True)
class RandomLog:
    """A log that grows by segments.

    Attributes
    ----------
    next_offset : int
        Where it ends.
    clock_ms : int
        About the time of what comes next.
    """

    draw: random.Random
    next_offset: int = 0
    clock_ms: int = START_MS
    leader_epoch: int = 0
    legacy_segments: int = 0
    has_transactions: bool = True
    has_early_records: bool = False
    codecs: tuple[str, ...] = CODECS
    index_interval_bytes: int = 4096
    _producers: dict[int, _Producer] = field(default_factory=dict)
    _segments_count: int = 0

    @classmethod
    def make(cls, draw: random.Random) -> RandomLog:
        """Begin a log of a random kind."""
        return cls(
            draw,
            next_offset=draw.choice((0, 0, 17, 5_000_000_000)),
            legacy_segments=draw.choice((0, 0, 0, 1, 2)),
            has_transactions=draw.random() < 0.7,
            has_early_records=draw.random() < 0.1,
            codecs=draw.choice((CODECS[:1], CODECS)),
            index_interval_bytes=draw.choice((0, 100, 4096)),
        )

    def segments(self, count: int) -> list[SegmentSpec]:
        """Grow by some segments."""
        return [self._segment() for _ in range(count)]

    def _segment(self) -> SegmentSpec:
        draw = self.draw
        base_offset = self.next_offset
        magic = draw.choice((0, 1)) if self._segments_count < self.legacy_segments else 2
        self._segments_count += 1
        count = 0 if draw.random() < 0.03 else draw.randrange(1, 7)
        batches = [self._legacy(magic) if magic < 2 else self._current() for _ in range(count)]
        if magic < 2:
            # Kafka's cleaner fails where the last batch of a round is of an old format and goes.
            batches.append(self._kept_message(magic))
        elif not batches or draw.random() < 0.2:
            self.next_offset += draw.randrange(1, 4)
        if draw.random() < 0.1:
            self.leader_epoch += 1
        return SegmentSpec(
            batches, base_offset=base_offset, index_interval_bytes=self.index_interval_bytes
        )

    def _current(self) -> bytes:
        draw = self.draw
        if draw.random() < 0.15:
            self.next_offset += draw.randrange(1, 5)
        if not self.has_transactions or draw.random() < 0.4:
            return self._data_of(draw.choice(_IDEMPOTENT_IDS) if draw.random() < 0.4 else None)
        producer_id = draw.choice(_TRANSACTIONAL_IDS)
        is_open = self._producer(producer_id).is_open
        if draw.random() < (0.5 if is_open else 0.05):
            return self._marker(producer_id)
        return self._data_of(producer_id)

    def _producer(self, producer_id: int) -> _Producer:
        return self._producers.setdefault(producer_id, _Producer())

    def _data_of(self, producer_id: int | None) -> bytes:
        draw = self.draw
        records = self._records(headers=True)
        deltas = list(range(len(records)))
        last_delta = deltas[-1]
        if draw.random() < 0.2:
            # As a cleaner leaves it: records gone from the middle and the end.
            last_delta += draw.randrange(3)
            deltas = sorted(draw.sample(range(last_delta + 1), len(records)))
        specs = [
            RecordSpec(
                key=record.key,
                value=record.value,
                timestamp_ms=record.timestamp_ms,
                headers=record.headers,
                offset_delta=delta,
            )
            for record, delta in zip(records, deltas, strict=True)
        ]
        fields: dict[str, Any] = {}
        if producer_id is not None:
            fields = self._take_sequences(producer_id, last_delta + 1)
        append_time = draw.random() < 0.1
        batch = v2_batch(
            specs,
            base_offset=self.next_offset,
            last_offset_delta=last_delta,
            codec=draw.choice(self.codecs),
            log_append_time=append_time,
            max_timestamp=self.clock_ms if append_time else None,
            transactional=producer_id in _TRANSACTIONAL_IDS,
            partition_leader_epoch=self.leader_epoch,
            **fields,
        )
        self.next_offset += last_delta + 1
        return batch

    def _take_sequences(self, producer_id: int, count: int) -> dict[str, int]:
        producer = self._producer(producer_id)
        if not producer.is_open and self.draw.random() < 0.1:
            producer.epoch, producer.next_sequence = producer.epoch + 1, 0
        sequence = producer.next_sequence
        producer.next_sequence += count
        producer.is_open = producer_id in _TRANSACTIONAL_IDS
        return {
            "producer_id": producer_id,
            "producer_epoch": producer.epoch,
            "base_sequence": sequence,
        }

    def _marker(self, producer_id: int) -> bytes:
        producer = self._producer(producer_id)
        if self.draw.random() < 0.3:
            producer.epoch, producer.next_sequence = producer.epoch + 1, 0
        producer.is_open = False
        batch = control_batch(
            self.draw.choice((ABORT, COMMIT)),
            base_offset=self.next_offset,
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            timestamp_ms=self._timestamp(),
            partition_leader_epoch=self.leader_epoch,
        )
        self.next_offset += 1
        return batch

    def _legacy(self, magic: int) -> bytes:
        draw = self.draw
        records = self._records(headers=False)
        batch = legacy_message_set(
            magic,
            records,
            base_offset=self.next_offset,
            codec=draw.choice(_LEGACY_CODECS),
            log_append_time_ms=self.clock_ms if magic == 1 and draw.random() < 0.15 else None,
        )
        self.next_offset += len(records)
        return batch

    def _kept_message(self, magic: int) -> bytes:
        offset = self.next_offset
        self.next_offset += 1
        record = RecordSpec(key=b"own%d" % offset, value=b"v", timestamp_ms=self._timestamp())
        return legacy_message_set(magic, [record], base_offset=offset)

    def _records(self, *, headers: bool) -> list[RecordSpec]:
        return [self._record(headers=headers) for _ in range(self.draw.randrange(1, 6))]

    def _record(self, *, headers: bool) -> RecordSpec:
        draw = self.draw
        value = None if draw.random() < 0.25 else draw.randbytes(draw.randrange(40))
        has_headers = headers and draw.random() < 0.3
        return RecordSpec(
            key=None if draw.random() < 0.05 else draw.choice(_KEYS),
            value=value,
            timestamp_ms=self._timestamp(),
            headers=[("h", None), ("\u00e9", draw.randbytes(3))] if has_headers else [],
        )

    def _timestamp(self) -> int:
        self.clock_ms += self.draw.randrange(200)
        if self.has_early_records and self.draw.random() < 0.1:
            return -self.draw.randrange(2, 1000)
        if self.draw.random() < 0.03:
            return -1
        return self.clock_ms + self.draw.randrange(-400, 400)

    def write(self, log_directory: Path, segments: list[SegmentSpec], *, clean: bool) -> Path:
        """Write segments as a whole log; gives the partition directory."""
        builder = LogBuilder(log_directory)
        directory = builder.partition(TOPIC, 0, segments, snapshots=clean)
        if clean:
            builder.clean_shutdown()
        self._set_modified_times(directory)
        return directory

    def _set_modified_times(self, directory: Path) -> None:
        paths = sorted(directory.glob("*.log"))
        for number, path in enumerate(paths):
            about_ms = START_MS + (self.clock_ms - START_MS) * (number + 1) // len(paths)
            modified_ns = (about_ms + self.draw.randrange(500)) * 1_000_000
            os.utime(path, ns=(modified_ns, modified_ns))
