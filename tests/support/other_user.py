"""Programs of another user, who owns one folder of temporary files and can write nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_NOBODY: Final = 65534
_SWITCH: Final = ("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups")
# Python may lie where no other user can look, as in root's home.
_READ_ALL: Final = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")

USER: Final = _NOBODY if os.geteuid() == 0 else os.geteuid()
"""Who that is: nobody, or who runs the tests, since root alone can become another."""

WHO: Final = "nobody" if os.geteuid() == 0 else "the same user"
"""What a test calls them."""


@dataclass(frozen=True, slots=True)
class OtherUser:
    """Their folder, what a command begins with to run as them, and their environment."""

    folder: Path
    prefix: tuple[str, ...]

    @property
    def environment(self) -> dict[str, str]:
        """Without a home, with temporary files in the folder."""
        return {"HOME": "/nonexistent", "TMPDIR": str(self.folder)}

    def make_folder(self, name: str) -> Path:
        """Make one in which the user works."""
        folder = self.folder / name
        folder.mkdir()
        os.chown(folder, USER, -1)
        return folder


@contextmanager
def other_user() -> Iterator[OtherUser]:
    """Give the user a folder for the time of a ``with`` block."""
    with tempfile.TemporaryDirectory(prefix="other-user-") as name:
        folder = Path(name)
        os.chown(folder, USER, -1)
        yield OtherUser(folder, _prefix(folder))


def _prefix(folder: Path) -> tuple[str, ...]:
    if os.geteuid() != 0:
        return ()
    for prefix in (_SWITCH, (*_SWITCH, *_READ_ALL)):
        # In a child of the shell, since what setpriv itself starts may look where that may not.
        look = ["sh", "-c", '"$0" -c "import spark_segmentlog" && ls "$1"', sys.executable]
        ran = subprocess.run([*prefix, *look, str(folder)], capture_output=True, check=False)
        if ran.returncode == 0:
            return prefix
    raise PermissionError(f"no other user can be made to read {sys.executable} and {folder}")
