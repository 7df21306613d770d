"""A stream over a log that lives: it grows, tears, rolls, loses segments; and a day's run in small.

The chaos is seeded: the seed is printed, and ``STREAM_CHAOS_SEED`` sets it.
"""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.stream import GrowingLog, JsonOffsets, Stream, batch

pytestmark = pytest.mark.faults

SEED = int(os.environ.get("STREAM_CHAOS_SEED", str(random.SystemRandom().randrange(2**32))))
PARTITIONS = 3


class LivingLog:
    """A broker as a reader sees it: appends that tear, segments that roll and go."""

    def __init__(self, path: Path, rng: random.Random) -> None:
        self.log = GrowingLog(path)
        self.rng = rng
        self.ends: dict[int, int] = {}
        self.bases: dict[int, list[int]] = {}
        self.torn: dict[int, bytes] = {}
        self.written: dict[int, list[int]] = {}

    def add_partition(self) -> None:
        partition = len(self.ends)
        if partition < PARTITIONS:
            self.log.create(partition)
            self.ends[partition], self.bases[partition] = 0, [0]
            self.written[partition] = []

    def append(self) -> None:
        partition = self._any()
        self.finish(partition)
        count = self.rng.randint(1, 5)
        gap = self.rng.choice((0, 0, 3))
        data = batch(
            self.ends[partition],
            count,
            size=self.rng.choice((0, 10, 3000)),
            last_offset_delta=count - 1 + gap,
        )
        cut = self.rng.choice((len(data), len(data), self.rng.randrange(len(data))))
        self._write(partition, data[:cut])
        self.torn[partition] = data[cut:]
        self.written[partition] += range(self.ends[partition], self.ends[partition] + count)
        self.ends[partition] += count + gap

    def finish(self, partition: int) -> None:
        self._write(partition, self.torn.pop(partition, b""))

    def roll(self) -> None:
        partition = self._any()
        self.finish(partition)
        if self.ends[partition] > self.bases[partition][-1]:
            self.bases[partition].append(self.ends[partition])
            self._write(partition, b"")

    def retain(self, read_up_to: JsonOffsets) -> None:
        """Delete whole segments below what was read."""
        partition = self._any()
        reached = read_up_to.get("t", {}).get(str(partition), 0)
        bases = self.bases[partition]
        if len(bases) > 1 and bases[1] <= reached:
            path = self.log.segment(partition, base=bases.pop(0))
            path.rename(f"{path}.deleted")
            if self.rng.random() < 0.5:
                Path(f"{path}.deleted").unlink()

    def finish_all(self) -> None:
        for partition in self.ends:
            self.finish(partition)

    def _any(self) -> int:
        return self.rng.choice(list(self.ends))

    def _write(self, partition: int, data: bytes) -> None:
        self.log.append(data, partition=partition, base=self.bases[partition][-1])


@pytest.mark.parametrize("round_number", range(20))
def test_a_stream_over_a_living_log_reads_every_record_once_in_order(
    tmp_path: Path, round_number: int
) -> None:
    print(f"STREAM_CHAOS_SEED={SEED}, round {round_number}")
    rng = random.Random(SEED + round_number)
    living = LivingLog(tmp_path / "log", rng)
    living.add_partition()
    options: dict[str, Any] = {"startingOffsets": "earliest"}
    if rng.random() < 0.5:
        options["maxOffsetsPerTrigger"] = str(rng.randint(1, 20))
    if rng.random() < 0.5:
        options["maxBytesPerTrigger"] = str(rng.randint(1, 20_000))
    stream = Stream(living.log.path, **options)
    rows: list[tuple[int, int]] = []

    def trigger() -> bool:
        start = stream.committed
        begin = stream.reader.initialOffset() if start is None else start
        end = stream.reader.latestOffset(begin, stream.limit)
        if start is not None and end == start:
            return False
        read = [(row["partition"], row["offset"]) for row in stream.rows(begin, end)]
        if rng.random() < 0.1:
            # The driver dies before it commits: another one replays the same offsets.
            again = Stream(living.log.path, **options)
            assert again.reader.partitions(end, end) == []
            replayed = [(row["partition"], row["offset"]) for row in again.rows(begin, end)]
            assert replayed == read
        rows.extend(read)
        stream.committed = end
        return True

    for _ in range(150):
        action = rng.random()
        if action < 0.5:
            living.append()
        elif action < 0.6:
            living.roll()
        elif action < 0.63:
            living.add_partition()
        elif action < 0.7:
            living.retain(stream.committed or {})
        elif action < 0.75:
            stream = Stream(living.log.path, committed=stream.committed, **options)
        else:
            trigger()
    living.finish_all()
    while trigger():
        pass
    for partition, end in living.ends.items():
        assert [offset for name, offset in rows if name == partition] == living.written[partition]
        assert stream.committed is not None
        assert stream.committed["t"][str(partition)] == end


def test_a_stream_beside_a_writer_that_never_stops_reads_every_record_once(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path / "log")
    log.create()
    count = 3000

    def write() -> None:
        base = 0
        for offset in range(count):
            data = batch(offset, size=offset % 700)
            half = len(data) // 2
            log.append(data[:half], base=base)
            log.append(data[half:], base=base)
            if offset % 250 == 249:
                base = offset + 1

    writer = threading.Thread(target=write)
    stream = Stream(log.path, startingOffsets="earliest")
    writer.start()
    read: list[int] = []
    while writer.is_alive():
        read += stream.trigger() or []
    for rows in stream.run():
        read += rows
    writer.join()
    assert read == list(range(count))


def test_two_thousand_triggers_leave_memory_files_and_folders_flat(tmp_path: Path) -> None:
    log = GrowingLog(tmp_path / "log")
    log.create()
    stream = Stream(log.path, startingOffsets="earliest", endingTimestamp=2**50)
    process = psutil.Process()
    bases = [0]
    samples = []
    for number in range(2000):
        if number % 20 == 19:
            bases.append(number)
            if len(bases) > 5:
                log.segment(base=bases.pop(0)).unlink()
        log.append(batch(number, size=1000), base=bases[-1])
        stream.trigger()
        if number % 500 == 499:
            watch = stream.reader.planner._watch
            walked = sum(len(memory.sizes_bytes) for memory in watch._memories.values())
            kept = len(watch._memo._entries) + walked
            samples.append((process.memory_info().rss, process.num_fds(), kept))
    names = {path.name for path in log.path.rglob("*") if path.suffix == ".log"}
    assert len(names) == len(bases)
    assert stream.committed == {"t": {"0": 1999}} or stream.committed == {"t": {"0": 2000}}
    (first_rss, first_files, _), (last_rss, last_files, last_kept) = samples[0], samples[-1]
    assert last_files <= first_files
    assert last_rss - first_rss < 16 << 20
    assert last_kept < 30
    assert list(tmp_path.iterdir()) == [log.path]
