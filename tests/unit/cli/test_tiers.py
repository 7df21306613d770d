"""The command line over local and remote segments."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.running import run
from tests.support.store_data import Store

OpenStore = Callable[[str], Store]


def with_remote(store: Store) -> list[str]:
    keys = [part for key in store.keys.items() for part in ("--remote-key", *key)]
    return [store.log_directory, "--remote-storage", store.remote, *keys]


def test_ls_counts_remote_segments(open_store: OpenStore) -> None:
    store = open_store("aiven-zstd-aes")
    options = ("--partitions", "--topic", "t.tx", "--format", "json")
    ran = run("ls", *with_remote(store), *options)
    told = store.offsets()
    for row in ran.objects:
        offsets = told[f"t.tx-{row['partition']}"]
        assert row["segments"] > 10
        assert row["logStartOffset"] == offsets["earliest"]
        assert row["logEndOffset"] == offsets["latest"]
        assert row["lastStableOffset"] == offsets["lastStable"]
        assert "remote" not in row["flags"]


def test_ls_tells_tiers(open_store: OpenStore) -> None:
    store = open_store("local")
    ran = run("ls", *with_remote(store), "--segments", "--topic", "t.lz4", "--format", "json")
    for partition in (0, 1):
        tiers = [row["tier"] for row in ran.objects if row["partition"] == partition]
        assert tiers == sorted(tiers, reverse=True)
        assert set(tiers) == {"remote", "local"}


@pytest.mark.parametrize("part", ["--batches", "--records", "--transactions"])
def test_dump_of_remote_segments_is_that_of_plain_ones(
    open_store: OpenStore, part: str, tmp_path: Path
) -> None:
    store = open_store("aiven-zstd-aes")
    salvaged = tmp_path / "salvaged"
    selected = ["--topic", "t.none", "--format", "json"]
    assert run("salvage", *with_remote(store), salvaged, *selected).exit_code == 0
    tiered = run("dump", *with_remote(store), part, *selected).objects
    plain = run("dump", salvaged, part, *selected).objects
    assert list(map(_without_path, tiered)) == list(map(_without_path, plain))


@pytest.mark.parametrize("part", ["--indexes", "--snapshots"])
def test_dump_of_what_is_kept_beside_remote_segments(open_store: OpenStore, part: str) -> None:
    stores = [open_store(name) for name in ("local", "aiven-zstd-aes")]
    plain, encrypted = (
        run("dump", *with_remote(store), part, "--topic", "t.none", "--format", "json").objects
        for store in stores
    )
    assert [entry["type"] for entry in plain] == [entry["type"] for entry in encrypted]
    assert len(plain) > 6


def _without_path(entry: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in entry.items() if name != "path"}


def test_verify_finds_nothing_wrong_and_tells_what_is_left(open_store: OpenStore) -> None:
    store = open_store("aiven-zstd")
    ran = run("verify", *with_remote(store), "--deep")
    assert ran.exit_code == 0
    assert ran.lines[-1].startswith("0 wrong, ")
    assert "remote segment: lacks .log, .rsm-manifest" in ran.stdout
    alone = run("verify", store.remote)
    assert alone.exit_code == 1
    assert "offsets 45 to 66 are missing" in alone.stdout


def test_verify_of_a_store_knows_that_it_is_no_log_directory(open_store: OpenStore) -> None:
    ran = run("verify", open_store("local").remote)
    assert ran.exit_code == 0
    assert "foreign folder" not in ran.stdout
