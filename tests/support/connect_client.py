"""A Python with what Spark Connect's clients need, made once in `.build`.

It is one of its own, since pandas is among that: no other test may come to depend on pandas.
"""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Final

from tests.support.project import PROJECT

_FOLDER: Final = PROJECT / ".build" / f"connect-{importlib.metadata.version('pyspark')}"


def connect_python() -> str:
    """Return the path of it; beside its own packages it has those of this Python."""
    python = str(_FOLDER / "bin" / "python")
    installed = _FOLDER / ".installed"
    if not installed.exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", _FOLDER], check=True)
        own = [python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]
        packages = subprocess.run(own, check=True, capture_output=True, text=True).stdout.strip()
        Path(packages, "beside.pth").write_text(sysconfig.get_path("purelib"))
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        subprocess.run([*pip, *_requirements()], check=True)
        installed.touch()
    return python


def _requirements() -> list[str]:
    """List what the installed Spark asks for."""
    found = importlib.metadata.requires("pyspark") or []
    return [each.split(";")[0].strip() for each in found if each.endswith('extra == "connect"')]
