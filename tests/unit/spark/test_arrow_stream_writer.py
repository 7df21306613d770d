"""The sink of a stream that is handed Arrow batches."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql.pandas.types import from_arrow_schema

from spark_segmentlog.spark.arrow_stream_writer import ArrowStreamWriter
from spark_segmentlog.spark.writer import make_stream_writer
from tests.support.sink import Sink, values


def test_batches_of_a_micro_batch_are_staged_and_committed(sink: Sink, tmp_path: Path) -> None:
    schema = from_arrow_schema(values(1).schema, prefer_timestamp_ntz=False)
    made = make_stream_writer({"path": str(tmp_path), "topic": "t"}, schema)
    assert isinstance(made, ArrowStreamWriter)
    sink.micro_batch(0, [values(2)], [values(1, start=2)], topic="t")
    assert sorted(sink.column("value")) == [b"v0", b"v1", b"v2"]
