"""Columns of the views of Kafka's own topics."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.query.read_options import View
from spark_segmentlog.query.schema import sql_name
from spark_segmentlog.query.system_columns import SYSTEM_SCHEMAS
from spark_segmentlog.testing.builder import RecordSpec
from tests.support.metadata_log import log_of

RECORD_COLUMNS = {"recordPartition", "recordOffset", "recordTimestampMs", "key", "value", "version"}


@pytest.mark.parametrize("view", list(SYSTEM_SCHEMAS))
def test_a_view_has_the_same_columns_however_it_is_asked(view: View, tmp_path: Path) -> None:
    name = str(view.system_topic)
    log_of(tmp_path, name, RecordSpec(key=b"\x00\x00\x00\x01x", value=b"\x00\x00"))
    table = read_arrow(tmp_path, view=view.value).read_all()
    assert table.schema == SYSTEM_SCHEMAS[view]
    assert set(table.schema.names) >= RECORD_COLUMNS
    assert table.num_rows == 1
    subset = read_arrow(tmp_path, view=view.value, columns=["REASON", "recordoffset"]).read_all()
    assert subset.schema.names == ["reason", "recordOffset"]
    for kind in table.schema.types:
        assert "struct<" not in sql_name(kind)


def test_sql_names_of_nested_types() -> None:
    assert sql_name(pa.list_(pa.int32())) == "ARRAY<INT>"
    assert sql_name(pa.struct([("a", pa.string())])) == "STRUCT<a STRING>"
