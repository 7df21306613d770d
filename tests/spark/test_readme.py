"""The README's blocks run as they are typed, one after the other, in a fresh directory."""

from __future__ import annotations

import re
from pathlib import Path

from pyspark.sql import SparkSession

from spark_segmentlog import read_arrow
from spark_segmentlog.testing.builder import LogBuilder
from tests.log.reading import batch
from tests.readme_tables import README

PATHS = ("/var/lib/kafka/data", "/data/kafka-logs", "/data/checkpoint")


def blocks(kind: str, root: Path) -> list[str]:
    """Take the README's blocks of one language, its paths being below a folder."""
    text = README.read_text()
    for path in PATHS:
        text = text.replace(path, f"{root}{path}")
    return re.findall(rf"```{kind}\n(.*?)```", text, flags=re.DOTALL)


def test_every_block_of_the_readme_runs_as_typed(spark: SparkSession, tmp_path: Path) -> None:
    source = LogBuilder(f"{tmp_path}{PATHS[0]}")
    for partition in range(3):
        source.partition("orders", partition, [[batch(0, 5 + partition)]])
    names: dict[str, object] = {"spark": spark}
    try:
        for block in blocks("python", tmp_path):
            exec(block, names)
        for block in blocks("sql", tmp_path):
            spark.sql(block.strip().rstrip(";"))
        assert spark.table("orders").count() == 18
        # Both start at the latest offset, which their first micro-batch fixes.
        for name in ("query", "totals"):
            names[name].processAllAvailable()  # type: ignore[attr-defined]
        more = spark.createDataFrame([("k", "new", 2)], "key string, value string, partition int")
        more.write.format("segmentlog").mode("append").option("topic", "orders").save(
            f"{tmp_path}{PATHS[0]}"
        )
        for name in ("query", "totals"):
            names[name].processAllAvailable()  # type: ignore[attr-defined]
    finally:
        spark.sql("DROP VIEW IF EXISTS orders")
        for name in ("query", "totals"):
            if name in names:
                names[name].stop()  # type: ignore[attr-defined]
    written = f"{tmp_path}{PATHS[1]}"
    orders = read_arrow(written, subscribe="orders").read_all()
    assert sorted(orders["partition"].to_pylist()) == [0] * 5 + [1] * 6 + [2] * 7
    copied = read_arrow(written, subscribe="copy").read_all()
    assert copied.select(["value", "partition"]).to_pylist() == [{"value": b"new", "partition": 2}]
    totals = read_arrow(written, subscribe="totals").read_all()
    assert totals.select(["key", "value"]).to_pylist() == [{"key": b"2", "value": b"1"}]
