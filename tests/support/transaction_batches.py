"""Batches of transactions, as bytes."""

from __future__ import annotations

from spark_segmentlog.testing.builder import control_batch, v2_batch
from tests.support.cleaning import NOW_MS, record


def data(
    producer_id: int, base: int, count: int = 1, *, epoch: int = 0, sequence: int = 0
) -> bytes:
    """Build a batch of data in a transaction."""
    return v2_batch(
        [record(b"k", b"v")] * count,
        base_offset=base,
        transactional=True,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
    )


def marker(kind: int, producer_id: int, offset: int, *, epoch: int = 0) -> bytes:
    """Build the batch that ends a transaction."""
    return control_batch(
        kind,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=epoch,
        timestamp_ms=NOW_MS,
    )
