"""Columns of the views of batches, segments and transactions."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from spark_segmentlog.query.read_options import View
from spark_segmentlog.query.view_columns import (
    VIEW_COLUMNS,
    BatchRows,
    SegmentRow,
    make_batches,
    make_row,
    schema_of,
)
from tests.support.reading import batch, build_log, open_one


@pytest.mark.parametrize("view", VIEW_COLUMNS)
def test_a_schema_has_the_columns_of_the_table_in_their_order(view: View) -> None:
    names = [name for name, _, _ in VIEW_COLUMNS[view]]
    assert schema_of(view).names == names
    assert len(set(names)) == len(names)


def test_rows_of_batches_are_their_headers(tmp_path: Path) -> None:
    batches = [batch(0, 3), batch(3, 2, codec="lz4", producer_id=7, producer_epoch=1)]
    segment = build_log(tmp_path, batches).segments[0]
    (table,) = segment.headers()
    rows = make_batches(BatchRows(segment, table))
    assert rows.schema.equals(schema_of(View.BATCHES))
    found = rows.select(["baseOffset", "lastOffset", "recordCount", "codec", "producerId"])
    assert found.to_pylist() == [
        dict(zip(found.schema.names, values, strict=True))
        for values in ((0, 2, 3, "none", -1), (3, 4, 2, "lz4", 7))
    ]
    assert set(rows["path"].to_pylist()) == {segment.log_path}


def test_a_row_of_a_segment_tells_of_its_files(tmp_path: Path) -> None:
    build_log(tmp_path, [batch(0, 3)], [batch(3, 2)])
    first, last = open_one(tmp_path).segments
    rows = []
    for segment in (first, last):
        with segment.offset_index() as offsets, segment.time_index() as times:
            rows.append(make_row(View.SEGMENTS, SegmentRow(segment, offsets, times, 5)))
    assert [(row["baseOffset"], row["endOffset"], row["isActive"]) for row in rows] == [
        (0, 3, False),
        (3, 5, True),
    ]
    table = pa.RecordBatch.from_pylist(rows, schema_of(View.SEGMENTS))
    assert table["sizeBytes"].to_pylist() == [len(batch(0, 3)), len(batch(3, 2))]
