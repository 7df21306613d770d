"""Indexes made again from a segment's batches."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.upkeep.recovery import reindex
from spark_segmentlog.log.upkeep.verification import verify
from tests.support.broker_data import unpack
from tests.support.scenarios import read_indexes


def test_indexes_made_anew_equal_a_brokers(tmp_path: Path) -> None:
    log = unpack("kafka-4.3.1", "clean", tmp_path)
    orders = [TopicPartition("orders", partition) for partition in range(3)]
    interval = 1024
    before = {
        path: data
        for path, data in read_indexes(log.log_directories).items()
        if Path(path).parent.name.startswith("orders-") and not path.endswith(".txnindex")
    }
    reindex(log.log_directories, topic_partitions=orders, index_interval_bytes=interval)
    after = read_indexes(log.log_directories)
    assert before
    assert list(verify(log.log_directories)) == []
    for path, data in before.items():
        if path.endswith(".timeindex"):
            assert after[path][-12:] == data[-12:]
