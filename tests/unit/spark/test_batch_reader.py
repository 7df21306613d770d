"""Batch reads through Spark: what only Spark can get wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PySparkException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.functions import col, expr, lit, timestamp_millis
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

import spark_segmentlog
from spark_segmentlog import read_arrow
from spark_segmentlog.spark.datasource import SegmentLogDataSource
from spark_segmentlog.testing.builder import (
    ABORT,
    LogBuilder,
    RecordSpec,
    control_batch,
    v2_batch,
)
from tests.support.project import PROJECT

SetSetting = Callable[[str, str], None]
PUSHDOWN_CONF = "spark.sql.python.filterPushdown.enabled"
FIRST_MS = 1_795_813_151_000


def batch(base_offset: int, count: int, **fields: Any) -> bytes:
    records = [
        RecordSpec(
            key=None if offset % 3 == 0 else b"k%d" % offset,
            value=b"value-%d" % offset,
            timestamp_ms=FIRST_MS + 1000 * offset,
            headers=[("h", None)] if offset % 5 == 0 else (),
        )
        for offset in range(base_offset, base_offset + count)
    ]
    return v2_batch(records, base_offset=base_offset, **fields)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Topics a (two partitions) and b (one), 30 offsets each in two segments."""
    builder = LogBuilder(tmp_path_factory.mktemp("logs"))
    for topic, partition in (("a", 0), ("a", 1), ("b", 0)):
        segments = [[batch(base, 5), batch(base + 5, 10, codec="lz4")] for base in (0, 15)]
        builder.partition(topic, partition, segments)
    builder.clean_shutdown()
    return builder.path


