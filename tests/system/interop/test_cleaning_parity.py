"""Random compactions, retentions and lookups by time equal those of Kafka's own code.

A random log is copied; Kafka's Cleaner and UnifiedLog (in one Java process, by the same clock and
settings) work on one copy, ours on the other, stage by stage as the log grows. Kafka then reads
both: every header field and record, and the segments, are the same.

``SEGMENTLOG_SEED`` repeats a run, ``CLEANING_PARITY_CASES`` sets its length.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from spark_segmentlog.errors import InvalidRecordError
from spark_segmentlog.log.formats.transaction_index import parse_transaction_index
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.partition.partition_log import PartitionLog
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.segment.pieces import ReadBuffer
from spark_segmentlog.log.upkeep.compaction import PartitionCompaction, compact
from spark_segmentlog.log.upkeep.compaction_config import CompactionConfig
from spark_segmentlog.log.upkeep.partitions import CleanupPolicy
from spark_segmentlog.log.upkeep.retention import (
    PartitionRetention,
    apply_retention,
    largest_timestamp,
)
from spark_segmentlog.log.upkeep.retention_config import RetentionConfig
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec, summarize_batch
from tests.support.kafka_jars import KafkaJars
from tests.support.kafka_log import KafkaLog
from tests.support.random_logs import START_MS, TOPIC, RandomLog

pytestmark = pytest.mark.interop

CASES = int(os.environ.get("CLEANING_PARITY_CASES", "300"))
PARTITION = TopicPartition(TOPIC, 0)
LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
DAY_MS = 24 * 60 * 60 * 1000
SOON_MS = 1500
# Ours looks for delete horizons that are over without anything new; Kafka's cleaner waits.
REFUSED_OR_WAITS = re.compile(
    r"refused java.lang.IllegalArgumentException: Invalid negative timestamp|cleaned (\d+) to \1$"
)


@pytest.fixture(scope="module")
def kafka(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaLog]:
    log_path = tmp_path_factory.mktemp("kafka") / "log"
    with log_path.open("wb") as log, KafkaLog(jars, log) as running:
        yield running


@pytest.fixture(scope="module")
def seed() -> int:
    chosen = int(os.environ.get("SEGMENTLOG_SEED", random.randrange(2**32)))
    print(f"SEGMENTLOG_SEED={chosen}")
    return chosen


@dataclass(slots=True)
class Twins:
    """A random log, and two copies of its first segments: Kafka's and ours."""

    kafka: KafkaLog
    folder: Path
    draw: random.Random
    log: RandomLog
    is_clean: bool
    segments: list[SegmentSpec] = field(default_factory=list)
    given: int = 0

    @classmethod
    def make(cls, kafka: KafkaLog, folder: Path, draw: random.Random, segments_count: int) -> Twins:
        log = RandomLog.make(draw)
        twins = cls(kafka, folder, draw, log, draw.random() < 0.5)
        twins.segments = log.segments(segments_count)
        log.write(folder / "whole", twins.segments, clean=twins.is_clean)
        for path in (twins.theirs, twins.ours):
            path.mkdir(parents=True)
        if twins.is_clean:
            LogBuilder(twins.ours.parent).clean_shutdown()
        return twins

    @property
    def theirs(self) -> Path:
        return self.folder / "theirs" / str(PARTITION)

    @property
    def ours(self) -> Path:
        return self.folder / "ours" / str(PARTITION)

    def grow(self, segments_count: int) -> None:
        """Give both the next segments."""
        bases = [spec.base_offset or 0 for spec in self.segments[self.given :]]
        first, end = bases[0], [*bases, 2**63][segments_count]
        for path in (self.folder / "whole" / str(PARTITION)).iterdir():
            number = re.match(r"\d{20}", path.name)
            if (first <= int(number[0]) < end) if number else not self.given:
                shutil.copy2(path, self.theirs)
                shutil.copy2(path, self.ours)
        self.given += segments_count

    def request(self, operation: str, **settings: object) -> None:
        """Let Kafka work on its copy, while ours works on the other."""
        clean = str(self.is_clean).lower()
        self.kafka.request(operation, self.theirs, clean=clean, **settings)

    def assert_same(self, context: str) -> None:
        """Let Kafka read both; closed segments of the same bytes have the same indexes too.

        Not those of a directory that was not shut cleanly: Kafka makes them again as it opens it.
        """
        for path in (self.theirs, self.ours):
            self.kafka.request("dump", path)
        theirs, ours = self.kafka.answer(), self.kafka.answer()
        assert theirs == ours, context
        if not self.is_clean:
            return
        for log in sorted(self.theirs.glob("*.log"))[:-1]:
            if log.read_bytes() == (self.ours / log.name).read_bytes():
                self._assert_same_indexes(log.stem, context)

    def _assert_same_indexes(self, stem: str, context: str) -> None:
        theirs, ours = self.theirs / stem, self.ours / stem
        for suffix in (".index", ".timeindex"):
            read = [path.with_suffix(suffix).read_bytes() for path in (theirs, ours)]
            assert read[0] == read[1], f"{context}, {stem}{suffix}"
        assert _aborted(theirs) == _aborted(ours), f"{context}, {stem}.txnindex"

    def start_somewhere(self) -> int:
        """Choose the log start offset: where the log begins, or somewhere inside."""
        offset = first = self.segments[0].base_offset or 0
        if self.draw.random() < 0.3:
            last = self.segments[self.given - 1].base_offset or 0
            offset = self.draw.randrange(first, last + 1)
        LogBuilder(self.ours.parent).log_start_offsets({(TOPIC, 0): offset})
        return offset


