"""Settings of all property tests: none depends on speed, since a first call compiles kernels.

And what tests of several folders use: the one Spark session, and the logs of real brokers.

Tests run in random order and in several processes, each with fixtures and a Spark session of its
own. So none may lean on what another left behind (a thread, a cache, a setting of the session), or
on where its folder lies: take a path apart (``Path.name``, ``is_relative_to``), never search it.

A property test takes ``@settings(max_examples=...)`` for what `make test` can afford, and no more:
`make faults` runs each with ``SEGMENTLOG_EXAMPLES_FACTOR`` times as many.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from pyspark.sql import SparkSession

pytest.register_assert_rewrite("tests.support")

from tests.support.broker_data import BrokerLog, unpack  # noqa: E402
from tests.support.project import PROJECT  # noqa: E402
from tests.support.store_data import Store  # noqa: E402
from tests.support.store_data import unpack as unpack_store  # noqa: E402

settings.register_profile(
    "segmentlog", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("segmentlog")

EXAMPLES_FACTOR = int(os.environ.get("SEGMENTLOG_EXAMPLES_FACTOR", "1"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Multiply the examples of every property test."""
    tests = {item.obj for item in items if isinstance(item, pytest.Function)}
    for test in filter(is_hypothesis_test, tests):
        once: settings = test._hypothesis_internal_use_settings
        test._hypothesis_internal_use_settings = settings(
            once, max_examples=once.max_examples * EXAMPLES_FACTOR
        )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Tell the seed of the order, which a quiet run would leave out."""
    seed = config.getoption("randomly_seed", None)
    if isinstance(seed, int):
        terminalreporter.write_line(f"order of the tests: --randomly-seed={seed}")


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


@pytest.fixture(scope="session")
def open_store(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Store]:
    """Give a variant that nobody changes, unpacked once."""
    opened: dict[str, Store] = {}

    def get(name: str) -> Store:
        if name not in opened:
            opened[name] = unpack_store(name, tmp_path_factory.mktemp(name))
        return opened[name]

    return get


@pytest.fixture
def own_store(tmp_path: Path) -> Callable[[str], Store]:
    """Give a variant that the test may change."""
    return lambda name: unpack_store(name, tmp_path / name)
