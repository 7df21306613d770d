"""The blocks of every page run as they are typed, one after the other, and print what they say.

A page's paths lie below a fresh folder. Commands run in this process.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from spark_segmentlog import read_arrow
from spark_segmentlog.cli.verbs import VERBS
from tests.support.pages import Block, blocks, pages
from tests.support.project import PROJECT
from tests.support.running import run
from tests.support.sample import BROKER, DATA, PATHS, make_broker, make_logs

# Targets that make is called with must be there.
TARGETS = re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), flags=re.MULTILINE)
# Commands that are not run, and why; every other one is.
NOT_RUN = {
    "make": "builds and tests this project, which is what runs here",
    "kafka-topics.sh": "asks a broker",
    "kafka-server-stop.sh": "stops a broker",
    "kafka-server-start.sh": "starts a broker",
    "pip": "fetches packages",
}
Names = dict[str, Any]


class Page:
    """Runs the blocks of a page in a folder of its own."""

    def __init__(self, text: str, root: Path, spark: SparkSession) -> None:
        self.root = root
        self.spark = spark
        self.names: Names = {"spark": spark}
        self._blocks = blocks(text)
        make_logs(root)
        if BROKER in text:
            make_broker(root)

    def run(self) -> None:
        for block in self._blocks:
            printed = self._run(block)
            if block.output is not None:
                printed = printed.replace(str(self.root), "")
                assert _plain(printed) == _plain(block.output), block.text

    def _below_root(self, text: str) -> str:
        for path in PATHS:
            text = text.replace(path, f"{self.root}{path}")
        return text

    def _run(self, block: Block) -> str:
        if block.kind == "python":
            printed = io.StringIO()
            with contextlib.redirect_stdout(printed):
                exec(self._below_root(block.text), self.names)
            return printed.getvalue()
        if block.kind == "sql":
            for statement in filter(str.strip, block.text.split(";")):
                self.spark.sql(self._below_root(statement))
        if block.kind == "sh":
            return "".join(self._run_line(line, block) for line in block.text.splitlines())
        if block.kind == "bash":
            return self._run_in_bash(block.text)
        assert block.kind in ("sql", "text"), block.text
        return ""

    def _run_in_bash(self, text: str) -> str:
        """Have a shell run what is of the shell itself; the command is this checkout's."""
        command = f'segmentlog() {{ {shlex.quote(sys.executable)} -m spark_segmentlog "$@"; }}'
        script = f"set -e\n{command}\n{self._below_root(text)}"
        environment = {"PATH": os.defpath, "HOME": str(self.root), "PYTHONPATH": str(PROJECT)}
        ran = subprocess.run(
            ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True
        )
        assert ran.stderr == ""
        return ran.stdout

    def _run_line(self, line: str, block: Block) -> str:
        words = [self._below_root(word) for word in shlex.split(line, comments=True)]
        if not words:
            return ""
        if words[0] == "segmentlog":
            ran = run(*words[1:])
            assert ran.exit_code == block.exit_code, line
            assert not ran.stderr or ran.exit_code, line
            return ran.stdout
        assert words[0] in NOT_RUN, line
        if words[0] == "make":
            targets = [word for word in words[1:] if "=" not in word]
            assert targets, line
            assert set(targets) <= set(TARGETS), line
        return ""


def _plain(text: str) -> list[str]:
    """Take lines without how long something took, and without what only aligns them: paths here
    are longer than on the page."""
    text = re.sub(r"in [\d.]+ s$", "in 0.1 s", text, flags=re.MULTILINE)
    return [" ".join(line.split()) for line in text.strip().splitlines()]


def _check_streaming(page: Page) -> None:
    """Rows that arrive while the page's queries run are copied, and counted."""
    queries = [page.names[name] for name in ("query", "totals")]
    # Both start at the latest offset, which their first micro-batch fixes.
    for query in queries:
        query.processAllAvailable()
    more = page.spark.createDataFrame([("k", "new", 2)], "key string, value string, partition int")
    more.write.format("segmentlog").mode("append").option("topic", "orders").save(
        f"{page.root}{DATA}"
    )
    for query in queries:
        query.processAllAvailable()
    copied = read_arrow(f"{page.root}/data/kafka-logs", subscribe="copy").read_all()
    assert copied.select(["value", "partition"]).to_pylist() == [{"value": b"new", "partition": 2}]
    totals = read_arrow(f"{page.root}/data/kafka-logs", subscribe="totals").read_all()
    assert totals.select(["key", "value"]).to_pylist() == [{"key": b"2", "value": b"1"}]


CHECKS: dict[str, Callable[[Page], None]] = {"streaming.md": _check_streaming}


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_every_block_runs_as_typed(
    spark: SparkSession, tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    page = Page(path.read_text(), tmp_path, spark)
    try:
        page.run()
        if check := CHECKS.get(path.name):
            check(page)
    finally:
        for query in spark.streams.active:
            query.stop()
        for view in spark.catalog.listTables():
            spark.catalog.dropTempView(view.name)


def test_commands_that_are_not_run_are_typed_somewhere() -> None:
    typed = {
        shlex.split(line, comments=True)[0]
        for path in pages()
        for block in blocks(path.read_text())
        if block.kind == "sh"
        for line in block.text.splitlines()
        if shlex.split(line, comments=True)
    }
    assert typed - {"segmentlog"} == NOT_RUN.keys()


def test_commands_in_prose_are_those_of_the_command_line() -> None:
    """What stands within a sentence is not run; its verb and its options are there."""
    found = 0
    for path in pages():
        for text in re.findall(r"`segmentlog ([^`]+)`", path.read_text()):
            name, *words = shlex.split(text.replace("\n", " "))
            if name == "VERB" or name not in VERBS:
                assert name in ("VERB", "--help"), text
                continue
            known = {
                option for parameter in VERBS[name].command.params for option in parameter.opts
            }
            assert {word for word in words if word.startswith("--")} <= known, text
            found += 1
    assert found > 20


def test_checks_are_of_pages_that_are_there() -> None:
    assert CHECKS.keys() <= {path.name for path in pages()}


def test_output_belongs_to_the_block_right_above() -> None:
    text = "```sh\na\n```\n```text\nb\n```\n\nwords\n\n```text\nc\n```\n"
    found = [(block.kind, block.text, block.output) for block in blocks(text)]
    assert found == [("sh", "a\n", "b\n"), ("text", "c\n", None)]
