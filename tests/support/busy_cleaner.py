"""A cleaner that never rests: segments of a log directory are merged, split, rolled and deleted.

A process of its own: ``python -m tests.support.busy_cleaner LOG_DIRECTORY SEED``. It prints a line
when it has begun, and works until its standard input ends.

- ``moved-0``: neighbours become one segment, and one becomes several, by the renames of a cleaner;
  new segments are rolled at the end. No record is ever removed.
- ``keyed-0``: `compact` itself, over keys that are all different, so that it removes none either.
- ``aged-0``: the first segment goes, as retention takes it, and a new one is rolled at the end.
"""

from __future__ import annotations

import os
import random
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from spark_segmentlog import open_log
from spark_segmentlog.log.io.lock import locked
from spark_segmentlog.log.names import find_base_offsets
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep.compaction import compact
from spark_segmentlog.log.upkeep.compaction_config import CompactionConfig
from spark_segmentlog.log.upkeep.swap import mark_segment_deleted, replace_segments, sweep_deleted
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    offset_index_bytes,
    segment_file_name,
    time_index_bytes,
    v2_batch,
)
from tests.support.cleaning import split_log

RECORDS_OF_A_BATCH = 5
SMALL = SegmentConfig(segment_bytes=1_000, index_interval_bytes=100)


def make_batch(base_offset: int) -> bytes:
    records = [
        RecordSpec(key=b"%d" % (base_offset + at), value=b"v" * 20, timestamp_ms=1000 + base_offset)
        for at in range(RECORDS_OF_A_BATCH)
    ]
    return v2_batch(records, base_offset=base_offset)


def build(path: Path, segments_count: int) -> None:
    """Make the partitions, a batch a segment."""
    log = LogBuilder(path)
    bases = range(0, segments_count * RECORDS_OF_A_BATCH, RECORDS_OF_A_BATCH)
    for topic in ("moved", "aged"):
        log.partition(topic, 0, [[make_batch(base)] for base in bases])
    log.partition("keyed", 0, [[make_batch(0)]])


def files_of(batches: Sequence[bytes], base_offset: int) -> dict[str, bytes]:
    return {
        ".log": b"".join(batches),
        ".index": offset_index_bytes(batches, base_offset),
        ".timeindex": time_index_bytes(batches, base_offset),
    }


class Cleaner:
    """Works on the partitions of one log directory."""

    def __init__(self, path: Path, seed: int) -> None:
        self._path = path
        self._draw = random.Random(seed)
        self._next_key = 1_000_000

    def step(self, number: int) -> None:
        """Do one thing to each partition that is due, with the lock as every writer has it."""
        with locked([str(self._path)]):
            self._move(self._path / "moved-0")
            if number % 3 == 0:
                self._age(self._path / "aged-0")
        if number % 10 == 0:
            self._compact()

    def _move(self, directory: Path) -> None:
        bases = _bases(directory)
        first = self._draw.randrange(len(bases) - 1)
        old = bases[first : min(first + self._draw.randrange(1, 6), len(bases) - 1)]
        batches = [
            batch
            for base in old
            for batch in split_log((directory / segment_file_name(base)).read_bytes())
        ]
        cuts = {0}
        if len(old) == 1 or self._draw.random() < 0.3:
            cuts |= {self._draw.randrange(len(batches)) for _ in range(5)}
        starts = sorted(cuts)
        new = []
        for start, end in zip(starts, [*starts[1:], len(batches)], strict=True):
            part = batches[start:end]
            base = old[0] if start == 0 else int.from_bytes(part[0][:8], "big")
            for kind, data in files_of(part, base).items():
                (directory / f"{segment_file_name(base, kind)}.cleaned").write_bytes(data)
            new.append(base)
        replace_segments(str(directory), new_base_offsets=new, old_base_offsets=old)
        sweep_deleted(str(directory), now_ms=_now_ms(), delay_ms=0)
        if self._draw.random() < 0.05:
            _roll(directory)

    def _age(self, directory: Path) -> None:
        mark_segment_deleted(str(directory), _bases(directory)[0])
        sweep_deleted(str(directory), now_ms=_now_ms(), delay_ms=0)
        _roll(directory)

    def _compact(self) -> None:
        with open_log(self._path, segment_bytes=SMALL.segment_bytes) as log:
            for _ in range(20):
                key = pa.array([b"%d" % self._next_key], pa.binary())
                value = pa.array([b"v" * 20], pa.binary())
                row = pa.RecordBatch.from_arrays([key, value], names=["key", "value"])
                log.append("keyed", row, partition=0)
                self._next_key += 1
        config = CompactionConfig(segment=SMALL, file_delete_delay_ms=0)
        compact([str(self._path)], ["keyed"], config, _now_ms())


def _roll(directory: Path) -> None:
    """Begin a new segment as a broker does: empty files first, then a batch."""
    last = _bases(directory)[-1]
    size = len(split_log((directory / segment_file_name(last)).read_bytes()))
    base = last + size * RECORDS_OF_A_BATCH
    batches = [make_batch(base)]
    for kind in (".log", ".index", ".timeindex"):
        (directory / segment_file_name(base, kind)).touch()
    with open(directory / segment_file_name(base), "ab") as file:
        file.write(batches[0])


def _bases(directory: Path) -> list[int]:
    return find_base_offsets(os.listdir(directory))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def main() -> None:
    path, seed = Path(sys.argv[1]), int(sys.argv[2])
    is_over = threading.Event()

    def wait() -> None:
        sys.stdin.read()
        is_over.set()

    threading.Thread(target=wait, daemon=True).start()
    cleaner = Cleaner(path, seed)
    number = 0
    while not is_over.is_set():
        cleaner.step(number)
        number += 1
        if number == 10:
            print("begun", flush=True)
    print(number, flush=True)


if __name__ == "__main__":
    main()
