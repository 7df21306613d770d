"""Runs of the benchmarks that keep them alive, in a process of their own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.support.project import PROJECT


def run_benchmarks(output: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run some groups with one round of each side; what they leave goes into `output`."""
    command = [sys.executable, "-m", "tests.bench", "--offline", "--repetitions", "1"]
    return subprocess.run(
        [*command, "--output", str(output), *arguments],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=False,
    )
