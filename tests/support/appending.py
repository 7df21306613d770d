"""Records for the appender, and what is in a log after it."""

from __future__ import annotations

import pyarrow as pa

from spark_segmentlog.log.names import TopicPartition
from tests.support.scenarios import read_rows

T0 = TopicPartition("t", 0)


def records(*values: bytes, **columns: object) -> pa.RecordBatch:
    return pa.record_batch({"value": pa.array(values, pa.binary()), **columns})


def values_of(directory: str, topic_partition: TopicPartition = T0) -> list[bytes | None]:
    return [value for _, _, value in read_rows([directory])[topic_partition]]
