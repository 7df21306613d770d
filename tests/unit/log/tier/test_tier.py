"""Segments that the metadata names and the store lacks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog.errors import DataLossError
from spark_segmentlog.log.io.remote import resolve_storage
from spark_segmentlog.log.tier.listed_storage import ListedFolders
from spark_segmentlog.log.tier.remote_options import RemoteOptions
from spark_segmentlog.log.tier.tier import Tier
from tests.support.object_store import ObjectStore, add_partition
from tests.support.store_data import (
    Store,
    options_of,
    read_rows,
    truth,
)

OpenStore = Callable[[str], Store]


@pytest.fixture
def damaged(own_store: OpenStore) -> tuple[Store, Path]:
    """A store, and the second segment of a partition in it."""
    store = own_store("aiven-plain")
    manifests = sorted(Path(store.remote).glob("t.lz4-*/0/*.rsm-manifest"))
    return store, manifests[1]


def test_a_segment_that_is_gone_is_data_loss(damaged: tuple[Store, Path]) -> None:
    store, manifest = damaged
    log = manifest.with_name(manifest.name.replace(".rsm-manifest", ".log"))
    log.unlink()
    with pytest.raises(DataLossError, match=r"of topic partition t\.lz4-0: they are gone"):
        read_rows(store.log_directory, **options_of(store, subscribe="t.lz4"))


def test_a_segment_that_is_gone_is_left_out_where_that_is_asked_for(
    damaged: tuple[Store, Path], caplog: pytest.LogCaptureFixture
) -> None:
    store, manifest = damaged
    first = int(manifest.name[:20])
    after = int(sorted(Path(manifest.parent).glob("*.log"))[2].name[:20])
    manifest.unlink()
    with caplog.at_level(logging.WARNING):
        rows = read_rows(
            store.log_directory, fail_on_data_loss=False, **options_of(store, subscribe="t.lz4")
        )
    whole = {key for key in truth(store) if key[0] == "t.lz4"}
    assert rows.keys() == {key for key in whole if key[1] == 1 or not first <= key[2] < after}
    assert f"offset [{first}, {after}) of topic partition t.lz4-0" in caplog.text
    assert manifest.name.replace(".rsm-manifest", ".log") in caplog.text


def test_a_store_of_a_named_layout_is_read_where_it_was_found() -> None:
    store = ObjectStore()
    add_partition(store, "bucket/tier", "t", 1)
    inner, _ = resolve_storage("bucket", store.fsspec_filesystem())
    tier = Tier(RemoteOptions(layout="aiven"))
    (place,) = tier.find_places(ListedFolders(inner), "bucket/tier", None)
    assert str(place.topic_partition) == "t-0"
