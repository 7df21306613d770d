"""A few threads for what waits for the disk."""

from __future__ import annotations

import threading

import pytest

from spark_segmentlog.log.io.threads import THREADS, FoundOnce, in_parallel


def test_results_are_in_the_order_of_the_items() -> None:
    assert in_parallel(lambda number: number * 2, range(100)) == list(range(0, 200, 2))
    assert in_parallel(str, []) == []


def test_a_single_item_takes_no_thread() -> None:
    assert in_parallel(lambda _: threading.current_thread(), [1]) == [threading.current_thread()]


def test_items_are_worked_on_at_the_same_time() -> None:
    """Each waits until all have begun: one after the other they would never end."""
    barrier = threading.Barrier(THREADS, timeout=30)
    assert len(set(in_parallel(lambda _: barrier.wait(), range(THREADS)))) == THREADS


def test_as_many_threads_work_as_are_asked_for() -> None:
    barrier = threading.Barrier(3, timeout=30)
    assert len(set(in_parallel(lambda _: barrier.wait(), range(3), 3))) == 3
    here = threading.current_thread()
    assert in_parallel(lambda _: threading.current_thread(), [1, 2], 1) == [here, here]


class Counted:
    """Counts how often its property is found, and finds it where two do at once."""

    together = threading.Barrier(2, timeout=30)

    def __init__(self) -> None:
        self.times = 0

    @FoundOnce
    def number(self) -> int:
        """How often it was found."""
        self.together.wait()
        self.times += 1
        return self.times


def test_a_property_is_found_once_and_of_several_objects_at_once() -> None:
    both = [Counted(), Counted()]
    for _ in range(2):
        assert in_parallel(lambda counted: counted.number, both) == [1, 1]
    assert Counted.number.__doc__ == "How often it was found."


def test_an_error_is_the_callers() -> None:
    with pytest.raises(ZeroDivisionError):
        in_parallel(lambda number: 1 // number, [1, 0])
