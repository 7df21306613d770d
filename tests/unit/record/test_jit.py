"""The cache of compiled kernels: where it is kept, and what is not loaded from it."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_segmentlog.record import jit

_PROBE = """
import numpy as np
from spark_segmentlog.record.kernels import checksum as kernels
data = np.arange(100, dtype=np.uint8)
assert kernels.crc32c_of(data, 0, 9) == kernels.crc_by_tables(
    data, 0, 9, kernels._CRC32C_TABLES
)
print(sum(kernels.crc32c_of.stats.cache_hits.values()))
"""


def _run(
    program: str, tmp_path: Path, environment: dict[str, str], package: Path | None = None
) -> subprocess.CompletedProcess[str]:
    root = package or Path(jit.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", **environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


def _probe(tmp_path: Path, environment: dict[str, str], package: Path | None = None) -> str:
    return _run(_PROBE, tmp_path, environment, package).stdout.strip()


def test_second_process_takes_kernels_from_the_cache(tmp_path: Path) -> None:
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    assert _probe(tmp_path, environment) == "0"
    assert _probe(tmp_path, environment) == "1"


_PREPARED = """
import sys
print(" numba.cpython.charseq" if "numba.cpython.charseq" in sys.modules else "")
"""


def test_a_process_that_compiles_nothing_does_not_prepare_numba_to_compile(tmp_path: Path) -> None:
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    assert _run(_PROBE + _PREPARED, tmp_path, environment).stdout.split() == [
        "0",
        "numba.cpython.charseq",
    ]
    assert _run(_PROBE + _PREPARED, tmp_path, environment).stdout.split() == ["1"]


_CALLER = """
import numpy as np
from spark_segmentlog.record.jit import kernel

@kernel
def first_of(values):
    return values[0]

print(first_of(np.full(8, 7, np.int64)))

@kernel
def first_and_second_of(values):
    return first_of(values) + values[1]
"""


def test_a_kernel_that_is_not_kept_yet_calls_one_that_was_loaded(tmp_path: Path) -> None:
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    program = tmp_path / "program.py"
    run_it = f"import runpy; runpy.run_path({str(program)!r})"
    program.write_text(_CALLER)
    assert _run(run_it, tmp_path, environment).stdout == "7\n"
    program.write_text(_CALLER + "\nprint(first_and_second_of(np.arange(1, 9)))\n")
    assert _run(run_it, tmp_path, environment).stdout == "7\n3\n"


def test_damaged_cache_means_a_compilation(tmp_path: Path) -> None:
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    _probe(tmp_path, environment)
    damaged = list((tmp_path / "cache").rglob("*.nb*"))
    assert damaged
    for path in damaged:
        path.write_bytes(path.read_bytes()[:20])
    assert _probe(tmp_path, environment) == "0"


_TWO_SIGNATURES = """
import numpy as np
from spark_segmentlog.record.jit import kernel

@kernel
def first_of(values):
    return values[0]