def load(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    return spark.read.format("segmentlog").options(**options).load(str(path))


def offsets(frame: DataFrame) -> list[int]:
    return sorted(row.offset for row in frame.select("offset").collect())


# Ways in


def test_format_is_found_by_name_and_gives_the_rows_of_arrow(
    spark: SparkSession, log: Path
) -> None:
    frame = load(spark, log, includeHeaders="true")
    assert [(field.name, field.dataType.simpleString()) for field in frame.schema] == [
        ("key", "binary"),
        ("value", "binary"),
        ("topic", "string"),
        ("partition", "int"),
        ("offset", "bigint"),
        ("timestamp", "timestamp"),
        ("timestampType", "int"),
        ("headers", "array<struct<key:string,value:binary>>"),
    ]
    by_spark = frame.orderBy("topic", "partition", "offset").toArrow()
    assert by_spark.to_pylist() == read_arrow(log, include_headers=True).read_all().to_pylist()
    assert frame.rdd.getNumPartitions() == 6


def test_a_list_of_paths_is_one_log(spark: SparkSession, log: Path) -> None:
    paths = [str(log / "a-1"), str(log / "b-0" / f"{15:020}.log")]
    frame = spark.read.format("SegmentLog").load(paths)
    counted = {(row.topic, row["count"]) for row in frame.groupBy("topic").count().collect()}
    assert counted == {("a", 30), ("b", 15)}


def test_temporary_view_in_sql(spark: SparkSession, log: Path) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW logs USING segmentlog OPTIONS (path '{log}', "
        "subscribe 'b', startingOffsets '{\"b\":{\"0\":25}}')"
    )
    assert spark.sql("SELECT sum(offset), count(*) FROM logs").first() == (
        25 + 26 + 27 + 28 + 29,
        5,
    )
    spark.catalog.dropTempView("logs")


@pytest.mark.parametrize("columns", ["", "(offset bigint)"])
def test_catalog_table_is_refused_in_a_sentence_that_names_the_view(
    spark: SparkSession, log: Path, columns: str
) -> None:
    def use_table() -> None:
        spark.sql(f"CREATE TABLE refused {columns} USING segmentlog OPTIONS (path '{log}')")
        spark.sql("SELECT * FROM refused").collect()

    with pytest.raises(AnalysisException, match="CREATE TEMPORARY VIEW v USING segmentlog"):
        use_table()
    spark.sql("DROP TABLE IF EXISTS refused")


def test_register_by_hand(spark: SparkSession, log: Path) -> None:
    spark_segmentlog.register(spark)
    assert load(spark, log).count() == 90


BESIDE_A_BROKEN_PACKAGE = """
import sys
import spark_segmentlog
from pyspark.sql import SparkSession

path = sys.argv[1]
builder = SparkSession.builder.master("local[1]")
for name in ("spark.driver.host", "spark.driver.bindAddress"):
    builder = builder.config(name, "127.0.0.1")
spark = builder.config("spark.ui.enabled", "false").getOrCreate()
try:
    spark.read.format("segmentlog").load(path).count()
except Exception as error:
    assert "DATA_SOURCE_NOT_FOUND" in str(error), error
else:
    raise AssertionError("Spark finds sources beside a broken one: `register` has had its day")
spark_segmentlog.register(spark)
assert spark.read.format("segmentlog").load(path).count() == 90
"""


def test_register_by_hand_helps_beside_a_package_that_fails_to_import(
    log: Path, tmp_path: Path
) -> None:
    """Spark looks for sources once a driver process, so that it takes one of its own."""
    (tmp_path / "pyspark_broken.py").write_text("import a_module_that_is_not_there")
    environment = dict(os.environ, PYSPARK_PYTHON=sys.executable)
    paths = [str(tmp_path), str(PROJECT), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    command = [sys.executable, "-c", BESIDE_A_BROKEN_PACKAGE, str(log)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_module_that_spark_looks_into_loads_no_compiler_and_no_arrow() -> None:
    code = (
        "import sys, pyspark_segmentlog as m; m.DefaultSource.name();"
        "heavy = {'numba', 'pyarrow', 'numpy', 'pandas'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_schema_of_records_loads_no_compiler() -> None:
    code = (
        "import sys, pyspark_segmentlog as m; m.DefaultSource({'path': 'x'}).schema();"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# Schemas


def test_schema_of_the_user_in_any_order_and_nullability(spark: SparkSession, log: Path) -> None:
    reader = spark.read.format("segmentlog").option("subscribe", "b")
    frame = reader.schema("timestamp timestamp, OFFSET bigint NOT NULL, value binary").load(
        str(log)
    )
    assert frame.schema["OFFSET"].nullable is False
    (row,) = frame.where("offset = 3").collect()
    assert (row.OFFSET, row.value) == (3, b"value-3")
    headers = "array<struct<key string not null, value binary>> not null"
    strict = reader.schema(f"headers {headers}").load(str(log)).where("false")
    assert strict.count() == 0


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ("ofset bigint", "no column 'ofset'; the nearest one is 'offset'"),
        ("offset int", "column 'offset' is asked for as INT, it is BIGINT"),
        ("timestamp timestamp_ntz", "asked for as TIMESTAMP_NTZ, it is TIMESTAMP"),
        ("value string", "asked for as STRING, it is BINARY"),
        ("offset bigint, OFFSET bigint", r"COLUMN_ALREADY_EXISTS|more than once"),
    ],
)
def test_schema_that_does_not_fit_is_an_error_when_planned(
    spark: SparkSession, log: Path, schema: str, text: str
) -> None:
    with pytest.raises(AnalysisException, match=text):
        spark.read.format("segmentlog").schema(schema).load(str(log)).collect()


def test_null_in_a_column_that_is_not_null_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[batch(0, 5)]])
    frame = spark.read.format("segmentlog").schema("key binary NOT NULL").load(str(tmp_path))
    with pytest.raises(PythonException, match="SchemaError: column 'key' is asked for as NOT NULL"):
        frame.collect()


@pytest.mark.parametrize("view", ["records", "batches", "segments", "transactions"])
def test_arrow_schema_is_the_one_that_spark_makes(view: str) -> None:
    from spark_segmentlog.query.options import parse_read_options
    from spark_segmentlog.query.schema import default_schema

    options = {"path": "/logs", "view": view, "includeHeaders": "true"}
    schema = SegmentLogDataSource(options).schema()
    assert isinstance(schema, StructType)
    arrow = default_schema(parse_read_options(options))
    assert to_arrow_schema(schema, timezone="UTC").equals(arrow)
    assert from_arrow_schema(arrow, prefer_timestamp_ntz=False) == schema


# Errors


def test_options_are_checked_by_load(spark: SparkSession, log: Path) -> None:
    with pytest.raises(
        AnalysisException, match=r"UnknownOptionError: no option 'subscrib'.*'subscribe'"
    ):
        load(spark, log, subscrib="a")
    with pytest.raises(
        AnalysisException, match=r"OptionValueError: option 'startingOffsets' is 'no"
    ):
        load(spark, log, startingOffsets="nowhere")
    with pytest.raises(AnalysisException, match="LogPathNotFoundError"):
        load(spark, log / "missing").collect()


def test_bad_bytes_name_file_position_and_offset(spark: SparkSession, tmp_path: Path) -> None:
    bad = bytearray(batch(5, 5))
    bad[80] ^= 1
    LogBuilder(tmp_path).partition("t", 0, [[batch(0, 5), bytes(bad), batch(10, 5)]])
    text = r"CrcMismatchError: .*t-0/0{20}\.log, position \d+, base offset 5"
    with pytest.raises(PythonException, match=text):
        load(spark, tmp_path).collect()
    good = [*range(5), *range(10, 15)]
    assert offsets(load(spark, tmp_path, mode="dropMalformed")) == good
    schema = (
        "offset bigint, _corrupt_record "
        "struct<path string, position bigint, length bigint, reason string>"
    )
    permissive = spark.read.format("segmentlog").schema(schema).option("mode", "PERMISSIVE")
    rows = permissive.load(str(tmp_path)).collect()
    assert sorted(row.offset for row in rows if row.offset is not None) == good
    (corrupt,) = [row._corrupt_record for row in rows if row._corrupt_record is not None]
    assert corrupt.path.endswith(f"{0:020}.log")
    assert corrupt.length == len(bad)


# Planning


def test_no_rows_where_there_is_nothing_to_read(spark: SparkSession, tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[]])
    assert load(spark, tmp_path).collect() == []
    assert list(_reader(tmp_path).read(InputPartition(None))) == []
    assert _reader(tmp_path).partitions() == []


