"""Paths and topics of several verbs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_segmentlog.testing.builder import LogBuilder
from tests.support.running import batches, contents, run

WRITING = [
    ["recover", "--apply"],
    ["reindex"],
    ["retain", "--all-topics", "--retention-ms", "1"],
    ["compact", "--all-topics", "--delete-retention-ms", "0", "--min-compaction-lag-ms", "0"],
]


def test_an_unknown_topic_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("a.b", 0, [batches(1)])
    LogBuilder(tmp_path).partition("a-b", 0, [batches(1)])
    for verb in ("ls", "dump", "verify", "recover"):
        ran = run(verb, tmp_path, "--topic", "a_b")
        assert ran.exit_code == 2
        assert ran.stderr == "Error: topic 'a_b' is not there; there are a-b, a.b\n"


@pytest.mark.parametrize("verb", [*WRITING, ["recover"]], ids=" ".join)
def test_a_folder_of_log_directories_is_left_alone(tmp_path: Path, verb: list[str]) -> None:
    for name in ("d0", "d1"):
        LogBuilder(tmp_path / name).partition("t", 0, [batches(1)])
    before = contents(tmp_path)
    ran = run(*verb, tmp_path)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert f"name {tmp_path}/d0, {tmp_path}/d1" in ran.stderr
    assert contents(tmp_path) == before


@pytest.mark.parametrize("uri", ["s3://bucket/x", "s3:/bucket/x", "nowhere://x", "file://host/x"])
@pytest.mark.parametrize(
    "verb",
    [
        *WRITING,
        ["recover"],
        ["preflight"],
        ["create", "t"],
        ["ls"],
        ["dump"],
        ["lag"],
        ["verify"],
    ],
    ids=" ".join,
)
def test_what_looks_like_a_uri_is_never_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: list[str], uri: str
) -> None:
    """Whatever writes refuses any; a reader asks the file system of that name, if there is one."""
    only_reads = verb[0] in ("ls", "dump", "lag", "verify")
    if only_reads and uri.startswith("s3:"):
        uri = uri.replace("s3:", "nothing:")
    monkeypatch.chdir(tmp_path)
    ran = run(*verb, uri)
    assert (ran.exit_code, ran.stdout, os.listdir(tmp_path)) == (2, "", [])
    LogBuilder(tmp_path / uri).partition("t", 0, [batches(1)])
    LogBuilder(tmp_path / uri.partition("://")[2] / "x").partition("t", 0, [batches(1)])
    before = contents(tmp_path)
    ran = run(*verb, uri)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr.startswith(f"Error: {uri} is no ")
    assert ran.stderr.count("\n") == 1
    assert contents(tmp_path) == before


@pytest.mark.parametrize("prefix", ["file:", "file://", "file://localhost"])
def test_a_file_uri_is_a_local_path_for_every_verb(tmp_path: Path, prefix: str) -> None:
    uri = f"{prefix}{tmp_path}/log"
    for verb in (["create", "t"], *WRITING, ["preflight"], ["ls"], ["dump"], ["verify"]):
        ran = run(*verb, uri)
        assert (ran.exit_code, ran.stderr) == (0, "")
    assert (tmp_path / "log" / "t-0").is_dir()


@pytest.mark.parametrize("verb", WRITING, ids=lambda verb: verb[0])
def test_a_partition_directory_is_refused_where_locks_are_taken(
    tmp_path: Path, verb: list[str]
) -> None:
    directory = LogBuilder(tmp_path).partition("t", 0, [batches(1)])
    before = contents(tmp_path)
    ran = run(*verb, directory)
    assert ran.exit_code == 2
    expected = f"{directory} is no log directory: name the one above it, {tmp_path}"
    assert ran.stderr == f"Error: {expected}\n"
    assert contents(tmp_path) == before
