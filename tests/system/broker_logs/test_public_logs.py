"""Public logs of many brokers and clients, read in place, against an independent codec.

They are not part of the project: ``SEGMENTLOG_REAL_LOGS`` names their folder, else
``../shared/real-logs`` from the project's root is looked for.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from aiokafka.record.memory_records import MemoryRecords

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import CrcMismatchError
from tests.support.project import PROJECT

REAL_LOGS = Path(os.environ.get("SEGMENTLOG_REAL_LOGS", PROJECT.parent / "shared" / "real-logs"))
CORRUPT_ON_PURPOSE = "fetch2.mytopic.nocompression.invalid_crc.kafka.0900"

pytestmark = pytest.mark.skipif(
    not REAL_LOGS.is_dir(), reason=f"the public logs are not at {REAL_LOGS}"
)

SETS = (
    sorted(
        {str(path.parent.parent.relative_to(REAL_LOGS)) for path in REAL_LOGS.rglob("*.log")}
        - {f"kafka-rust/{CORRUPT_ON_PURPOSE}"}
    )
    if REAL_LOGS.is_dir()
    else []
)


def _independent_rows(segment: Path) -> list[dict[str, Any]]:
    rows = []
    batches = MemoryRecords(segment.read_bytes())
    while batches.has_next():
        batch = batches.next_batch()
        assert batch.validate_crc()
        if not batch.is_control_batch:
            rows += [_row(record) for record in batch]
    return rows


def _row(record: Any) -> dict[str, Any]:
    headers = [{"key": key, "value": value} for key, value in record.headers]
    return {
        "offset": record.offset,
        "timestamp": -1 if record.timestamp is None else record.timestamp,
        "timestampType": -1 if record.timestamp_type is None else record.timestamp_type,
        "key": record.key,
        "value": record.value,
        "headers": headers or None,
    }


def _rows(path: Path) -> list[dict[str, Any]]:
    topic = path.name.rpartition("-")[0]
    table = read_arrow(str(path), subscribe=topic, include_headers=True).read_all()
    table = table.sort_by("offset")
    milliseconds = table["timestamp"].cast(pa.int64()).to_numpy() // 1000
    rows = table.drop_columns(["topic", "partition", "timestamp"]).to_pylist()
    return [
        {**row, "timestamp": int(timestamp)}
        for row, timestamp in zip(rows, milliseconds, strict=True)
    ]


@pytest.mark.parametrize("name", SETS)
def test_every_partition_equals_what_aiokafka_decodes(name: str) -> None:
    compared = 0
    for partition in sorted((REAL_LOGS / name).iterdir()):
        segments = sorted(partition.glob("*.log")) if partition.is_dir() else []
        expected = [row for segment in segments for row in _independent_rows(segment)]
        if segments:
            assert _rows(partition) == expected, partition
            compared += 1
    assert compared > 0


@pytest.mark.parametrize("fetch", ["fetch1", "fetch2"])
def test_values_of_the_0_8_and_0_9_brokers_equal_the_texts_sent_to_them(fetch: str) -> None:
    expected = (REAL_LOGS / "kafka-rust" / f"{fetch}.txt").read_bytes().splitlines()
    sets = [path for path in (REAL_LOGS / "kafka-rust").glob(f"{fetch}.*") if path.is_dir()]
    for path in sets:
        if path.name != CORRUPT_ON_PURPOSE:
            assert [row["value"] for row in _rows(path / "my-topic-0")] == expected


def test_the_set_with_a_wrong_checksum_is_refused() -> None:
    with pytest.raises(CrcMismatchError, match=r"0{20}\.log, position 0"):
        _rows(REAL_LOGS / "kafka-rust" / CORRUPT_ON_PURPOSE / "my-topic-0")
    table = read_arrow(
        str(REAL_LOGS / "kafka-rust" / CORRUPT_ON_PURPOSE), kafka_check_crcs=False
    ).read_all()
    assert table.num_rows == 1


def test_a_compacted_partition_starts_at_its_first_record_not_at_its_file_name() -> None:
    before, after = (
        REAL_LOGS / f"cobyforrester-kafka-{commit}" for commit in ("b5c655e", "77a7583")
    )
    offsets = [row["offset"] for row in _rows(before / "__consumer_offsets-21")]
    assert offsets == list(range(56))
    offsets = [row["offset"] for row in _rows(after / "__consumer_offsets-21")]
    assert offsets == [52, 53, 54, 55, 56, 57, 58, 59]