def test_latest_is_fixed_when_a_load_is_first_used(spark: SparkSession, tmp_path: Path) -> None:
    directory = LogBuilder(tmp_path).partition("t", 0, [[batch(0, 2)]])
    frame = load(spark, tmp_path)
    assert frame.count() == 2
    with open(directory / f"{0:020}.log", "ab") as file:
        file.write(batch(2, 2))
    assert frame.count() == 2
    assert load(spark, tmp_path).count() == 4


def test_splits_by_option(spark: SparkSession, log: Path) -> None:
    assert load(spark, log, maxRecordsPerPartition="7").rdd.getNumPartitions() == 15
    assert load(spark, log, minPartitions="2").rdd.getNumPartitions() == 3
    packed = load(spark, log, maxPartitionBytes="1g")
    assert packed.rdd.getNumPartitions() == 1
    assert packed.count() == 90


def test_views_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    writes = {"transactional": True, "producer_id": 4, "producer_epoch": 1}
    marker = control_batch(ABORT, base_offset=5, producer_id=4, producer_epoch=1)
    LogBuilder(tmp_path).partition("t", 0, [[batch(0, 5, **writes), marker]])
    batches = load(spark, tmp_path, view="batches").orderBy("baseOffset").collect()
    assert [(batch.baseOffset, batch.isControl, batch.recordCount) for batch in batches] == [
        (0, False, 5),
        (5, True, 1),
    ]
    (transaction,) = load(spark, tmp_path, view="transactions").collect()
    assert (transaction.state, transaction.firstOffset, transaction.markerOffset) == (
        "aborted",
        0,
        5,
    )
    segments = load(spark, tmp_path, view="segments")
    assert [row.endOffset for row in segments.select("endOffset").collect()] == [6]


# Pushdown


def _reader(path: Path, **options: str) -> Any:
    source = SegmentLogDataSource({"path": str(path), **options})
    schema = source.schema()
    assert isinstance(schema, StructType)
    return source.reader(schema)


@pytest.mark.parametrize("conf", ["false", "true"])
@pytest.mark.parametrize("pushdown", ["auto", "true", "false"])
def test_filters_give_the_same_rows_with_pushdown_on_and_off(
    spark: SparkSession, log: Path, spark_settings: SetSetting, conf: str, pushdown: str
) -> None:
    spark_settings(PUSHDOWN_CONF, conf)
    second = timestamp_millis(lit(FIRST_MS + 17_000))
    frame = load(spark, log, pushdown=pushdown).where(
        (col("topic") == "a")
        & col("partition").isin(1, 7)
        & (col("offset") >= 4)
        & (col("offset") < 25)
        & (col("timestamp") >= second)
        & (col("value") != b"value-19")
    )
    assert offsets(frame) == [17, 18, 20, 21, 22, 23, 24]
    narrows = (conf, pushdown) == ("true", "true") or (
        spark.version >= "5" and (conf, pushdown) == ("true", "auto")
    )
    assert frame.rdd.getNumPartitions() == (1 if narrows else 6)


