"""A few threads for what waits for the disk."""

from __future__ import annotations

import threading

import pytest

from spark_segmentlog.log.io.threads import THREADS, in_parallel


def test_results_are_in_the_order_of_the_items() -> None:
    assert in_parallel(lambda number: number * 2, range(100)) == list(range(0, 200, 2))
    assert in_parallel(str, []) == []


def test_a_single_item_takes_no_thread() -> None:
    assert in_parallel(lambda _: threading.current_thread(), [1]) == [threading.current_thread()]


def test_items_are_worked_on_at_the_same_time() -> None:
    """Each waits until all have begun: one after the other they would never end."""
    barrier = threading.Barrier(THREADS, timeout=30)
    assert len(set(in_parallel(lambda _: barrier.wait(), range(THREADS)))) == THREADS


def test_an_error_is_the_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        in_parallel(lambda number: 1 // number, [1, 0])
