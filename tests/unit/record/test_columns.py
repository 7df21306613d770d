"""A column is one entry of the table: it is read from then on."""

from __future__ import annotations

import pyarrow as pa
import pytest

from spark_segmentlog.query.options import parse_read_options
from spark_segmentlog.query.schema import default_schema
from spark_segmentlog.record.columns import COLUMNS, EntryField, RecordNumber, RowColumn
from spark_segmentlog.record.header_fields import PARTITION_LEADER_EPOCH, POSITION
from spark_segmentlog.testing.builder import RecordSpec, legacy_message_set, v2_batch
from tests.support.decoding import as_array, decoder, scan

MADE_UP = (
    RowColumn("leaderEpoch", pa.int32(), EntryField(PARTITION_LEADER_EPOCH), "of the batch"),
    RowColumn("position", pa.int64(), EntryField(POSITION), "of the batch"),
    RowColumn("again", pa.int64(), RecordNumber("offset"), "the offset once more"),
)


@pytest.fixture(autouse=True)
def _made_up_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    for column in MADE_UP:
        monkeypatch.setitem(COLUMNS, column.name, column)


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_an_added_column_of_batches_is_read(codec: str) -> None:
    records = [RecordSpec(value=b"v"), RecordSpec(value=b"w")]
    first = v2_batch(records, partition_leader_epoch=7, codec=codec)
    data = first + v2_batch(records, base_offset=2, partition_leader_epoch=8, codec=codec)
    reader = decoder(("position", "value", "leaderEpoch", "again"), max_arrow_rows=3)
    batches = [*reader.decode(as_array(data), scan(data), file_position=0)]
    rest = reader.flush()
    assert rest is not None
    table = pa.Table.from_batches([*batches, rest])
    assert table.schema.field("leaderEpoch").type == pa.int32()
    assert table.to_pydict() == {
        "position": [0, 0, len(first), len(first)],
        "value": [b"v", b"w", b"v", b"w"],
        "leaderEpoch": [7, 7, 8, 8],
        "again": [0, 1, 2, 3],
    }


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_an_added_column_of_messages_is_read(codec: str) -> None:
    data = legacy_message_set(1, [RecordSpec(value=b"v"), RecordSpec(value=b"w")], codec=codec)
    table = scan(data)
    reader = decoder(("position", "leaderEpoch"))
    assert not [*reader.decode(as_array(data), table, file_position=0)]
    rows = reader.flush()
    assert rows is not None
    positions = table.position.tolist() if codec == "none" else [0, 0]
    assert rows.to_pydict() == {"position": positions, "leaderEpoch": [-1, -1]}


def test_an_added_column_is_in_the_schema() -> None:
    schema = default_schema(parse_read_options({"path": "/logs"}))
    assert schema.names[-3:] == [column.name for column in MADE_UP]
