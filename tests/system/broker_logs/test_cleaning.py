"""Retention and compaction of real brokers' logs: what stays is what their consumers saw of it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.log.formats.producer_snapshot import ProducerState, parse_producer_snapshot
from spark_segmentlog.log.formats.transaction_index import (
    AbortedTransaction,
    parse_transaction_index,
)
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.segment.scanner import ScanOptions
from spark_segmentlog.log.transactions.producer_survey import survey_producers
from spark_segmentlog.log.upkeep.compaction import PartitionCompaction, compact
from spark_segmentlog.log.upkeep.compaction_config import CompactionConfig
from spark_segmentlog.log.upkeep.retention import apply_retention
from spark_segmentlog.log.upkeep.retention_config import RetentionConfig
from tests.support.broker_data import PRODUCERS, STATES, BrokerLog, unpack

Row = tuple[int, int, bytes | None, bytes | None]

# The 2.8.2 broker's topics are those of a ZooKeeper cluster, whose metadata is in no log directory.
COMPACTION = CompactionConfig(file_delete_delay_ms=0, allow_replicated=True)
LOGS = [(producer, state) for producer in PRODUCERS for state in STATES]


def rows_of(records: list[dict[str, Any]]) -> list[Row]:
    return [
        (record["offset"], record["timestamp"], record["key"], record["value"])
        for record in records
    ]


def read(log: BrokerLog, isolation_level: str) -> dict[tuple[str, int], list[Row]]:
    options = ScanOptions(
        columns=("offset", "timestamp", "key", "value"), isolation_level=isolation_level
    )
    return {
        (name.topic, name.partition): [
            (
                row["offset"],
                round(row["timestamp"].timestamp() * 1000),
                row["key"],
                row["value"],
            )
            for arrow_batch in partition.scan(options=options)
            for row in arrow_batch.to_pylist()
        ]
        for name, partition in LogManager.open(log.log_directories).topic_partitions.items()
    }


def expected_rows(records: list[Row], cleaned: PartitionCompaction) -> list[Row]:
    """Take the latest of each key below the end of what was cleaned, and all after it."""
    end = cleaned.cleaned_up_to
    latest = {key: offset for offset, _, key, _ in records if offset < end}
    return [
        record
        for record in records
        if record[0] >= end or (record[2] is not None and latest[record[2]] == record[0])
    ]


@pytest.mark.parametrize(("producer", "state"), LOGS)
def test_a_brokers_log_is_compacted_to_the_latest_committed_of_each_key(
    producer: str, state: str, tmp_path: Path
) -> None:
    log = unpack(producer, state, tmp_path)
    before = read(log, "read_committed")
    # The delete horizons that the broker's own cleaner set are not over at that time.
    report = compact(log.log_directories, None, COMPACTION, min_horizon(log))
    after = read(log, "read_committed")
    for cleaned in report:
        place = (cleaned.topic_partition.topic, cleaned.topic_partition.partition)
        assert after[place] == expected_rows(before[place], cleaned)
    assert sum(cleaned.passes for cleaned in report) > 0
    if state == "clean":
        truth = log.truth("read_committed")
        for cleaned in report:
            place = (cleaned.topic_partition.topic, cleaned.topic_partition.partition)
            assert after[place] == expected_rows(rows_of(truth.get(place, [])), cleaned)


def min_horizon(log: BrokerLog) -> int:
    horizons = [
        measured.earliest_horizon_ms
        for partition in LogManager.open(log.log_directories).topic_partitions.values()
        for measured in survey_producers(list(partition.segments)).segments
        if measured.earliest_horizon_ms >= 0
    ]
    return min(horizons, default=time.time_ns() // 1_000_000) - 1


@pytest.mark.parametrize("producer", PRODUCERS)
def test_a_survey_tells_what_the_brokers_snapshots_and_indexes_tell(
    producer: str, broker_log: Any
) -> None:
    log = broker_log(producer, "clean")
    for name, partition in LogManager.open(log.log_directories).topic_partitions.items():
        found = survey_producers(list(partition.segments))
        directory = Path(partition.directory)
        assert found.aborted == _aborted(directory), name
        snapshots = sorted(directory.glob("*.snapshot"))
        if snapshots and int(snapshots[-1].name[:20]) == found.next_offset:
            states = parse_producer_snapshot(snapshots[-1].read_bytes())
            assert _comparable(found.producers.states) >= _comparable(states or []), name


def _aborted(directory: Path) -> list[AbortedTransaction]:
    return [
        transaction
        for path in sorted(directory.glob("*.txnindex"))
        for transaction in parse_transaction_index(path.read_bytes())
    ]


def _comparable(states: list[ProducerState]) -> set[tuple[int, ...]]:
    return {
        (
            state.producer_id,
            state.producer_epoch,
            state.last_sequence,
            state.last_offset,
            state.offset_delta,
            state.coordinator_epoch,
            state.current_txn_first_offset,
        )
        for state in states
    }


@pytest.mark.parametrize(("producer", "state"), LOGS)
def test_retention_by_size_leaves_the_end_of_every_log(
    producer: str, state: str, tmp_path: Path
) -> None:
    log = unpack(producer, state, tmp_path)
    before = read(log, "read_uncommitted")
    config = RetentionConfig(
        retention_ms=-1, retention_bytes=8000, file_delete_delay_ms=0, allow_replicated=True
    )
    report = apply_retention(log.log_directories, None, config, time.time_ns() // 1_000_000)
    after = read(log, "read_uncommitted")
    for done in report:
        place = (done.topic_partition.topic, done.topic_partition.partition)
        assert after[place] == [row for row in before[place] if row[0] >= done.log_start_offset]
    assert any(done.deleted_segments for done in report)
    again = apply_retention(log.log_directories, None, config, time.time_ns() // 1_000_000)
    assert not any(done.deleted_segments for done in again)
