"""Every call that changes a disk goes through `log.files`, where tests fail, tear and kill it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import spark_segmentlog

PACKAGE = Path(spark_segmentlog.__file__).parent
LAYER = PACKAGE / "log" / "files.py"
# Keeps compiled kernels, and no file of a log.
KERNEL_CACHE = PACKAGE / "record" / "_jit.py"
# Makes directories for tests and demos, in no log of anybody's.
BUILDERS = PACKAGE / "testing"
# Of `os`: what opens, changes or syncs. Looking (stat, listdir, scandir, path) changes nothing.
CALLS = frozenset(
    [
        *("chmod", "chown", "close", "copy_file_range", "dup", "dup2", "fchmod", "fchown"),
        *("fdatasync", "fdopen", "fsync", "ftruncate", "lchown", "link", "makedirs", "mkdir"),
        *("mkfifo", "mknod", "open", "posix_fallocate", "pread", "preadv", "pwrite", "pwritev"),
        *("read", "readv", "remove", "removedirs", "rename", "renames", "replace", "rmdir"),
        *("sendfile", "splice", "symlink", "sync", "truncate", "unlink", "utime", "write"),
        "writev",
    ]
)
METHODS = frozenset(["write_bytes", "write_text", "read_bytes", "read_text", "touch"])
MODULES = frozenset(("shutil", "tempfile", "mmap", "fileinput"))


def calls_around(source: str) -> list[str]:
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.extend(it.name for it in node.names if it.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module in MODULES:
                found.append(node.module)
            elif node.module == "os":
                found.extend(f"os.{it.name}" for it in node.names if it.name in CALLS)
        elif isinstance(node, ast.Attribute):
            is_os = isinstance(node.value, ast.Name) and node.value.id in ("os", "posix")
            if (is_os and node.attr in CALLS) or node.attr in METHODS:
                found.append(f"{ast.unparse(node.value)}.{node.attr}, line {node.lineno}")
        elif isinstance(node, ast.Call) and ast.unparse(node.func) == "open":
            found.append(f"open, line {node.lineno}")
    return found


@pytest.mark.parametrize(
    "path",
    [
        it
        for it in sorted(PACKAGE.rglob("*.py"))
        if it not in (LAYER, KERNEL_CACHE) and BUILDERS not in it.parents
    ],
    ids=lambda it: str(it.relative_to(PACKAGE)),
)
def test_no_file_call_goes_around_the_layer(path: Path) -> None:
    assert calls_around(path.read_text()) == []


def test_calls_around_the_layer_are_found() -> None:
    for source in (
        "import os\nos.rename('a', 'b')",
        "from os import unlink",
        "import shutil",
        "open('a', 'w')",
        "path.write_bytes(b'')",
    ):
        assert calls_around(source)
    assert calls_around("import os\nos.stat('a'), os.path.exists('a'), files.open_log()") == []
