"""Streams that run by either source over the same broker, and what each run read."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from tests.support.beside_kafka import ORDER
from tests.support.broker import Broker


@dataclass(slots=True)
class Job:
    """An AvailableNow query by either source, its checkpoint, and what each run read."""

    spark: SparkSession
    broker: Broker
    checkpoint: Path
    micro_batches: list[pa.Table] = field(default_factory=list)

    def run(self, source: str, **options: Any) -> Any:
        """Run it to the end of the log, and give its last progress."""
        self.micro_batches = []
        writer = self.load(source, **options).writeStream.foreachBatch(self._collect)
        writer = writer.trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.checkpoint)).start()
        query.awaitTermination()
        return query.lastProgress

    def load(self, source: str, **options: Any) -> DataFrame:
        """Give the stream of a source, which nothing runs yet."""
        reader = self.spark.readStream.format(source).options(**options)
        if source == "kafka":
            return reader.option("kafka.bootstrap.servers", self.broker.bootstrap_servers).load()
        paths = json.dumps([str(path) for path in self.broker.log_directories])
        return reader.option("paths", paths).load()

    @property
    def read(self) -> list[tuple[str, int, int]]:
        """Say of which records the rows were that the last run read."""
        return [
            (row["topic"], row["partition"], row["offset"])
            for table in self.micro_batches
            for row in table.select(["topic", "partition", "offset"]).to_pylist()
        ]

    def rows(self) -> list[pa.Table]:
        """Give the rows of each micro-batch that has some, in order."""
        return [table.sort_by(ORDER) for table in self.micro_batches if table.num_rows]

    def offsets(self) -> list[Any]:
        """Read the source's offset of every micro-batch."""
        files = [path for path in (self.checkpoint / "offsets").iterdir() if path.name.isdigit()]
        ordered = sorted(files, key=lambda path: int(path.name))
        return [json.loads(path.read_text().splitlines()[2]) for path in ordered]

    def _collect(self, frame: DataFrame, _: int) -> None:
        self.micro_batches.append(frame.toArrow())
