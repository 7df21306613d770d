"""The partition of a row: the one it names, else its key's by Kafka's murmur2, else the emptiest.

A key goes to ``(murmur2(key) & 0x7fffffff) % partitions``, as the Java client and librdkafka's
``murmur2_random`` have it: the sign bit is masked, not folded. Rows without a key are dealt out so
that no partition has two of them more than another.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from spark_segmentlog.errors import InvalidRowError, SchemaError
from spark_segmentlog.record.kernels import encode as encode_kernels
from spark_segmentlog.record.types import ArrowArray, Int32s, Int64s
from spark_segmentlog.record.write.arrow_columns import binary_column

_UNASSIGNED = -1


class NullKeyBalance:
    """Rows without a key that each partition of a topic has got so far.

    Parameters
    ----------
    start : int
        Partition that gets the first row, modulo the count: tasks that each have few rows start at
        different ones, or all of them would fill the first partition.
    """

    def __init__(self, partition_count: int, *, start: int = 0) -> None:
        self._start = start % partition_count
        self.row_counts: Int64s = np.zeros(partition_count, np.int64)

    def deal(self, row_count: int) -> Int64s:
        """Choose the partitions of the next rows, those of one partition one after the other."""
        partition_count = len(self.row_counts)
        emptiest = np.argsort(np.roll(self.row_counts, -self._start), kind="stable")
        order = (emptiest + self._start) % partition_count
        shares = np.full(partition_count, row_count // partition_count)
        shares[: row_count % partition_count] += 1
        self.row_counts[order] += shares
        return np.repeat(order, shares)


def assign_partitions(
    keys: ArrowArray | None,
    explicit: ArrowArray | None,
    partition_count: int,
    balance: NullKeyBalance,
    *,
    row_count: int,
    first_row: int = 0,
    named_limit: int | None = None,
) -> Int32s:
    """Choose the partition of every row of one topic.

    Parameters
    ----------
    keys : pyarrow.Array or None
        Text or bytes; None where the frame has no such column.
    explicit : pyarrow.Array or None
        Integers; null where the row names no partition.
    balance : NullKeyBalance
        Kept by the caller from call to call.
    named_limit : int, optional
        Below it a row may name a partition; those that the topic has where not given.

    Returns
    -------
    numpy.ndarray of int32
        A partition a row.

    Raises
    ------
    InvalidRowError
        When a row names a partition that the topic does not have.
    SchemaError
        When a column is of another type.
    """
    partitions: Int32s = np.full(row_count, _UNASSIGNED, np.int32)
    if explicit is not None and explicit.null_count < row_count:
        limit = partition_count if named_limit is None else named_limit
        partitions = _explicit_partitions(explicit, limit, first_row)
    if keys is not None and keys.null_count < row_count:
        column = binary_column(keys, "key")
        encode_kernels.murmur2_partitions(
            column.starts, column.lengths, column.data, partition_count, partitions
        )
    unassigned = np.flatnonzero(partitions == _UNASSIGNED)
    if len(unassigned):
        partitions[unassigned] = balance.deal(len(unassigned))
    return partitions


def _explicit_partitions(explicit: ArrowArray, partition_count: int, first_row: int) -> Int32s:
    if not pa.types.is_integer(explicit.type):
        raise SchemaError(f"column partition is {explicit.type}, allowed is INT")
    wanted = explicit.cast(pa.int64(), safe=False)
    values = wanted.fill_null(0).to_numpy(zero_copy_only=False)
    bad = np.flatnonzero((values < 0) | (values >= partition_count))
    if len(bad):
        row = int(bad[0])
        raise InvalidRowError(
            f"column partition, row {first_row + row}: partition {int(values[row])}, "
            f"allowed are 0 to {partition_count - 1}"
        )
    chosen: Int32s = values.astype(np.int32)
    if wanted.null_count:
        chosen[wanted.is_null().to_numpy(zero_copy_only=False)] = _UNASSIGNED
    return chosen
