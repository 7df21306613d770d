"""Every record of the brokers' logs equals what that broker's own consumers got."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.log.partition.log_manager import LogManager
from tests.support.broker_data import ISOLATION_LEVELS, PRODUCERS, STATES, BrokerLog


def _rows(paths: tuple[str, ...], isolation_level: str) -> dict[tuple[str, int], list[Any]]:
    table = read_arrow(
        list(paths), include_headers=True, kafka_isolation_level=isolation_level
    ).read_all()
    milliseconds = table["timestamp"].cast("int64").to_numpy() // 1000
    by_partition = defaultdict(list)
    for row, timestamp in zip(table.to_pylist(), milliseconds, strict=True):
        row["timestamp"] = int(timestamp)
        by_partition[row["topic"], row["partition"]].append(row)
    return dict(by_partition)


@pytest.mark.parametrize("isolation_level", ISOLATION_LEVELS)
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_every_record_equals_what_the_consumer_got(
    broker_log: Callable[[str, str], BrokerLog], producer: str, state: str, isolation_level: str
) -> None:
    log = broker_log(producer, state)
    truth = log.truth(isolation_level)
    rows = _rows(log.log_directories, isolation_level)
    assert rows.keys() == truth.keys()
    for topic_partition, records in truth.items():
        assert sorted(rows[topic_partition], key=lambda row: row["offset"]) == records


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("producer", PRODUCERS)
def test_start_and_end_offsets_equal_the_brokers(
    broker_log: Callable[[str, str], BrokerLog], producer: str, state: str
) -> None:
    log = broker_log(producer, state)
    manager = LogManager.open(list(log.log_directories))
    partitions = {(tp.topic, tp.partition): tp for tp in manager.topic_partitions}
    for name, (low, high) in log.watermarks("read_uncommitted").items():
        partition_log = manager.partition_log(partitions[name])
        assert (partition_log.log_start_offset, partition_log.log_end_offset) == (low, high), name
    for name, (_, last_stable) in log.watermarks("read_committed").items():
        partition_log = manager.partition_log(partitions[name])
        assert partition_log.last_stable_offset() == last_stable, name
