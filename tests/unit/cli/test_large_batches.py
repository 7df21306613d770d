"""A batch that grows beyond 128 MiB is served as any other, by everything that looks into it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from spark_segmentlog.cli.dump_entries import BatchGroup, segment_parts
from spark_segmentlog.cli.dump_options import DumpOptions
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.query.read_arrow import read_arrow
from spark_segmentlog.testing.builder import (
    CODECS,
    DEFAULT_TIMESTAMP_MS,
    LogBuilder,
    RecordSpec,
    compress,
    v2_batch,
    v2_record,
)

COUNT = 300
VALUE = b"0123456789abcdef" * 32 * 1024  # 512 KiB
T0 = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A partition of one large batch between two small ones; its timestamps ascend by 1 ms."""
    records = [
        v2_record(RecordSpec(key=b"%d" % at, value=VALUE), offset_delta=at, timestamp_delta=at)
        for at in range(COUNT)
    ]
    large = v2_batch(
        payload=compress("zstd", b"".join(records)),
        base_offset=1,
        count=COUNT,
        attributes=CODECS["zstd"],
        last_offset_delta=COUNT - 1,
        base_timestamp=DEFAULT_TIMESTAMP_MS,
        max_timestamp=DEFAULT_TIMESTAMP_MS + COUNT - 1,
    )
    first = v2_batch([RecordSpec(value=b"first")], codec="zstd")
    last = v2_batch([RecordSpec(value=b"last")], base_offset=COUNT + 1, codec="zstd")
    log = LogBuilder(tmp_path_factory.mktemp("large"))
    log.partition("t", 0, [[first, large, last]])
    log.clean_shutdown()
    return str(log.path)


def test_it_is_read(directory: str) -> None:
    sizes: list[int] = []
    for arrow_batch in read_arrow(directory):
        sizes += pc.binary_length(arrow_batch.column("value")).to_pylist()
    assert sizes == [5, *[len(VALUE)] * COUNT, 4]


def test_verification_finds_nothing_wrong_with_it(directory: str) -> None:
    assert list(verify(directory, deep=True)) == []


def test_it_is_dumped(directory: str) -> None:
    (segment,) = LogManager.open(directory).topic_partitions[T0].segments
    parts = segment_parts(segment, DumpOptions(records=True))
    entries = [entry for part in parts if isinstance(part, BatchGroup) for entry in part.entries()]
    found = [
        (entry["offset"], entry["valueSize"]) for entry in entries if entry["type"] == "record"
    ]
    sizes = [5, *[len(VALUE)] * COUNT, 4]
    assert found == list(enumerate(sizes))


def test_offset_of_a_time_is_found_within_it(directory: str) -> None:
    log = LogManager.open(directory).topic_partitions[T0]
    wanted = DEFAULT_TIMESTAMP_MS + COUNT - 2
    assert log.offset_for_timestamp(wanted) == (COUNT - 1, wanted)


def test_value_that_is_written_can_be_read(tmp_path: Path) -> None:
    value = bytes(140_000_000)
    with open_log(str(tmp_path), compression_type="zstd") as log:
        log.append("t", pa.record_batch({"value": pa.array([value, b"v"], pa.binary())}))
    found = [
        value.as_py() for batch in read_arrow(str(tmp_path)) for value in batch.column("value")
    ]
    assert found == [value, b"v"]
    assert list(verify(str(tmp_path), deep=True)) == []
