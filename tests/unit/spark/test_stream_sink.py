"""Streams into a log: each micro-batch lands once, whatever is replayed, killed or aborted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import OptionValueError, StagingError
from spark_segmentlog.log.write import open_commits
from spark_segmentlog.spark.writer import BATCH_ID_PROPERTY, QUERY_ID_PROPERTY
from tests.support.sink import Sink, values


@pytest.fixture
def sink(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Sink:
    return Sink(monkeypatch, [tmp_path / "sink"])


# Asked as Spark asks


def test_a_micro_batch_that_is_replayed_lands_once(sink: Sink) -> None:
    sink.micro_batch(0, values(3), [], topic="t")
    sink.micro_batch(1, values(2, start=3), topic="t")
    sink.micro_batch(1, values(2, start=3), topic="t")
    sink.micro_batch(0, values(3), topic="t")
    sink.micro_batch(2, values(1, start=5), topic="t")
    assert sink.column("value") == [f"v{place}".encode() for place in range(6)]
    assert sink.column("offset") == list(range(6))
    assert sink.staged() == []


def test_queries_count_their_micro_batches_each_for_itself(sink: Sink) -> None:
    for query_id in ("one", "two"):
        for batch_id in (0, 1):
            sink.micro_batch(batch_id, values(1), query_id=query_id, topic="t")
    assert len(sink.read()) == 4


def test_an_empty_micro_batch_is_committed_too(sink: Sink) -> None:
    sink.micro_batch(0, [], topic="t", num_partitions=2)
    assert sink.read() == []
    # A replay of it that found rows, which Spark does not make, would be skipped as well.
    sink.micro_batch(0, values(1), topic="t")
    assert sink.read() == []
    sink.micro_batch(1, values(1), topic="t")
    assert len(sink.read()) == 1


def test_a_query_that_was_killed_leaves_nothing_but_staging(sink: Sink) -> None:
    """The restarted query runs its micro-batch again and takes the staging of the first along."""
    sink.micro_batch(0, values(1), topic="t")
    sink.micro_batch(1, values(5), values(5), topic="t", commit=False)
    assert len(sink.read()) == 1
    assert len(sink.staged()) == 2
    sink.micro_batch(1, values(5), values(5), topic="t")
    assert len(sink.read()) == 11
    assert sink.staged() == []


def test_an_abort_removes_what_the_messages_tell_and_no_row_shows(sink: Sink) -> None:
    sink.micro_batch(0, values(1), topic="t")
    first = sink.micro_batch(1, values(5), topic="t", commit=False)
    other = sink.micro_batch(1, values(5), topic="t", commit=False)
    writer = sink.stream_writer(_value_schema(), {"topic": "t"})
    writer.abort([*first, None], 1)
    assert len(sink.staged()) == 1
    # The other attempt was still at work when the abort came; its files go with a later commit.
    sink.micro_batch(1, values(2), topic="t")
    assert sink.staged() == []
    assert len(sink.read()) == 3
    writer.abort([*other, None], 1)
    assert len(sink.read()) == 3


def test_an_abort_after_a_commit_that_waits_to_be_ended_takes_nothing(
    sink: Sink, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink.micro_batch(0, values(1), topic="t")
    messages = sink.micro_batch(1, values(5), topic="t", commit=False)
    with monkeypatch.context() as patch:
        patch.setattr(open_commits, "roll_forward", _fail)
        writer = sink.stream_writer(_value_schema(), {"topic": "t"})
        with pytest.raises(Exception, match="is committed but not visible yet"):
            writer.commit(messages, 1)
        writer.abort(messages, 1)
    assert len(sink.read()) == 1
    sink.micro_batch(1, values(5), topic="t")
    assert len(sink.read()) == 6


def test_reports_of_other_micro_batches_and_missing_ones_are_refused(sink: Sink) -> None:
    messages = sink.micro_batch(4, values(1), topic="t", commit=False)
    writer = sink.stream_writer(_value_schema(), {"topic": "t"})
    with pytest.raises(StagingError, match=r"micro-batch 5 has reports of \[4\]"):
        writer.commit(messages, 5)
    with pytest.raises(StagingError, match="1 of 2 tasks did not report"):
        writer.commit([*messages, None], 4)
    assert list(sink.path.glob("t-*")) == []


def test_a_task_that_does_not_say_its_query_writes_nothing(sink: Sink) -> None:
    writer = sink.stream_writer(_value_schema(), {"topic": "t"})
    for properties in ({}, {QUERY_ID_PROPERTY: "q"}, {BATCH_ID_PROPERTY: "1"}):
        with pytest.raises(StagingError, match="it could land twice"):
            sink.run_task(writer, 0, [values(1)], properties)
    assert sink.staged() == []


def test_an_application_id_takes_the_place_of_the_query_id(sink: Sink) -> None:
    for query_id in ("before", "after-the-move"):
        for batch_id in (0, 1):
            sink.micro_batch(batch_id, values(1), query_id=query_id, topic="t", txnAppId="app")
    assert len(sink.read()) == 2
    with pytest.raises(OptionValueError, match="'txnVersion' is not one of a stream"):
        sink.micro_batch(2, values(1), topic="t", txnAppId="app", txnVersion=3)


# Through Spark


class Pipeline:
    """Rows appended to a source log, and queries from it into a sink."""

    def __init__(self, spark: SparkSession, root: Path) -> None:
        self._spark = spark
        self.root = root

    def append(self, ids: range) -> None:
        rows = self._spark.range(ids.start, ids.stop, 1, 1)
        rows = rows.selectExpr("cast(id as string) as key", "cast(id as string) as value")
        writer = rows.write.format("segmentlog").mode("append").option("topic", "source")
        writer.option("num.partitions", 2).save(str(self.root / "source"))

    def read(self) -> DataFrame:
        stream = self._spark.readStream.format("segmentlog").option("startingOffsets", "earliest")
        return stream.load(str(self.root / "source"))

    def run(
        self, frame: DataFrame, checkpoint: str = "c", output_mode: str = "append"
    ) -> StreamingQuery:
        query = (
            frame.writeStream.format("segmentlog")
            .outputMode(output_mode)
            .option("topic", "sink")
            .option("num.partitions", 2)
            .option("checkpointLocation", str(self.root / checkpoint))
            .trigger(availableNow=True)
            .start(str(self.root / "sink"))
        )
        query.awaitTermination()
        return query

    def forget_last_commit(self, checkpoint: str = "c") -> None:
        commits = self.root / checkpoint / "commits"
        last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
        (commits / str(last)).unlink()
        (commits / f".{last}.crc").unlink()

    def sunk(self, topic: str = "sink") -> list[int]:
        table = read_arrow(self.root / "sink", columns=["value"], subscribe=topic).read_all()
        return [int(value) for value in table["value"].to_pylist()]


@pytest.fixture
def pipeline(spark: SparkSession, tmp_path: Path) -> Pipeline:
    return Pipeline(spark, tmp_path)


def test_a_restarted_query_replays_its_last_micro_batch_without_a_row_twice(
    pipeline: Pipeline,
) -> None:
    pipeline.append(range(100))
    rows = pipeline.read().select("key", "value")
    pipeline.run(rows)
    assert sorted(pipeline.sunk()) == list(range(100))
    pipeline.forget_last_commit()
    pipeline.append(range(100, 130))
    pipeline.run(rows)
    assert sorted(pipeline.sunk()) == list(range(130))
    # A checkpoint of its own is another query, and its rows are written again.
    pipeline.run(rows, checkpoint="other")
    assert sorted(pipeline.sunk()) == sorted([*range(130), *range(130)])


def test_a_time_before_1970_stops_the_query_and_its_micro_batch_is_not_there(
    pipeline: Pipeline,
) -> None:
    pipeline.append(range(3))
    rows = pipeline.read().select("key", "value")
    pipeline.run(rows)
    pipeline.append(range(3, 5))
    with pytest.raises(StreamingQueryException, match="-5000 ms is before 1970"):
        pipeline.run(rows.selectExpr("*", "timestamp_millis(-5000) as timestamp"))
    assert sorted(pipeline.sunk()) == [0, 1, 2]
    pipeline.run(rows)
    assert sorted(pipeline.sunk()) == [0, 1, 2, 3, 4]


def test_complete_mode_appends_and_wipes_nothing(pipeline: Pipeline) -> None:
    counts = pipeline.read().groupBy().count()
    counts = counts.selectExpr("cast(count as string) as value")
    for number in range(2):
        pipeline.append(range(10 * number, 10 * number + 10))
        pipeline.run(counts, output_mode="complete")
    assert [count for count in pipeline.sunk() if count] == [10, 20]


def test_update_mode_is_refused_by_spark(pipeline: Pipeline) -> None:
    pipeline.append(range(3))
    with pytest.raises(StreamingQueryException, match="segmentlog does not support Update mode"):
        pipeline.run(pipeline.read().groupBy().count(), output_mode="update")
    assert not (pipeline.root / "sink").exists()


def test_two_saves_in_one_micro_batch_both_land_and_a_replay_lands_once(
    pipeline: Pipeline,
) -> None:
    path = str(pipeline.root / "sink")

    def save_twice(frame: DataFrame, batch_id: int) -> None:
        rows = frame.select("key", "value").write.format("segmentlog").mode("append")
        for topic in ("plain", "plain", "versioned"):
            writer = rows.option("topic", topic).option("num.partitions", 1)
            if topic == "versioned":
                writer = writer.option("txnAppId", "job").option("txnVersion", batch_id)
            writer.save(path)

    def run() -> None:
        query = pipeline.read().writeStream.foreachBatch(save_twice)
        query = query.option("checkpointLocation", str(pipeline.root / "c"))
        query.trigger(availableNow=True).start().awaitTermination()

    pipeline.append(range(5))
    run()
    assert sorted(pipeline.sunk("plain")) == sorted([*range(5), *range(5)])
    assert sorted(pipeline.sunk("versioned")) == list(range(5))
    pipeline.forget_last_commit()
    run()
    assert sorted(pipeline.sunk("versioned")) == list(range(5))


def _value_schema() -> Any:
    from pyspark.sql.types import BinaryType, StructField, StructType

    return StructType([StructField("value", BinaryType())])


def _fail(*_: Any, **__: Any) -> None:
    raise OSError("the disk went away")