def _about_when_one_has_age(twins: Twins, age_ms: int) -> int:
    """Choose a time: any, or when a segment's youngest record has an age, a millisecond about."""
    batches = twins.draw.choice(twins.segments).batches
    summaries = [summarize_batch(batch) for batch in batches]
    youngest_ms = max(
        (summary.max_timestamp for summary in summaries if summary is not None), default=-1
    )
    if youngest_ms < 0 or twins.draw.random() < 0.5:
        return twins.log.clock_ms + twins.draw.randrange(-1000, 3000)
    return youngest_ms + age_ms + twins.draw.randrange(-1, 2)


def _aborted(segment: Path) -> list[tuple[int, int]]:
    """Tell whose transactions a transaction index names, and where their markers are.

    Their first offsets are Kafka's from before the first cleaning; ours as far as the log holds it.
    """
    path = segment.with_suffix(".txnindex")
    entries = parse_transaction_index(path.read_bytes()) if path.exists() else ()
    return [(entry.producer_id, entry.last_offset) for entry in entries]


# Compaction


def _compaction_config(draw: random.Random, log: RandomLog) -> CompactionConfig:
    # Compressed batches are never as large as Java's, so segments would be grouped otherwise.
    is_compressed = len(log.codecs) > 1
    return CompactionConfig(
        file_delete_delay_ms=0,
        delete_retention_ms=draw.choice((0, 1000, DAY_MS)),
        min_compaction_lag_ms=draw.choice((0, 0, 0, 500, 2000)),
        producer_id_expiration_ms=draw.choice((SOON_MS, *[10 * DAY_MS] * 3)),
        segment=SegmentConfig(
            segment_bytes=1 << 30 if is_compressed else draw.choice((600, 1500, 3000, 1 << 30)),
            index_interval_bytes=log.index_interval_bytes,
        ),
    )


def _compaction_start(twins: Twins) -> int:
    """Choose the log start offset: with transactions, where the log begins.

    Whether one that began below the log start and is open keeps what follows from being cleaned,
    Kafka tells by a producer snapshot after a clean stop, and forgets after a crash. Ours goes by
    what the segments still hold.
    """
    return 0 if twins.log.has_transactions else twins.start_somewhere()


def _compact_both(
    twins: Twins, config: CompactionConfig, now_ms: int, start: int, checkpoint: int | None
) -> tuple[list[str], PartitionCompaction | None]:
    """Give Kafka's answer and our report, or None where ours refused."""
    checkpointed = {} if checkpoint is None else {"checkpoint": checkpoint}
    twins.request(
        "compact",
        now=now_ms,
        start=start,
        producer_expiration=config.producer_id_expiration_ms,
        topic_cleanup_policy="compact",
        topic_delete_retention_ms=config.delete_retention_ms,
        topic_min_compaction_lag_ms=config.min_compaction_lag_ms,
        topic_internal_segment_bytes=config.segment.segment_bytes,
        topic_index_interval_bytes=config.segment.index_interval_bytes,
        **checkpointed,
    )
    try:
        report = compact([str(twins.ours.parent)], None, config, now_ms)[0]
    except InvalidRecordError:
        report = None
    return twins.kafka.answer(), report


