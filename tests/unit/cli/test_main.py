"""The command as a whole: verbs, exit codes, errors as one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from spark_segmentlog.cli.main import main
from spark_segmentlog.cli.verbs import VERBS
from spark_segmentlog.log.io.lock import locked
from spark_segmentlog.testing.builder import LogBuilder, SegmentSpec
from tests.support.project import PROJECT
from tests.support.running import batches, contents, run

WRITING = [
    ["recover", "--apply"],
    ["reindex"],
    ["retain", "--all-topics", "--retention-ms", "1"],
    ["compact", "--all-topics", "--delete-retention-ms", "0", "--min-compaction-lag-ms", "0"],
]


def test_help_names_every_verb_whole() -> None:
    ran = run("-h")
    assert ran.exit_code == 0
    verbs = [line.split()[0] for line in ran.stdout.partition("Commands:\n")[2].splitlines()]
    assert verbs == sorted(VERBS)
    assert {"compact", "dump", "ls", "recover", "verify"} <= set(verbs)
    assert "..." not in ran.stdout.partition("Commands:\n")[2]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("ver", {"verify"}),
        ("re", {"recover", "reindex", "retain"}),
        ("dump --tim", {"--timestamps"}),
        ("ls --format ", {"text", "json"}),
    ],
)
def test_a_shell_completes_verbs_options_and_values(words: str, expected: set[str]) -> None:
    typed = f"segmentlog {words}"
    result = CliRunner().invoke(
        main,
        [],
        prog_name="segmentlog",
        env={
            "_SEGMENTLOG_COMPLETE": "bash_complete",
            "COMP_WORDS": typed,
            "COMP_CWORD": str(typed.count(" ")),
        },
    )
    assert {line.partition(",")[2] for line in result.stdout.splitlines()} == expected


@pytest.mark.parametrize("verb", ["ls", "dump", "verify"])
def test_help_shows_examples_as_they_are_typed(verb: str) -> None:
    lines = [line.strip() for line in run(verb, "--help").lines]
    assert sum(line.startswith(f"segmentlog {verb} ") for line in lines) >= 2


@pytest.mark.parametrize("verb", ["ls", "dump", "lag", "verify", "recover", "reindex"])
def test_a_missing_path_is_one_line_and_exit_code_2(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "nowhere"
    ran = run(verb, path)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert ran.stderr == f"Error: {path} does not exist\n"


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
    monkeypatch.setattr("spark_segmentlog.log.upkeep.rebuild.complete_indexes", fail)
    ran = run("reindex", tmp_path)
    assert ran.exit_code == 2
    assert ran.stderr == "Error: [Errno 28] No space left on device: '/disk'\n"


def test_what_is_typed_wrong_says_how_it_is_typed(tmp_path: Path) -> None:
    ran = run("dump", tmp_path, "--offsets", "1-2")
    assert ran.exit_code == 2
    assert "'1-2' is not START:END, START:, :END or one offset" in ran.stderr
    assert run("ls").exit_code == 2
    assert run("ls", tmp_path, "--format", "xml").exit_code == 2


LIES = b"\xff" * 8


COMMAND = [sys.executable, "-m", "spark_segmentlog"]


ENVIRONMENT = {**os.environ, "PYTHONPATH": str(PROJECT)}


@pytest.mark.parametrize(("verb", "exit_code"), [("dump", 0), ("verify", 1)])
def test_a_reader_that_has_seen_enough_is_no_failure_of_what_only_shows(
    tmp_path: Path, verb: str, exit_code: int
) -> None:
    log = LogBuilder(tmp_path)
    for partition in range(400):
        log.partition("t" * 200, partition, [SegmentSpec(batches(1), index=LIES)])
    with subprocess.Popen(
        [*COMMAND, verb, str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=ENVIRONMENT,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == exit_code


def test_what_is_left_to_write_at_the_end_is_no_failure_either(tmp_path: Path) -> None:
    directory = LogBuilder(tmp_path).partition("t", 0, [batches(1)])
    reader, writer = os.pipe()
    os.close(reader)
    ran = subprocess.run(
        [*COMMAND, "dump", str(directory)], stdout=writer, stderr=subprocess.PIPE, env=ENVIRONMENT
    )
    os.close(writer)
    assert (ran.returncode, ran.stderr) == (0, b"")
