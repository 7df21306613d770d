"""Which partition a row goes to, against Kafka's own vectors and two other clients."""

from __future__ import annotations

import random
import warnings

import numpy as np
import pyarrow as pa
import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2

from spark_segmentlog.errors import InvalidRowError, SchemaError
from spark_segmentlog.record.kernels import encode as encode_kernels
from spark_segmentlog.record.write.arrow_columns import binary_column
from spark_segmentlog.record.write.partitioner import (
    NullKeyBalance,
    assign_partitions,
)
from tests.support.plain_partitioner import (
    assign_key_partitions_plainly,
    murmur2,
    partition_for_key,
)

with warnings.catch_warnings():
    # kafka-python reads its schemas by a call that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.partitioner.default import murmur2 as kafka_python_murmur2

# org.apache.kafka.common.utils.UtilsTest.testMurmur2
KAFKA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
    b"100:48069": 1009543857,
}


def random_keys(count: int) -> list[bytes]:
    chance = random.Random(105)
    keys = [b"", "schl\u00fcssel-\u30ad\u30fc".encode(), b"k" * 10_000]
    return keys + [chance.randbytes(chance.randrange(40)) for _ in range(count - len(keys))]


def assign(
    keys: pa.Array | None, explicit: pa.Array | None = None, *, count: int = 12, first_row: int = 0
) -> list[int]:
    rows = len(keys if keys is not None else explicit)  # type: ignore[arg-type]
    balance = NullKeyBalance(count)
    assigned: list[int] = assign_partitions(
        keys, explicit, count, balance, row_count=rows, first_row=first_row
    ).tolist()
    return assigned


@pytest.mark.parametrize(("key", "value"), KAFKA_VECTORS.items())
def test_murmur2_has_kafkas_values(key: bytes, value: int) -> None:
    assert murmur2(key) == value


@pytest.mark.parametrize(
    ("key", "partition"),
    [("21", 0), ("foobar", 6), ("a-little-bit-long-string", 8), ("100:48069", 9)],
)
def test_sign_bit_is_masked(key: str, partition: int) -> None:
    assert partition_for_key(key.encode(), 12) == partition
    assert assign(pa.array([key])) == [partition]


def test_other_clients_choose_the_same_partitions() -> None:
    keys = random_keys(10_000)
    for count in (1, 7, 1000):
        chosen = assign(pa.array(keys), count=count)
        assert chosen == [(aiokafka_murmur2(key) & 0x7FFFFFFF) % count for key in keys]
    sample = keys[:200]
    assert [murmur2(key) & 0xFFFFFFFF for key in sample] == [
        kafka_python_murmur2(key) & 0xFFFFFFFF for key in sample
    ]


def test_kernel_equals_its_plain_twin_at_every_length_and_slice() -> None:
    array = pa.array([None, *random_keys(300), *(b"\xff" * n for n in range(9))]).slice(1)
    assert assign(array, count=97) == assign_key_partitions_plainly(binary_column(array, "key"), 97)


def test_explicit_partition_wins_over_the_key() -> None:
    keys = pa.array(["foobar", "foobar", None])
    assert assign(keys, pa.array([3, None, 11], pa.int32())) == [3, 6, 11]


@pytest.mark.parametrize("partition", [-1, 12, 2**31, -(2**40)])
def test_partition_out_of_range_names_its_row(partition: int) -> None:
    with pytest.raises(
        InvalidRowError,
        match=f"column partition, row 41: partition {partition}, allowed are 0 to 11",
    ):
        assign(None, pa.array([0, partition], pa.int64()), first_row=40)


def test_partition_column_of_another_type_is_refused() -> None:
    with pytest.raises(SchemaError, match="column partition is string, allowed is INT"):
        assign(None, pa.array(["0"]))


def test_rows_without_a_key_fill_all_partitions_alike() -> None:
    balance = NullKeyBalance(4)
    chosen = [
        assign_partitions(None, None, 4, balance, row_count=rows).tolist() for rows in (3, 3, 6)
    ]
    assert chosen[0] == [0, 1, 2]
    assert chosen[1] == [3, 0, 1]
    assert np.bincount([*chosen[0], *chosen[1], *chosen[2]]).tolist() == [3, 3, 3, 3]


def test_rows_of_one_partition_stand_one_after_the_other() -> None:
    assert assign(pa.nulls(7, pa.binary()), count=3) == [0, 0, 0, 1, 1, 2, 2]


def test_tasks_that_start_apart_fill_different_partitions() -> None:
    firsts = [
        assign_partitions(None, None, 5, NullKeyBalance(5, start=task), row_count=1)[0]
        for task in range(10)
    ]
    assert firsts == [0, 1, 2, 3, 4] * 2


def test_keyed_rows_do_not_move_the_balance() -> None:
    balance = NullKeyBalance(2)
    keys = pa.array(["foobar"] * 9 + [None] * 4)
    chosen = assign_partitions(keys, None, 2, balance, row_count=13)
    assert chosen[9:].tolist() == [0, 0, 1, 1]
    assert balance.row_counts.tolist() == [2, 2]


def test_kernel_is_compiled_once_whatever_comes() -> None:
    for keys in (pa.array(["a"]), pa.array([b"a", None]), pa.array([], pa.large_string())):
        assign(keys)
    assert len(encode_kernels.murmur2_partitions.signatures) == 1  # type: ignore[attr-defined]
