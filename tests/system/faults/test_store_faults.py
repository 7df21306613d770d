"""A fault in a store: the rows of the whole log, or an error; never fewer rows."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable

import pytest

from tests.support.store_data import Store
from tests.support.store_faults import FaultyStores

SAMPLE = 60
ALL = 1000


def run_all(faulty: FaultyStores, seeds: range) -> Counter[tuple[str, str]]:
    outcomes: Counter[tuple[str, str]] = Counter()
    for seed in seeds:
        fault, error = faulty.run(seed)
        outcomes[fault.kind, type(error).__name__] += 1
    return outcomes


@pytest.fixture(scope="module")
def faulty(
    open_store: Callable[[str], Store], tmp_path_factory: pytest.TempPathFactory
) -> FaultyStores:
    return FaultyStores(open_store, tmp_path_factory.mktemp("faulty"))


def test_a_sample_of_faults(faulty: FaultyStores) -> None:
    outcomes = run_all(faulty, range(SAMPLE))
    assert len(outcomes) > 5


@pytest.mark.faults
def test_a_thousand_faults(faulty: FaultyStores) -> None:
    first = int(os.environ.get("SEGMENTLOG_SEED", "0"))
    outcomes = run_all(faulty, range(first, first + ALL))
    print(f"seeds {first} to {first + ALL - 1}: {dict(outcomes)}")
    assert sum(outcomes.values()) == ALL