print(first_of(np.full(8, 7, np.uint8)), first_of(np.full(8, 9, np.int64)))
"""


def test_code_that_the_cache_holds_under_other_arguments_is_not_run(tmp_path: Path) -> None:
    environment = {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "HOME": str(tmp_path)}
    program = tmp_path / "program.py"
    program.write_text(_TWO_SIGNATURES)
    run_it = f"import runpy; runpy.run_path({str(program)!r})"
    assert _run(run_it, tmp_path, environment).stdout == "7 9\n"
    one, other = sorted((tmp_path / "cache").rglob("*first_of*.nbc"))
    bytes_of_one = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(bytes_of_one)
    assert _run(run_it, tmp_path, environment).stdout == "7 9\n"


def _blocked_install(tmp_path: Path, *, zipped: bool) -> tuple[Path, dict[str, str]]:
    """Install the package where neither it nor the home takes a file, from root neither."""
    source, blocked = Path(jit.__file__).parents[1], tmp_path / "blocked"
    blocked.write_text("a file where a folder is wanted")
    root = tmp_path / ("library.zip" if zipped else "library")
    if zipped:
        with zipfile.ZipFile(root, "w") as writer:
            for path in sorted(source.rglob("*.py")):
                writer.write(path, path.relative_to(source.parent))
    else:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(source, root / source.name, ignore=ignored)
        for folder in [path.parent for path in root.rglob("__init__.py")]:
            (folder / "__pycache__").write_text("a file where a folder is wanted")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    places = {"HOME": blocked, "XDG_CACHE_HOME": blocked, "TMPDIR": temporary}
    return root, {name: str(path) for name, path in places.items()}


@pytest.mark.parametrize("zipped", [False, True])
def test_where_home_and_install_take_no_file_kernels_are_kept_among_the_temporary_files(
    tmp_path: Path, zipped: bool
) -> None:
    root, environment = _blocked_install(tmp_path, zipped=zipped)
    folder = tmp_path / "temporary" / f"segmentlog-kernels-{os.geteuid()}"
    first, second = (_run(_PROBE, tmp_path, environment, root) for _ in range(2))
    assert (first.stdout, second.stdout) == ("0\n", "1\n")
    assert len(first.stderr.splitlines()) == 1
    assert first.stderr.startswith(f"compiled kernels are kept in {folder}: ")
    assert second.stderr == ""
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def _make_file(path: Path) -> None:
    path.write_text("a file where a folder is wanted")


def _make_open_to_others(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


def _make_link(path: Path) -> None:
    target = path.parent / "target"
    target.mkdir(mode=0o700)
    path.symlink_to(target)


@pytest.mark.parametrize("make", [_make_file, _make_open_to_others, _make_link])
def test_no_code_is_loaded_from_a_temporary_folder_that_is_not_the_users_own(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    root, environment = _blocked_install(tmp_path, zipped=False)
    make(tmp_path / "temporary" / f"segmentlog-kernels-{os.geteuid()}")
    for _ in range(2):
        done = _run(_PROBE, tmp_path, environment, root)
        assert done.stdout == "0\n"
        assert len(done.stderr.splitlines()) == 1
        assert done.stderr.startswith("kernels are compiled in every process, for seconds each: ")
    assert not [path for path in tmp_path.rglob("*.nb*") if path.is_file()]


_READ_ONLY = """
import os, tempfile
access, temporary_file = os.access, tempfile.TemporaryFile

def is_shipped(path):
    return str(path).startswith(os.environ["SHIPPED"])

def refuse_the_shipped(dir):
    if is_shipped(dir):
        raise PermissionError(dir)
    return temporary_file(dir=dir)

os.access = lambda path, mode: access(path, mode) and not (mode & os.W_OK and is_shipped(path))
tempfile.TemporaryFile = refuse_the_shipped
"""


def _shipped(tmp_path: Path, *, beside_the_source: bool) -> tuple[Path, dict[str, str]]:
    """Compile a kernel as whoever makes an environment, for users who cannot write it."""
    root, environment = _blocked_install(tmp_path, zipped=False)
    if beside_the_source:
        for path in root.rglob("__pycache__"):
            path.unlink()
        assert _probe(tmp_path, environment, root) == "0"
        root = root.rename(tmp_path / "unpacked on another machine")
        return root, {**environment, "SHIPPED": str(root)}
    environment["NUMBA_CACHE_DIR"] = environment["SHIPPED"] = str(tmp_path / "kernels")
    assert _probe(tmp_path, environment, root) == "0"
    return root, environment


@pytest.mark.parametrize("beside_the_source", [False, True])
def test_kernels_that_an_environment_ships_are_taken_by_users_who_cannot_write_it(
    tmp_path: Path, beside_the_source: bool
) -> None:
    root, environment = _shipped(tmp_path, beside_the_source=beside_the_source)
    done = _run(_READ_ONLY + _PROBE, tmp_path, environment, root)
    assert (done.stdout, done.stderr) == ("1\n", "")
    assert list((tmp_path / "temporary").iterdir()) == []


def test_what_a_shipped_cache_lacks_is_kept_among_the_temporary_files(tmp_path: Path) -> None:
    root, environment = _shipped(tmp_path, beside_the_source=False)
    (lacking,) = (tmp_path / "kernels").rglob("*crc32c_of*.nbc")
    lacking.unlink()
    first, second = (_run(_READ_ONLY + _PROBE, tmp_path, environment, root) for _ in range(2))
    assert (first.stdout, second.stdout) == ("0\n", "1\n")
    assert first.stderr.startswith("compiled kernels are kept in ")
    assert second.stderr == ""
    assert not lacking.exists()
