"""A broker of a new cluster serves topics that were salvaged from the store of one that is gone."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_segmentlog.log.tier.remote_options import RemoteOptions
from spark_segmentlog.log.upkeep.salvage import salvage
from tests.support.broker import Broker
from tests.support.broker_data import ISOLATION_LEVELS
from tests.support.kafka_jars import KafkaJars
from tests.support.store_data import unpack

pytestmark = pytest.mark.interop

TOPICS = ("t.none", "t.zstd", "t.order", "t.tx")


def test_a_broker_serves_what_was_salvaged(jars: KafkaJars, tmp_path: Path) -> None:
    store = unpack("aiven-zstd-aes", tmp_path / "gone")
    with Broker(tmp_path / "node", jars, log_directory_names=["d0"]) as broker:
        for topic in TOPICS:
            broker.create_topic(topic, partitions=2, config={"retention.ms": -1})
        broker.stop()
        home = tmp_path / "node" / "d0"
        salvaged = salvage(
            store.log_directory,
            str(tmp_path / "salvaged"),
            remote=RemoteOptions(uris=(store.remote,), keys=store.key_files),
            topics=TOPICS,
            topic_ids_of=str(home),
        )
        (home / ".kafka_cleanshutdown").unlink()
        for partition in salvaged:
            shutil.rmtree(home / str(partition.topic_partition))
            shutil.move(partition.directory, home)
        broker.start()
        for level in ISOLATION_LEVELS:
            consumed = broker.consume(TOPICS, isolation_level=level)
            truth = {key: rows for key, rows in store.truth(level).items() if key[0] in TOPICS}
            assert [
                (record.topic, record.partition, record.offset) for record in consumed
            ] == sorted(truth)
            for record in consumed:
                wanted = truth[record.topic, record.partition, record.offset]
                assert (
                    record.timestamp_ms,
                    record.timestamp_type,
                    record.key,
                    record.value,
                ) == wanted[:4]
        assert broker.problems() == []
