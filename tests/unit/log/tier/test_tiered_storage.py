"""Local and remote segments as the files of one directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog import read_arrow
from tests.support.store_data import (
    Store,
    options_of,
)

OpenStore = Callable[[str], Store]


def test_the_view_of_segments_names_tiers_and_objects(open_store: OpenStore) -> None:
    store = open_store("aiven-zstd")
    rows = read_arrow(
        store.log_directory, view="segments", **options_of(store, subscribe="t.tx")
    ).read_all()
    found = {(row["partition"], row["baseOffset"]): row for row in rows.to_pylist()}
    assert {row["tier"] for row in found.values()} == {"local", "remote"}
    for row in found.values():
        is_remote = row["tier"] == "remote"
        assert Path(row["path"]).is_relative_to(store.remote if is_remote else store.log_directory)
        assert Path(row["path"]).exists()
    assert sum(row["abortedTransactions"] for row in found.values()) > 20


@pytest.mark.parametrize("view", ["batches", "transactions"])
def test_views_of_remote_segments_are_those_of_the_restored_ones(
    open_store: OpenStore, view: str
) -> None:
    plain, encrypted = open_store("local"), open_store("aiven-zstd-aes")
    counts = [
        read_arrow(
            store.log_directory, view=view, **options_of(store, subscribe="t.none")
        ).read_all()
        for store in (plain, encrypted)
    ]
    assert counts[0].num_rows == counts[1].num_rows
