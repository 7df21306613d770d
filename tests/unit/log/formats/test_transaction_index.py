from __future__ import annotations

from spark_segmentlog.log.formats.transaction_index import (
    AbortedTransaction,
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
