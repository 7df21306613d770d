"""A handful of real batch writes: what Spark does with the writer, its columns and its tasks."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import SparkSession
from pyspark.taskcontext import TaskContext

from spark_segmentlog import read_arrow
from tests.support.sink_rows import CODECS, PARTITIONS_COUNT, ROWS, Row, check, to_batch
from tests.support.store_data import Store


def save(frame: Any, path: Path, *, mode: str = "append", **options: Any) -> None:
    writer = frame.write.format("segmentlog").mode(mode)
    for name, value in options.items():
        writer = writer.option(name.replace("_", "."), value)
    writer.save(str(path))


def test_a_time_before_1970_fails_the_write_and_names_its_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    save(spark.sql("select 'before' as value"), tmp_path, topic="t")
    times = "timestamp'1970-01-01 00:00:00'", "timestamp'1969-12-31 23:59:55'"
    frame = spark.sql(
        " union all ".join(f"select 'v' as value, {time} as timestamp" for time in times)
    )
    with pytest.raises(
        PySparkException, match=r"column timestamp, row [01]: -5000 ms is before 1970"
    ):
        save(frame, tmp_path, topic="t")
    assert read(tmp_path, "value") == [b"before"]
    # No time at all is -1 ms: what was read of such a log can be written.
    none = "select 'v' as value, timestamp'1969-12-31 23:59:59.999' as timestamp"
    save(spark.sql(none), tmp_path, topic="t")
    assert read(tmp_path, "timestamp")[1] == datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


def read(path: Path, *columns: str, **options: Any) -> list[Any]:
    rows = read_arrow(path, columns=columns, **options).read_all().to_pylist()
    return [tuple(row.values()) if len(columns) > 1 else row[columns[0]] for row in rows]


def test_a_topic_in_a_bucket_is_written_as_a_log(
    spark: SparkSession, open_store: Callable[[str], Store], tmp_path: Path
) -> None:
    store = open_store("aiven-zstd")
    reader = spark.read.format("segmentlog").option("includeHeaders", "true")
    columns = ("topic", "partition", "timestamp", "key", "value", "headers")
    tier = reader.option("subscribe", "t.none").load(store.remote).select(*columns)
    save(tier, tmp_path / "log", num_partitions=2)
    written = read_arrow(tmp_path / "log", include_headers=True, columns=columns).read_all()
    stored = read_arrow(
        store.remote, subscribe="t.none", include_headers=True, columns=columns
    ).read_all()
    assert stored.num_rows == 695
    assert written.equals(stored)


def test_rows_are_inserted_through_a_view_that_ends_where_it_did(
    spark: SparkSession, tmp_path: Path
) -> None:
    save(spark.sql("select 'v' as value"), tmp_path, topic="t")
    view = f"CREATE OR REPLACE TEMPORARY VIEW log USING segmentlog OPTIONS (path '{tmp_path}')"
    spark.sql(view)
    spark.sql("INSERT INTO log (topic, value) SELECT 'u', value FROM log")
    assert read(tmp_path, "topic", "key", "value") == [("t", None, b"v"), ("u", None, b"v")]
    assert spark.table("log").count() == 1
    spark.sql(view)
    assert spark.table("log").count() == 2
    spark.catalog.dropTempView("log")


def test_a_frame_comes_back_through_spark_as_it_was(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql(
        """
        select * from values
            ('k\u00f6nig', X'00FF', 't', 1, timestamp'2024-02-29 12:00:00.123',
                array(named_struct('key', 'h', 'value', X'01'),
                      named_struct('key', 'h', 'value', null))),
            (null, X'', 't', 0, timestamp'1970-01-02 00:00:00', null),
            ('', null, 'u', null, timestamp'9999-12-31 23:59:59.999', array())
        as rows(KEY, Value, topic, partition, timestamp, headers)
        """
    )
    save(rows, tmp_path / "log", num_partitions=2)
    back = spark.read.format("segmentlog").option("includeHeaders", "true")
    table = back.load(str(tmp_path / "log")).orderBy("topic", "partition").toArrow()
    times = table["timestamp"].to_pylist()
    assert times == [
        datetime(1970, 1, 2, tzinfo=UTC),
        datetime(2024, 2, 29, 12, 0, 0, 123_000, tzinfo=UTC),
        datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC),
    ]
    plain = table.select(["key", "value", "topic", "headers"]).to_pylist()
    assert [tuple(row.values()) for row in plain] == [
        (None, b"", "t", None),
        (
            "k\u00f6nig".encode(),
            b"\x00\xff",
            "t",
            [{"key": "h", "value": b"\x01"}, {"key": "h", "value": None}],
        ),
        (b"", None, "u", None),
    ]
    # As it is, and with Spark's wide text.
    spark.conf.set("spark.sql.execution.arrow.useLargeVarTypes", "true")
    try:
        save(back.load(str(tmp_path / "log")), tmp_path / "copy", num_partitions=2)
    finally:
        spark.conf.unset("spark.sql.execution.arrow.useLargeVarTypes")
    columns = ("topic", "partition", "key", "value", "timestamp", "headers")
    copied = read(tmp_path / "copy", *columns, include_headers=True)
    assert copied == read(tmp_path / "log", *columns, include_headers=True)


def test_a_time_is_the_same_point_in_time_in_any_session_zone(
    spark: SparkSession, tmp_path: Path
) -> None:
    spark.conf.set("spark.sql.session.timeZone", "America/St_Johns")
    try:
        rows = spark.sql("select 'v' as value, timestamp'2024-07-01 12:00:00' as timestamp")
        save(rows, tmp_path, topic="t")
        naive = spark.sql("select 'v' as value, timestamp_ntz'2024-07-01 12:00:00' as timestamp")
        with pytest.raises(AnalysisException, match="a time without zone is no point in time"):
            save(naive, tmp_path, topic="t")
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert read(tmp_path, "timestamp") == [datetime(2024, 7, 1, 14, 30, tzinfo=UTC)]


def test_a_bad_frame_is_refused_when_it_is_planned(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(3).selectExpr("cast(id as string) as value")
    with pytest.raises(AnalysisException, match="no column 'id' can be written"):
        save(rows.selectExpr("value", "1 as id"), tmp_path, topic="t")
    with pytest.raises(AnalysisException, match="no option 'topics'; the nearest one is 'topic'"):
        save(rows, tmp_path, topics="t")
    with pytest.raises(AnalysisException, match="no path is given"):
        rows.write.format("segmentlog").option("topic", "t").mode("append").save()
    for mode in ("ignore", "error"):
        with pytest.raises(AnalysisException):
            save(rows, tmp_path, mode=mode, topic="t")
    assert list(tmp_path.glob("t-*")) == []


def test_a_bad_row_fails_the_job_by_name_and_nothing_shows(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = spark.range(0, 20_000, 1, 2).selectExpr(
        "cast(id as string) as value", "if(id = 15000, null, 't') as topic"
    )
    with pytest.raises(PySparkException, match=r"column topic, row 5000: null topic"):
        save(rows, tmp_path)
    assert list(tmp_path.glob("t-*")) == []
    assert list(tmp_path.glob("*.staged")) == []


def test_an_attempt_that_fails_half_way_leaves_no_row(spark: SparkSession, tmp_path: Path) -> None:
    """Spark tries the task again; the rows of both attempts would be twice the rows."""
    marker = str(tmp_path / "failed-once")

    def fail_once(ids: Iterable[int]) -> Iterable[tuple[str]]:
        context = TaskContext.get()
        assert context is not None
        for number, each in enumerate(ids):
            if context.partitionId() == 1 and context.attemptNumber() == 0 and number == 15_000:
                Path(marker).touch()
                raise RuntimeError("half of the rows are out")
            yield (str(each),)

    ids = spark.sparkContext.range(0, 40_000, 1, 2)
    rows = spark.createDataFrame(ids.mapPartitions(fail_once), "value string")
    save(rows, tmp_path / "log", topic="t")
    assert Path(marker).exists()
    values = [int(value) for value in read(tmp_path / "log", "value")]
    assert values == list(range(40_000))
    assert list((tmp_path / "log").glob("*.staged")) == []


def test_overwrite_and_append_by_their_modes(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(0, 5, 1, 1).selectExpr("cast(id as string) as value")
    save(rows, tmp_path, topic="t")
    save(rows.limit(2), tmp_path, topic="t", mode="overwrite")
    save(rows.limit(1), tmp_path, topic="t")
    assert read(tmp_path, "offset", "value") == [(5, b"0"), (6, b"1"), (7, b"0")]


@settings(max_examples=3)
@given(rows=st.lists(ROWS, min_size=1, max_size=200), codec=st.sampled_from(CODECS))
def test_any_rows_come_back_through_spark(spark: SparkSession, rows: list[Row], codec: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        frame = spark.createDataFrame(pa.Table.from_batches([to_batch(rows)])).coalesce(1)
        save(frame, Path(folder), num_partitions=PARTITIONS_COUNT, compression_type=codec)
        source = spark.read.format("segmentlog").option("includeHeaders", "true").load(folder)
        check([rows], source.orderBy("topic", "partition", "offset").toArrow())
