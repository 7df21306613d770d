"""The command as a whole: verbs, exit codes, errors as one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from spark_segmentlog.log.lock import locked
from spark_segmentlog.testing.builder import LogBuilder
from tests.cli.running import batches, contents, run

WRITING = [
    ["recover", "--apply"],
    ["reindex"],
    ["retain", "--all-topics"],
    ["compact", "--all-topics"],
]


def test_help_names_every_verb_whole():
    ran = run("-h")
    assert ran.exit_code == 0
    verbs = [line.split()[0] for line in ran.stdout.partition("Commands:\n")[2].splitlines()]
    assert verbs == [
        "compact",
        "create",
        "dump",
        "ls",
        "recover",
        "reindex",
        "retain",
        "verify",
    ]
    assert "..." not in ran.stdout.partition("Commands:\n")[2]


@pytest.mark.parametrize("verb", ["ls", "dump", "verify", "recover", "reindex"])
def test_a_missing_path_is_one_line_and_exit_code_2(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "nowhere"
    ran = run(verb, path)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr == f"Error: {path} does not exist\n"


def test_an_unknown_topic_is_named_with_those_that_are_there(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("a.b", 0, [batches(1)])
    LogBuilder(tmp_path).partition("a-b", 0, [batches(1)])
    for verb in ("ls", "dump", "verify", "recover"):
        ran = run(verb, tmp_path, "--topic", "a_b")
        assert ran.exit_code == 2
        assert ran.stderr == "Error: topic 'a_b' is not there; there are a-b, a.b\n"


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


@pytest.mark.parametrize("verb", WRITING, ids=lambda verb: verb[0])
def test_a_directory_that_another_writer_holds_is_left_alone(
    tmp_path: Path, verb: list[str]
) -> None:
    LogBuilder(tmp_path).partition("t", 0, [batches(1)])
    with locked([str(tmp_path)]):
        before = contents(tmp_path / "t-0")
        ran = run(*verb, tmp_path, "--lock-timeout-ms", "0")
    assert ran.exit_code == 2
    assert ran.stderr.startswith(f"Error: {tmp_path} is already open for writing")
    assert ran.stderr.count("\n") == 1
    assert contents(tmp_path / "t-0") == before


def test_an_error_of_the_disk_is_one_line_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28), "/disk")

    LogBuilder(tmp_path).partition("t", 0, [batches(1)])
    monkeypatch.setattr("spark_segmentlog.log.recovery.complete_indexes", fail)
    ran = run("reindex", tmp_path)
    assert ran.exit_code == 2
    assert ran.stderr == "Error: [Errno 28] No space left on device: '/disk'\n"


def test_what_is_typed_wrong_says_how_it_is_typed(tmp_path: Path) -> None:
    ran = run("dump", tmp_path, "--offsets", "1-2")
    assert ran.exit_code == 2
    assert "'1-2' is not START:END, START:, :END or one offset" in ran.stderr
    assert run("ls").exit_code == 2
    assert run("ls", tmp_path, "--format", "xml").exit_code == 2
