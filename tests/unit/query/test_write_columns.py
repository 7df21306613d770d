"""Where the columns stand that are written."""

from __future__ import annotations

import pickle

import pyarrow as pa

from spark_segmentlog.query.write_columns import WriteColumns

BATCH = pa.record_batch({"topic": ["t"], "v": [b"v"], "partition": [3], "k": [b"k"]})


def test_columns_for_records_are_picked_by_their_places_under_the_encoders_names() -> None:
    columns = WriteColumns(encoded=(("value", 1), ("key", 3)), topic=0, partition=2)
    assert columns.to_encode(BATCH).to_pydict() == {"value": [b"v"], "key": [b"k"]}
    assert columns.key == 3
    assert pickle.loads(pickle.dumps(columns)) == columns


def test_a_frame_may_have_no_key() -> None:
    assert WriteColumns(encoded=(("value", 0),), topic=None, partition=None).key is None