def test_one_load_filtered_and_whole_in_every_way(
    spark: SparkSession, log: Path, spark_settings: SetSetting
) -> None:
    spark_settings(PUSHDOWN_CONF, "true")
    frame = load(spark, log, subscribe="b")
    few = frame.where("offset < 3")
    assert offsets(few) == [0, 1, 2]
    assert offsets(frame) == list(range(30))
    assert offsets(few.unionByName(frame)) == sorted([*range(3), *range(30)])
    other = frame.where("offset >= 28")
    assert offsets(few.unionByName(other)) == [0, 1, 2, 28, 29]
    joined = frame.alias("all").join(few.alias("few"), expr("all.offset = few.offset + 20"))
    assert [row.offset for row in joined.select("all.offset").orderBy("offset").collect()] == [
        20,
        21,
        22,
    ]
    frame.createOrReplaceTempView("whole")
    query = "SELECT (SELECT count(*) FROM whole WHERE offset < 3), (SELECT count(*) FROM whole)"
    assert tuple(spark.sql(query).first() or ()) == (3, 30)
    spark.catalog.dropTempView("whole")
    few.cache()
    assert few.count() == 3
    assert offsets(frame) == list(range(30))
    assert offsets(frame.where("offset < 5")) == list(range(5))
    few.unpersist()


def test_shared_reader_of_spark_before_5_is_why_auto_does_not_narrow(
    spark: SparkSession, log: Path, spark_settings: SetSetting
) -> None:
    spark_settings(PUSHDOWN_CONF, "true")
    frame = load(spark, log, subscribe="b", pushdown="true")
    assert offsets(frame.where("offset < 3")) == [0, 1, 2]
    # Should this fail on a Spark before 5, the fault is mended and `auto` may narrow there too.
    assert offsets(frame) == ([0, 1, 2] if spark.version < "5" else list(range(30)))


def test_rows_of_bad_bytes_meet_predicates_as_nulls(
    spark: SparkSession, tmp_path: Path, spark_settings: SetSetting
) -> None:
    spark_settings(PUSHDOWN_CONF, "true")
    bad = bytearray(batch(5, 5))
    bad[80] ^= 1
    LogBuilder(tmp_path).partition("t", 0, [[batch(0, 5), bytes(bad), batch(10, 5)]])
    frame = (
        spark.read.format("segmentlog")
        .schema(
            "offset bigint, _corrupt_record "
            "struct<path string, position bigint, length bigint, reason string>"
        )
        .options(mode="PERMISSIVE", pushdown="true")
        .load(str(tmp_path))
    )
    assert [row.offset for row in frame.where("offset >= 3").orderBy("offset").collect()] == [
        3,
        4,
        *range(10, 15),
    ]


def test_error_of_a_task_keeps_its_class_name(spark: SparkSession, tmp_path: Path) -> None:
    directory = LogBuilder(tmp_path).partition("t", 0, [[batch(0, 5)], [batch(5, 5)]])
    frame = load(spark, tmp_path)
    assert frame.count() == 10
    for index in ("log", "index", "timeindex"):
        (directory / f"{0:020}.{index}").rename(directory / f"{0:020}.{index}.deleted")
    with pytest.raises(PySparkException, match=r"DataLossError: .*COULD_NOT_READ_OFFSET_RANGE"):
        frame.count()
    loss_is_fine = load(spark, tmp_path, failOnDataLoss="false")
    assert offsets(loss_is_fine) == list(range(5, 10))


def test_options_of_a_query_on_the_kafka_source_run_unchanged(
    spark: SparkSession, log: Path
) -> None:
    frame = (
        spark.read.format("segmentlog")
        .option("kafka.bootstrap.servers", "host1:9092,host2:9092")
        .option("subscribe", "a,b")
        .option("kafka.group.id", "readers")
        .option("startingOffsets", json.dumps({"a": {"0": 23, "1": -2}, "b": {"0": 10}}))
        .option("endingOffsets", json.dumps({"a": {"0": 25, "1": -1}, "b": {"0": 12}}))
        .load(str(log))
        .selectExpr("CAST(key AS STRING)", "CAST(value AS STRING)", "offset")
    )
    assert frame.count() == 2 + 30 + 2
