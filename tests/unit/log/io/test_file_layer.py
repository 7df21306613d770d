"""Every call that changes a disk goes through `log.io`, where tests fail, tear and kill it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import spark_segmentlog

PACKAGE = Path(spark_segmentlog.__file__).parent
LAYER = PACKAGE / "log" / "io"
NO_LOG = [
    PACKAGE / "record" / "jit.py",  # compiled kernels
    PACKAGE / "record" / "system" / "schemas.py",  # a table of the package
    PACKAGE / "cli" / "main.py",  # output that nobody reads
    PACKAGE / "cli" / "verify.py",  # a report
]
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
        *("posix_fadvise", "removexattr", "setxattr", "writev"),
    ]
)
METHODS = frozenset(["write_bytes", "write_text", "read_bytes", "read_text", "touch"])
MODULES = frozenset(("shutil", "tempfile", "mmap", "fileinput"))
# What maps a file: a broker that truncates it would kill the reader, and no layer sees a change.
MAPPINGS = frozenset(("mmap", "memmap", "memory_map", "create_memory_map", "MemoryMappedFile"))


def calls_around(source: str) -> list[str]:
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found.extend(name.name for name in node.names if name.name.split(".")[0] in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module in MODULES:
                found.append(node.module)
            elif node.module == "os":
                found.extend(f"os.{name.name}" for name in node.names if name.name in CALLS)
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
        path
        for path in sorted(PACKAGE.rglob("*.py"))
        if path not in NO_LOG and not {LAYER, BUILDERS}.intersection(path.parents)
    ],
    ids=lambda path: str(path.relative_to(PACKAGE)),
)
def test_no_file_call_goes_around_the_layer(path: Path) -> None:
    assert calls_around(path.read_text()) == []


def mappings_in(source: str) -> list[str]:
    """Find what maps a file, by any name; arguments like ``memory_map=True`` too."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import() | ast.ImportFrom():
                names = [name.name for name in node.names] + [getattr(node, "module", None) or ""]
            case ast.Attribute():
                names = [node.attr]
            case ast.Name():
                names = [node.id]
            case ast.keyword(arg=str(name), value=value) if ast.unparse(value) != "False":
                names = ["mmap" if name == "mmap_mode" else name]
            case _:
                continue
        found.extend(name for name in names if name in MAPPINGS)
    return found


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_no_file_is_mapped(path: Path) -> None:
    assert mappings_in(path.read_text()) == []


def test_mappings_are_found() -> None:
    for source in (
        "import mmap",
        "from mmap import mmap",
        "np.memmap('a')",
        "pa.memory_map('a')",
        "np.load('a', mmap_mode='r')",
        "pq.read_table('a', memory_map=True)",
    ):
        assert mappings_in(source)
    assert mappings_in("pq.read_table('a', memory_map=False)") == []


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
