"""Spark sessions to measure in, on two cores, with the benchmarks' own sources registered."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from pyspark import SparkConf, SparkContext
from pyspark.sql import DataFrame, SparkSession

import spark_segmentlog
from tests.bench.ready_made import ReadyMadeSource, SharedReadyMadeSource
from tests.bench.sinks import DiscardingSink
from tests.bench.ticking import TickingSource
from tests.support.kafka_jars import cached_kafka_jars
from tests.support.project import PROJECT

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.memory": "3g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.log.level": "ERROR",
    # A machine that stands still for minutes must not make Spark give its executor up.
    "spark.network.timeout": "3600s",
    "spark.executor.heartbeatInterval": "60s",
}


def advised_settings() -> dict[str, str]:
    """Give what users are advised to set: the lines of ``conf/spark-defaults.conf``."""
    lines = (PROJECT / "conf" / "spark-defaults.conf").read_text().splitlines()
    pairs = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    return {name: value.strip() for name, value in pairs}


@contextmanager
def spark_session(settings: Mapping[str, str] | None = None) -> Iterator[SparkSession]:
    """Run a session of its own for the time of a ``with`` block."""
    # Workers import the benchmarks' sources by name.
    paths = [str(PROJECT), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = cached_kafka_jars()
    connector = [] if jars is None else [str(path) for path in jars.connector]
    of_all = {**_SETTINGS, "spark.jars": ",".join(connector)}
    # The JVM outlives a session, and every later one has what it was started with.
    SparkContext._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll([*of_all.items()]))
    builder = SparkSession.builder.master("local[2]").appName("benchmarks")
    for name, value in {**of_all, **(settings or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    try:
        spark_segmentlog.register(spark)
        _register_peers(spark)
        yield spark
    finally:
        spark.stop()


def _register_peers(spark: SparkSession) -> None:
    """Register the benchmarks' own sources, with workers of their own.

    Spark keeps a pool of workers for each environment. In a shared one the peers would have the
    library's heap to collect after each task, and what the library does about that: one of them is
    there in both.
    """
    spark.dataSource.register(SharedReadyMadeSource)
    environment = spark.sparkContext.environment
    environment["SEGMENTLOG_BENCHMARK_PEER"] = "1"
    for source in (ReadyMadeSource, TickingSource, DiscardingSink):
        spark.dataSource.register(source)
    del environment["SEGMENTLOG_BENCHMARK_PEER"]


def drain(frame: DataFrame) -> None:
    """Run a query whose rows are thrown away in the JVM."""
    frame.write.format("noop").mode("overwrite").save()
