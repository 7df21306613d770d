"""What is encoded is what every reader reads, and what the plain twin writes."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.record.write.arrow_columns import binary_column
from spark_segmentlog.record.write.encoder import RecordBatchEncoder, assign_offsets
from spark_segmentlog.record.write.partitioner import NullKeyBalance, assign_partitions
from spark_segmentlog.testing.builder import RecordSpec, v2_batch
from spark_segmentlog.testing.strategies import nullable_binary, record_specs
from tests.support.encoding import (
    arrow_batch,
    encode_in_order,
    expected_rows,
    plain_records,
    read_by_aiokafka,
    read_by_decoder,
    read_by_kafka_python,
)
from tests.support.plain_encoder import encode_plainly
from tests.support.plain_partitioner import assign_key_partitions_plainly

records_lists = st.lists(record_specs(any_timestamp=True), max_size=30)
base_offsets = st.sampled_from([0, 1, 2**31, 2**62])
batch_sizes = st.sampled_from([1, 80, 200, 1000, 65536])
# The others need packages of their own there.
KAFKA_PYTHON_CODECS = ("none", "gzip")
codecs = st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"])


@given(records_lists, base_offsets, batch_sizes)
def test_encoder_equals_its_plain_twin(
    records: list[RecordSpec], base_offset: int, batch_size: int
) -> None:
    encoder = RecordBatchEncoder(batch_size_bytes=batch_size)
    encoded = encode_in_order(encoder, arrow_batch(records), base_offset=base_offset)
    assert encoded.buffer.tobytes() == encode_plainly(
        plain_records(records),
        base_offset=base_offset,
        batch_limit=batch_size,
        record_limit=1 << 20,
    )


@given(st.lists(record_specs(any_timestamp=True), min_size=1, max_size=30), base_offsets)
def test_encoder_equals_the_byte_level_builder(records: list[RecordSpec], offset: int) -> None:
    encoded = encode_in_order(RecordBatchEncoder(), arrow_batch(records), base_offset=offset)
    assert encoded.buffer.tobytes() == v2_batch(records, base_offset=offset)


@given(records_lists, base_offsets, batch_sizes, codecs)
def test_every_reader_reads_what_was_encoded(
    records: list[RecordSpec], base_offset: int, batch_size: int, codec: str
) -> None:
    encoder = RecordBatchEncoder(compression=codec, batch_size_bytes=batch_size)
    encoded = encode_in_order(encoder, arrow_batch(records), base_offset=base_offset)
    rows = expected_rows(records, base_offset)
    assert read_by_decoder(encoded) == rows
    assert read_by_aiokafka(encoded.buffer.tobytes()) == rows
    if codec in KAFKA_PYTHON_CODECS:
        assert read_by_kafka_python(encoded.buffer.tobytes()) == rows


@given(records_lists, batch_sizes, codecs, st.data())
def test_groups_are_encoded_as_each_alone(
    records: list[RecordSpec], batch_size: int, codec: str, data: st.DataObject
) -> None:
    rows = list(range(len(records)))
    groups = [data.draw(st.integers(0, 3)) for _ in rows]
    order = sorted(rows, key=lambda row: groups[row])
    ends = np.cumsum(np.bincount(groups, minlength=4) if rows else np.zeros(4, np.int64))
    encoder = RecordBatchEncoder(compression=codec, batch_size_bytes=batch_size)
    together = encoder.encode_groups(arrow_batch(records), np.array(order, np.int64), ends)
    for group in range(4):
        members = [records[row] for row in order if groups[row] == group]
        alone = encode_in_order(encoder, arrow_batch(members))
        mine = np.flatnonzero(together.groups == group)
        assert together.base_offsets[mine].tolist() == alone.base_offsets.tolist()
        assert together.last_offsets[mine].tolist() == alone.last_offsets.tolist()
        assert together.max_timestamps[mine].tolist() == alone.max_timestamps.tolist()
        pieces = [
            together.buffer[together.positions[batch] :][: together.sizes_bytes[batch]].tobytes()
            for batch in mine
        ]
        assert b"".join(pieces) == alone.buffer.tobytes()


@given(records_lists, base_offsets, batch_sizes, codecs)
def test_assigned_offsets_equal_encoded_ones(
    records: list[RecordSpec], base_offset: int, batch_size: int, codec: str
) -> None:
    encoder = RecordBatchEncoder(compression=codec, batch_size_bytes=batch_size)
    patched = encode_in_order(encoder, arrow_batch(records))
    assign_offsets(patched.buffer, patched.positions, base_offset=base_offset, leader_epoch=0)
    final = encode_in_order(encoder, arrow_batch(records), base_offset=base_offset)
    assert patched.buffer.tobytes() == final.buffer.tobytes()


@given(records_lists, batch_sizes)
def test_max_timestamp_is_the_first_largest_of_its_batch(
    records: list[RecordSpec], batch_size: int
) -> None:
    encoded = encode_in_order(RecordBatchEncoder(batch_size_bytes=batch_size), arrow_batch(records))
    for batch in range(len(encoded)):
        first, last = int(encoded.base_offsets[batch]), int(encoded.last_offsets[batch])
        timestamps = [record.timestamp_ms for record in records[first : last + 1]]
        assert encoded.max_timestamps[batch] == max(timestamps)


@given(st.lists(nullable_binary(), max_size=40), st.integers(1, 1000))
def test_partitioner_equals_its_plain_twin(keys: list[bytes | None], partition_count: int) -> None:
    array = pa.array(keys, pa.binary())
    plain = assign_key_partitions_plainly(binary_column(array, "key"), partition_count)
    balance = NullKeyBalance(partition_count)
    chosen = assign_partitions(array, None, partition_count, balance, row_count=len(keys)).tolist()
    assert [mine for mine, theirs in zip(chosen, plain, strict=True) if theirs >= 0] == [
        theirs for theirs in plain if theirs >= 0
    ]


@given(
    st.integers(1, 20),
    st.integers(0, 50),
    st.lists(st.integers(0, 45), max_size=10),
)
def test_rows_without_a_key_never_differ_by_two(
    partition_count: int, start: int, calls: list[int]
) -> None:
    balance = NullKeyBalance(partition_count, start=start)
    counts = np.zeros(partition_count, np.int64)
    for row_count in calls:
        chosen = assign_partitions(None, None, partition_count, balance, row_count=row_count)
        counts += np.bincount(chosen, minlength=partition_count)
        assert counts.max() - counts.min() <= 1
    assert counts.tolist() == balance.row_counts.tolist()
