"""An environment with no more than the page on compatibility says, where a vendor brings Spark.

``python -m tests.support.vendor_environment FOLDER VERSION`` makes it there, of the oldest packages
that are allowed: without Spark first, where the library and the command line must do, then beside
that version of Spark. Nothing of this checkout is on its path but the installed package.
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Final

from tests.support.compatibility import lacks_of
from tests.support.pages import DOCS, blocks
from tests.support.project import PROJECT

_PACKAGE: Final = "spark-segmentlog"
_WITHOUT_SPARK: Final = """
import importlib.util, sys
import pyarrow as pa
from spark_segmentlog import open_log, read_arrow

assert importlib.util.find_spec("pyspark") is None
headers = [[{"key": "h", "value": b"x"}]]
for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
    with open_log(sys.argv[1], compression_type=codec) as log:
        log.append("t", pa.table({"key": [b"k"], "value": [codec.encode()], "headers": headers}))
values = read_arrow(sys.argv[1], include_headers=True).read_all()["value"].to_pylist()
assert values == [b"none", b"gzip", b"snappy", b"lz4", b"zstd"], values
"""


def install_commands(page: str) -> list[list[str]]:
    """Give what the page says to type: the words after ``pip``, by line."""
    (block,) = (block for block in blocks(page) if "--no-deps" in block.text)
    lines = [shlex.split(line) for line in block.text.splitlines()]
    assert all(words[:2] == ["pip", "install"] for words in lines)
    return [words[1:] for words in lines]


def oldest(requirements: list[str]) -> list[str]:
    """Pin each to the lowest version that it allows."""
    return [requirement.replace(">=", "==") for requirement in requirements]


class Environment:
    """A virtual environment in which no pip is, so that all it has is what was asked for."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, clear=True)
        self._bin = folder.resolve() / "bin"

    def pip(self, *words: str) -> str:
        """Run pip of the checkout's environment on this one, and give what it prints."""
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python"]
        return self._run([*pip, str(self._bin / "python"), *words]).stdout

    def python(self, *words: str) -> str:
        """Run Python with only what is installed on its path, and give what it logs."""
        return self._run([str(self._bin / "python"), "-P", *words]).stderr

    def command(self, name: str, *words: str) -> str:
        """Run one of the commands that are installed, and give what it prints."""
        return self._run([str(self._bin / name), *words]).stdout

    def packages_on_top(self) -> list[str]:
        """Name the packages that no other one needs."""
        listed = json.loads(self.pip("list", "--not-required", "--format", "json"))
        return [package["name"] for package in listed]

    def _run(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        left_out = ("PYTHONPATH", "SPARK_HOME", "PYSPARK_DRIVER_PYTHON")
        environment = {name: value for name, value in os.environ.items() if name not in left_out}
        environment["PYSPARK_PYTHON"] = str(self._bin / "python")
        with tempfile.TemporaryDirectory() as folder:
            ran = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
        if ran.returncode != 0:
            sys.stderr.write(ran.stdout + ran.stderr)
        ran.check_returncode()
        return ran


def install_as_told(environment: Environment) -> None:
    """Type what the page says, with this checkout for the released package."""
    for words in install_commands((DOCS / "compatibility.md").read_text()):
        told = [str(PROJECT) if word == _PACKAGE else word for word in oldest(words)]
        environment.pip(*told, "-q")


def run_without_spark(environment: Environment, folder: Path) -> None:
    """Append, read and list a log where there is no Spark."""
    environment.python("-c", _WITHOUT_SPARK, str(folder))
    listed = environment.command("segmentlog", "ls", str(folder), "--format", "json")
    assert json.loads(listed)["topic"] == "t"
    environment.command("segmentlog", "verify", "--deep", str(folder))


def run_beside_spark(environment: Environment, version: str, folder: Path) -> None:
    """Read, write and stream, where all there is belongs to the package, and nothing is missing.

    What this version of Spark lacks, as the table of versions has it, is what is warned of.
    """
    assert environment.packages_on_top() == [_PACKAGE]
    environment.pip("check")
    program = PROJECT / "tests" / "support" / "every_spark.py"
    told = environment.python(str(program), str(folder)).splitlines()
    warnings = {line for line in told if line.startswith(f"Spark {version}: ")}
    assert len(warnings) == len(lacks_of(version)), warnings


def main(folder: str, version: str) -> None:
    """Make the environment, and run what it must be able to do."""
    environment = Environment(Path(folder))
    install_as_told(environment)
    with tempfile.TemporaryDirectory() as logs:
        run_without_spark(environment, Path(logs) / "without")
        try:
            environment.pip("install", "-q", f"pyspark=={version}")
        except subprocess.CalledProcessError:
            print(f"Spark {version} could not be installed by pip, left out")
            return
        run_beside_spark(environment, version, Path(logs) / "beside")
    print(f"without Spark and beside {version} all that is promised runs")


if __name__ == "__main__":
    main(*sys.argv[1:])
