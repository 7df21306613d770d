"""Settings of all property tests: none depends on speed, since a first call compiles kernels.

And what tests of several folders use: the one Spark session, and the logs of real brokers.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from pyspark.sql import SparkSession

from tests.broker_logs.broker_data import BrokerLog, unpack

PROJECT = Path(__file__).parents[1]

settings.register_profile(
    "segmentlog", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("segmentlog")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the suite: two cores, and three attempts more for a failing task.

    A test sets further settings by `spark_settings`. Workers import the tests' modules by name.
    """
    paths = [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2,4]").appName("tests")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "OFF",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.python.daemon.module": "spark_segmentlog.daemon",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
    }.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # What PySpark itself says of Python's and pandas' versions is not ours to change.
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def spark_settings(spark: SparkSession) -> Iterator[Callable[[str, str], None]]:
    """Set a setting of the session for the time of one test."""
    before: dict[str, str | None] = {}

    def set_one(name: str, value: str) -> None:
        before.setdefault(name, spark.conf.get(name, None))
        spark.conf.set(name, value)

    yield set_one
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


@pytest.fixture(scope="session")
def broker_log(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], BrokerLog]:
    """Unpacked log of a producer in a state, made once a session."""
    unpacked: dict[tuple[str, str], BrokerLog] = {}

    def get(producer: str, state: str) -> BrokerLog:
        if (producer, state) not in unpacked:
            target = tmp_path_factory.mktemp(f"{producer}-{state}")
            unpacked[producer, state] = unpack(producer, state, target)
        return unpacked[producer, state]

    return get
