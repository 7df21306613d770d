"""The recipe of the page "Bulk load", followed with a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.write.adoption import PointState, check_adoption
from tests.support.broker import Broker
from tests.support.broker_writing import draw_records, write_records
from tests.support.kafka_jars import KafkaJars

pytestmark = pytest.mark.interop

TOPIC = "loaded"
COUNT = 200


def missing(broker: Broker) -> list[str]:
    paths = list(map(str, broker.log_directories))
    points = check_adoption(TOPIC, paths)
    return [point.name for point in points if point.state is PointState.MISSING]


def test_rows_written_by_the_recipe_are_consumed(jars: KafkaJars, tmp_path: Path) -> None:
    broker = Broker(tmp_path / "node", jars)
    assert missing(broker) == ["log directories"]
    with broker:
        assert missing(broker) == ["stopped", "topic"]
        broker.create_topic(TOPIC, partitions=2, config={"retention.ms": -1})
        assert "topic" not in missing(broker)
        # Whoever can consume it finds its folders there.
        assert broker.consume([TOPIC]) == []
        assert missing(broker) == ["stopped"]
        broker.stop()
        assert missing(broker) == []
        records = [
            record
            for partition in (0, 1)
            for record in draw_records(7, COUNT, topic=TOPIC, partition=partition, first_offset=0)
        ]
        write_records(broker.log_directories, records)
        assert missing(broker) == []
        broker.start()
        assert broker.consume([TOPIC]) == sorted(records)
        assert broker.problems() == []
