from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from spark_segmentlog.log.formats.transaction_index import (
    AbortedTransaction,
    AbortedTransactions,
    format_transaction_index,
    parse_transaction_index,
)


def _aborted(producer_id: int, first: int, last: int, stable: int = 0) -> AbortedTransaction:
    return AbortedTransaction(
        producer_id=producer_id, first_offset=first, last_offset=last, last_stable_offset=stable
    )


def test_an_entry_has_34_bytes_and_reads_as_it_was_written() -> None:
    transactions = [_aborted(7, 10, 51, 20), _aborted(2**40, 2**50, 2**51, 2**52)]
    data = format_transaction_index(transactions)
    assert len(data) == 68
    assert parse_transaction_index(data) == transactions
    assert parse_transaction_index(data[:-1]) == transactions[:1]
    assert parse_transaction_index(b"") == []


def test_transactions_apply_though_the_file_lists_the_later_start_first() -> None:
    aborted = AbortedTransactions((_aborted(2, 20, 31), _aborted(1, 10, 51)))
    producers = np.array([1, 1, 2, 2, 1, 2, 3])
    base_offsets = np.array([10, 50, 20, 30, 52, 32, 25])
    assert aborted.contain(producers, base_offsets).tolist() == [
        True,
        True,
        True,
        True,
        False,
        False,
        False,
    ]


def test_no_transactions_contain_nothing() -> None:
    assert not AbortedTransactions()
    assert AbortedTransactions().contain(np.array([1]), np.array([0])).tolist() == [False]


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 60), st.integers(0, 20)),
        max_size=12,
    ),
    st.lists(st.tuples(st.integers(-1, 5), st.integers(0, 90)), min_size=1, max_size=30),
)
def test_many_batches_are_told_as_one_by_one(
    transactions: list[tuple[int, int, int]], batches: list[tuple[int, int]]
) -> None:
    aborted = AbortedTransactions(
        tuple(_aborted(producer, first, first + more) for producer, first, more in transactions)
    )
    expected = [
        any(
            producer == transaction.producer_id
            and transaction.first_offset <= base <= transaction.last_offset
            for transaction in aborted.transactions
        )
        for producer, base in batches
    ]
    producers, bases = np.array(batches, np.int64).T
    assert aborted.contain(producers, bases).tolist() == expected
