"""Rows to write and their way into a broker's log directories without Spark."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.write.commit import CommitResult, commit_staged_batches
from spark_segmentlog.log.write.prepare import CommitRequest
from spark_segmentlog.log.write.staged_leftovers import new_write_id
from spark_segmentlog.log.write.staging import StagingWriter
from spark_segmentlog.log.write.targets import read_target_layout
from spark_segmentlog.record.write.encoder import RecordBatchEncoder
from tests.support.broker import ConsumedRecord

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
_SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("timestamp", pa.int64()),
        ("headers", _HEADERS),
    ]
)


def draw_records(
    seed: int, count: int, *, topic: str, partition: int, first_offset: int
) -> list[ConsumedRecord]:
    """Draw records of every kind, as a consumer is to get them from `first_offset` on."""
    draw = random.Random(f"{seed} {topic} {partition}")

    def maybe(value: bytes) -> bytes | None:
        return draw.choice((None, b"", value, value, value))

    def headers() -> tuple[tuple[str, bytes | None], ...] | None:
        names = draw.choices(("a", "k\u00f6nig", ""), k=draw.randrange(4))
        return tuple((name, maybe(draw.randbytes(4))) for name in names) or None

    return [
        ConsumedRecord(
            topic,
            partition,
            first_offset + index,
            1_650_000_000_000 + draw.randrange(10**6),
            0,
            maybe(b"k%d" % draw.randrange(100)),
            maybe(draw.randbytes(4) * draw.randrange(60)),
            headers(),
        )
        for index in range(count)
    ]


def write_records(
    log_directories: Sequence[Path],
    records: Iterable[ConsumedRecord],
    *,
    compression: str = "none",
    config: SegmentConfig | None = None,
    new_partition_count: int = 1,
) -> CommitResult:
    """Stage records as one task would and commit them; offsets are the library's to give."""
    config = config or SegmentConfig()
    layout = read_target_layout(
        [str(path) for path in log_directories], new_partition_count=new_partition_count
    )
    encoder = RecordBatchEncoder(compression=compression, batch_size_bytes=2000)
    write_id = new_write_id()
    staging = StagingWriter(
        write_id=write_id, task_id=0, attempt_id=0, config=config, encoder=encoder
    )
    records = list(records)
    indexes = []
    for record in records:
        topic_partition = TopicPartition(record.topic, record.partition)
        layout.check_topic(record.topic)
        indexes.append(staging.index_of(topic_partition, layout.directory_of(topic_partition)))
    staging.write(_arrow(records), np.array(indexes, np.int64))
    return commit_staged_batches(
        CommitRequest(
            layout=layout, staged=(staging.finish(),), write_ids=(write_id,), config=config
        )
    )


def _arrow(records: Sequence[ConsumedRecord]) -> pa.RecordBatch:
    rows = [
        {
            "key": record.key,
            "value": record.value,
            "timestamp": record.timestamp_ms,
            "headers": None
            if record.headers is None
            else [{"key": name, "value": value} for name, value in record.headers],
        }
        for record in records
    ]
    return pa.RecordBatch.from_pylist(rows, schema=_SCHEMA)