def _compact_stages(twins: Twins, context: str) -> Counter[str]:
    """Compact, grow and compact again; counts what happened."""
    draw = twins.draw
    config = _compaction_config(draw, twins.log)
    now_ms = _about_when_one_has_age(twins, config.min_compaction_lag_ms)
    start, checkpoint = 0, None
    seen = Counter[str]()
    for stage, segments_count in enumerate(_stages(draw, len(twins.segments), config)):
        twins.grow(segments_count)
        if stage == 0:
            start = _compaction_start(twins)
        told = f"{context}, stage {stage}, now {now_ms}, start {start}, {config}"
        answer, report = _compact_both(twins, config, now_ms, start, checkpoint)
        if report is None:
            assert REFUSED_OR_WAITS.match(answer[0]), f"{told}: {answer}"
            return seen + Counter(refused=1)
        assert answer == [f"cleaned {report.first_dirty_offset} to {report.cleaned_up_to}"], told
        if report.first_dirty_offset == report.cleaned_up_to and report.passes:
            # A horizon is over without anything new: as above.
            return seen
        twins.assert_same(told)
        seen += Counter(rounds=1, gone=report.records_read - report.records_kept)
        checkpoint = report.cleaned_up_to
        now_ms += draw.choice((0, config.delete_retention_ms, config.delete_retention_ms + 1))
        # Kafka closed it.
        twins.is_clean = True
    _assert_same_lookups(twins, _settings(twins, RetentionConfig(), now_ms, start), context)
    return seen


def _stages(draw: random.Random, segments_count: int, config: CompactionConfig) -> list[int]:
    """Tell by how many segments the log grows each time.

    Where producers expire soon it is given at once: Kafka has forgotten the last data of one that
    expired when it was cleaned before, and has written since; ours finds it in the log.
    """
    if config.producer_id_expiration_ms == SOON_MS:
        return [segments_count]
    first = draw.randrange(2, segments_count - 1)
    second = draw.randrange(1, segments_count - first)
    return [first, second, segments_count - first - second]


def test_random_compactions_equal_kafkas(kafka: KafkaLog, seed: int, tmp_path: Path) -> None:
    seen = Counter[str]()
    for number in range(CASES):
        draw = random.Random(f"{seed}, compaction {number}")
        folder = tmp_path / str(number)
        twins = Twins.make(kafka, folder, draw, draw.randrange(4, 9))
        seen += _compact_stages(twins, f"seed {seed}, case {number} in {folder}")
        shutil.rmtree(folder)
    print(f"{CASES} logs, {dict(seen)}")
    assert seen["rounds"] > CASES
    assert seen["gone"] > 10 * CASES
    assert seen["refused"] > 0 or CASES < 100


# Retention and lookups by time


def _retention_config(draw: random.Random, log_bytes: int) -> RetentionConfig:
    return RetentionConfig(
        file_delete_delay_ms=DAY_MS,
        retention_ms=draw.choice((-1, 0, 500, 2000, 5000)),
        retention_bytes=draw.choice((-1, draw.randrange(log_bytes + 1))),
        cleanup_policy=frozenset(
            draw.choice(([CleanupPolicy.DELETE], [CleanupPolicy.COMPACT], list(CleanupPolicy)))
        ),
    )


def _settings(twins: Twins, config: RetentionConfig, now_ms: int, start: int) -> dict[str, object]:
    return {
        "now": now_ms,
        "start": start,
        "producer_expiration": DAY_MS,
        "topic_cleanup_policy": ",".join(sorted(config.cleanup_policy)),
        "topic_retention_ms": config.retention_ms,
        "topic_retention_bytes": config.retention_bytes,
        "topic_index_interval_bytes": twins.log.index_interval_bytes,
    }


