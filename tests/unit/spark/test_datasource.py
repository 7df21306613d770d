"""Spark's way in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from spark_segmentlog.errors import OptionValueError, UnknownOptionError
from spark_segmentlog.spark.datasource import FORMAT, SegmentLogDataSource
from spark_segmentlog.testing.builder import LogBuilder
from tests.support.reading import batch

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]


def test_the_format_has_its_name() -> None:
    assert SegmentLogDataSource.name() == FORMAT == "segmentlog"


def test_the_schema_follows_the_options_and_reads_nothing() -> None:
    plain = SegmentLogDataSource({"path": "/nowhere"})
    assert plain.schema().fieldNames() == COLUMNS
    wide = SegmentLogDataSource({"path": "/nowhere", "includeHeaders": "true"})
    assert wide.schema().fieldNames() == [*COLUMNS, "headers"]
    view = SegmentLogDataSource({"path": "/nowhere", "view": "segments"})
    assert "baseOffset" in view.schema().fieldNames()


def test_options_of_streams_alone_have_a_schema_too() -> None:
    source = SegmentLogDataSource({"path": "/nowhere", "startingOffsets": "latest"})
    assert source.schema().fieldNames() == COLUMNS


def test_what_is_typed_wrong_is_told_by_the_schema() -> None:
    with pytest.raises(UnknownOptionError, match="startingOffsets"):
        SegmentLogDataSource({"path": "/nowhere", "startingOffset": "earliest"}).schema()


def test_a_table_of_a_catalog_is_refused_with_what_works() -> None:
    for options in ({}, {"owner": "me", "provider": "segmentlog"}):
        with pytest.raises(OptionValueError, match="CREATE TEMPORARY VIEW"):
            SegmentLogDataSource(options).schema()


def test_a_reader_reads(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[batch(0, 3)]])
    source = SegmentLogDataSource({"path": str(tmp_path), "pushdown": "false"})
    reader: Any = source.reader(source.schema())
    rows = sum(
        arrow_batch.num_rows for part in reader.partitions() for arrow_batch in reader.read(part)
    )
    assert rows == 3
