from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import spark_segmentlog
from tests.support.broker import Broker, running_broker
from tests.support.kafka_jars import KafkaJars, kafka_jars
from tests.support.option_sets import Facts, facts_of
from tests.support.project import PROJECT
from tests.support.traffic import TOPICS, create_topics, wait_until_cleaned, write_first_wave

TRAFFIC_SEED = 977


@pytest.fixture(scope="session")
def jars() -> KafkaJars:
    return kafka_jars()


@pytest.fixture(scope="module")
def broker(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One running broker a module, with two log directories."""
    directory: Path = tmp_path_factory.mktemp("broker")
    with running_broker(directory, jars) as running:
        yield running


@pytest.fixture(scope="session")
def broker_at_rest(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A broker with every shape of topic, for tests that write to topics of their own alone."""
    print(f"seed {TRAFFIC_SEED}")
    with running_broker(tmp_path_factory.mktemp("at_rest"), jars) as running:
        create_topics(running)
        write_first_wave(running, TRAFFIC_SEED)
        wait_until_cleaned(running)
        yield running


@pytest.fixture(scope="session")
def facts(broker_at_rest: Broker) -> dict[str, Facts]:
    """What consumers of each isolation level see of the broker at rest."""
    return {
        level: facts_of(broker_at_rest.consume(TOPICS, isolation_level=level))
        for level in ("read_committed", "read_uncommitted")
    }


@pytest.fixture(scope="module")
def spark(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = str(PROJECT)
    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.jars", ",".join(map(str, jars.connector)))
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark_segmentlog.register(session)
    yield session
    session.stop()