def _retain(twins: Twins, config: RetentionConfig, now_ms: int) -> str:
    report = apply_retention([str(twins.ours.parent)], None, config, now_ms)
    partition: PartitionRetention = report[0]
    log = _our_log(twins)
    segments = [segment.base_offset for segment in log.segments]
    return f"start {partition.log_start_offset} end {log.log_end_offset} segments {segments}"


def _our_log(twins: Twins) -> PartitionLog:
    return LogManager.open([str(twins.ours.parent)]).topic_partitions[PARTITION]


def _timestamps(twins: Twins) -> list[int]:
    draw, clock_ms = twins.draw, twins.log.clock_ms
    near = [draw.randrange(START_MS - 500, clock_ms + 1000) for _ in range(6)]
    return [LATEST, EARLIEST, MAX_TIMESTAMP, 0, START_MS - DAY_MS, clock_ms + DAY_MS, 2**62, *near]


def _look_up(log: PartitionLog, timestamp_ms: int) -> tuple[int, int] | None:
    if timestamp_ms == LATEST:
        return log.log_end_offset, -1
    if timestamp_ms == EARLIEST:
        return log.log_start_offset, -1
    if timestamp_ms == MAX_TIMESTAMP:
        buffer = ReadBuffer()
        timestamp_ms = max(largest_timestamp(segment, buffer) for segment in log.segments)
        if timestamp_ms < 0:
            return None
    return log.offset_for_timestamp(timestamp_ms)


def _says_the_same(answer: str, found: tuple[int, int] | None) -> bool:
    """Compare a broker's answer with ours.

    A broker looks in the first segment alone that may reach the timestamp: by its largest one,
    even of records below the log start or gone since, or by its file's time of change where it has
    none. Where that segment holds no such record it answers none; ours goes on to the later ones.
    """
    if (at := re.fullmatch(r"none before (\d+)", answer)) is None:
        return found is not None and answer == f"{found[0]} {found[1]}"
    return found is None or found[0] >= int(at[1])


def _is_below(answer: str, log_start_offset: int) -> bool:
    found = re.fullmatch(r"(\d+) \d+", answer)
    return found is not None and int(found[1]) < log_start_offset


def _assert_same_lookups(twins: Twins, settings: dict[str, object], context: str) -> None:
    timestamps = _timestamps(twins)
    twins.request("lookup", timestamps=",".join(map(str, timestamps)), **settings)
    log = _our_log(twins)
    lookups = [(timestamp_ms, _look_up(log, timestamp_ms)) for timestamp_ms in timestamps]
    for said, (timestamp_ms, found) in zip(twins.kafka.answer(), lookups, strict=True):
        if timestamp_ms == MAX_TIMESTAMP and _is_below(said, log.log_start_offset):
            # A broker tells of what lies below the log start too, until its segment goes.
            continue
        if timestamp_ms == MAX_TIMESTAMP and said.endswith(" -1"):
            # A broker names an offset of a log without any timestamp too.
            assert found is None, f"{context}: {found}"
            continue
        assert _says_the_same(said, found), f"{context}, timestamp {timestamp_ms}: {said}, {found}"


def test_random_retentions_and_lookups_equal_kafkas(
    kafka: KafkaLog, seed: int, tmp_path: Path
) -> None:
    deleted = 0
    for number in range(CASES):
        draw = random.Random(f"{seed}, retention {number}")
        folder = tmp_path / str(number)
        twins = Twins.make(kafka, folder, draw, draw.randrange(1, 7))
        twins.grow(len(twins.segments))
        log_bytes = sum(path.stat().st_size for path in twins.ours.glob("*.log"))
        config = _retention_config(draw, log_bytes)
        now_ms = _about_when_one_has_age(twins, config.retention_ms)
        settings = _settings(twins, config, now_ms, twins.start_somewhere())
        context = f"seed {seed}, case {number} in {folder}, {settings}"
        _assert_same_lookups(twins, settings, context)
        twins.request("retain", **settings)
        retained = _retain(twins, config, now_ms)
        assert twins.kafka.answer() == [retained], context
        twins.assert_same(context)
        settings["start"] = _our_log(twins).log_start_offset
        _assert_same_lookups(twins, settings, context)
        deleted += len(list(twins.ours.glob("*.log.deleted")))
        shutil.rmtree(folder)
    print(f"{CASES} logs, {deleted} segments deleted")
    assert deleted > CASES / 2
