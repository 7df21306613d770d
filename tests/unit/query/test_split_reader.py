"""What a task gives of a split, and what bad bytes become."""

from __future__ import annotations

import logging
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import CrcMismatchError, DataLossError
from spark_segmentlog.query.split_reader import SMALL_ARROW_ROWS, joined
from spark_segmentlog.testing.builder import ABORT, LogBuilder, control_batch
from tests.support.arrow_reading import batch, offsets, rows_of, splits_of


@pytest.mark.parametrize("is_clean", [True, False])
def test_each_task_knows_the_aborts_that_later_segments_tell(
    tmp_path: Path, is_clean: bool
) -> None:
    log = LogBuilder(tmp_path)
    writes = {"transactional": True, "producer_id": 7, "producer_epoch": 0}
    segments = [
        [batch(0, 1, **writes), batch(1, 1)],
        [batch(2, 1, **writes), batch(3, 1), batch(4, 1, **writes)],
        [batch(5, 1), control_batch(ABORT, base_offset=6, producer_id=7)],
    ]
    log.partition("t", 0, segments)
    if is_clean:
        log.clean_shutdown()
    options: dict[str, Any] = {"kafka.isolation.level": "read_committed"}
    splits = pickle.loads(pickle.dumps(splits_of(tmp_path, **options)))
    assert [rows_of(tmp_path, [split], **options) for split in splits] == [[1], [3], [5]]


@pytest.fixture
def one_bad_batch(tmp_path: Path) -> tuple[Path, list[bytes]]:
    """Five batches of two records, the third with a wrong checksum."""
    batches = [batch(base, 1, 2) for base in range(0, 10, 2)]
    bad = bytearray(batches[2])
    bad[-2] ^= 1
    batches[2] = bytes(bad)
    LogBuilder(tmp_path).partition("t", 0, [batches])
    return tmp_path, batches


def test_failfast_names_the_batch(one_bad_batch: tuple[Path, list[bytes]]) -> None:
    path, batches = one_bad_batch
    with pytest.raises(CrcMismatchError) as caught:
        read_arrow(path).read_all()
    assert caught.value.position == len(batches[0] + batches[1])
    assert caught.value.base_offset == 4
    assert offsets(path, kafka_check_crcs=False) == list(range(10))


def test_dropmalformed_skips_the_batch_and_warns(
    one_bad_batch: tuple[Path, list[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    path, batches = one_bad_batch
    with caplog.at_level(logging.WARNING):
        assert offsets(path, mode="DROPMALFORMED") == [0, 1, 2, 3, 6, 7, 8, 9]
    assert str(len(batches[2])) in caplog.text
    assert f"position {len(batches[0] + batches[1])}" in caplog.text


def test_permissive_gives_a_row_where_there_is_a_column(
    one_bad_batch: tuple[Path, list[bytes]],
) -> None:
    path, batches = one_bad_batch
    assert offsets(path, mode="PERMISSIVE") == [0, 1, 2, 3, 6, 7, 8, 9]
    columns = ["offset", "_corrupt_record", "topic"]
    rows = read_arrow(path, columns=columns, mode="PERMISSIVE").read_all().to_pylist()
    good = [row for row in rows if row["_corrupt_record"] is None]
    assert [row["offset"] for row in good] == [0, 1, 2, 3, 6, 7, 8, 9]
    (bad,) = (row for row in rows if row["_corrupt_record"] is not None)
    assert (bad["offset"], bad["topic"]) == (None, None)
    corrupt = bad["_corrupt_record"]
    assert corrupt["path"].endswith("t-0/00000000000000000000.log")
    assert corrupt["position"] == len(batches[0] + batches[1])
    assert corrupt["length"] == len(batches[2])
    assert (corrupt["startOffset"], corrupt["endOffset"]) == (4, 6)
    assert "crc" in corrupt["reason"]
    dropped = read_arrow(path, columns=columns, mode="DROPMALFORMED").read_all()
    assert dropped["_corrupt_record"].null_count == dropped.num_rows == 8


def test_segment_that_goes_between_plan_and_read_is_loss(three_segments: Path) -> None:
    splits = splits_of(three_segments)
    first = three_segments / "t-0" / f"{0:020}.log"
    first.rename(f"{first}.deleted")
    with pytest.raises(DataLossError, match=r"\[0, 10\).*t-0"):
        rows_of(three_segments, splits)
    assert rows_of(three_segments, splits, failOnDataLoss="false") == list(range(10, 30))


def test_segment_that_is_merged_into_another_is_found(three_segments: Path) -> None:
    splits = splits_of(three_segments)
    directory = three_segments / "t-0"
    first, second = (directory / f"{base:020}.log" for base in (0, 10))
    merged = first.read_bytes() + second.read_bytes()
    first.write_bytes(merged)
    second.rename(f"{second}.deleted")
    for index in directory.glob("*index"):
        index.unlink()
    assert rows_of(three_segments, splits) == list(range(30))


def test_small_batches_are_put_together_in_their_order() -> None:
    small = [pa.RecordBatch.from_pydict({"n": [number]}) for number in range(5)]
    large = pa.RecordBatch.from_pydict({"n": list(range(5, 5 + SMALL_ARROW_ROWS))})
    first, last = joined([*small, large, small[0]])
    assert first.column("n").to_pylist() == list(range(5 + SMALL_ARROW_ROWS))
    assert last.num_rows == 1


def test_batches_without_columns_keep_the_number_of_their_rows() -> None:
    rows = pa.RecordBatch.from_pydict({"n": [1, 2, 3]}).select([])
    (whole,) = joined([rows, rows])
    assert (whole.num_rows, whole.num_columns) == (6, 0)
