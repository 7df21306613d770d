"""One writer a log directory, across processes and threads, and a broker that is told from it."""

from __future__ import annotations

import fcntl
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from spark_segmentlog.errors import LogLockedError, LogPathNotFoundError
from spark_segmentlog.log import lock
from spark_segmentlog.log.lock import BROKER_LOCK_FILE_NAME, WRITER_LOCK_FILE_NAME, locked

HOLD_AS_BROKER = """
import fcntl, os, sys, time
descriptor = os.open(sys.argv[1] + "/.lock", os.O_RDWR | os.O_CREAT)
fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""
HOLD_AS_WRITER = """
import sys
from spark_segmentlog.log.lock import locked
with locked([sys.argv[1]]):
    print("held", flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another(program: str, directory: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "held\n"
        yield process
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def is_free(directory: Path) -> bool:
    """Ask from another process, as a lock of this one would not be in its own way."""
    program = HOLD_AS_BROKER.replace("sys.stdin.read()", "")
    result = subprocess.run(
        [sys.executable, "-c", program, str(directory)], capture_output=True, check=False
    )
    return result.returncode == 0


def test_it_is_the_lock_of_a_broker_and_goes_with_the_block(tmp_path: Path) -> None:
    with locked([str(tmp_path)]) as paths:
        assert paths == (os.path.realpath(tmp_path),)
        assert not is_free(tmp_path)
    assert is_free(tmp_path)
    assert (tmp_path / BROKER_LOCK_FILE_NAME).exists()


def test_a_directory_that_a_broker_holds_is_refused_at_once(tmp_path: Path) -> None:
    with held_by_another(HOLD_AS_BROKER, tmp_path):
        start = time.monotonic()
        with pytest.raises(LogLockedError, match="running broker"), locked([str(tmp_path)]):
            pass
        assert time.monotonic() - start < 30
    with locked([str(tmp_path)]):
        pass


def test_another_writer_is_waited_for_until_the_time_is_over(tmp_path: Path) -> None:
    with held_by_another(HOLD_AS_WRITER, tmp_path) as process:
        with (
            pytest.raises(LogLockedError, match=f"process {process.pid} on .*lock.timeout.ms"),
            locked([str(tmp_path)], timeout_ms=50),
        ):
            pass
        assert process.stdin is not None
        threading.Timer(0.2, process.stdin.close).start()
        with locked([str(tmp_path)], timeout_ms=60_000):
            assert process.wait() == 0


def test_a_killed_writer_holds_nothing(tmp_path: Path) -> None:
    with held_by_another(HOLD_AS_WRITER, tmp_path) as process:
        process.send_signal(signal.SIGKILL)
        process.wait()
        with locked([str(tmp_path)], timeout_ms=0):
            pass


def test_a_second_writer_in_the_same_thread_is_refused(tmp_path: Path) -> None:
    with (
        locked([str(tmp_path)]),
        pytest.raises(LogLockedError, match="in this thread"),
        locked([str(tmp_path)]),
    ):
        pass


def test_a_second_thread_waits_for_the_first(tmp_path: Path) -> None:
    order: list[str] = []
    is_held = threading.Event()

    def first() -> None:
        with locked([str(tmp_path)]):
            is_held.set()
            time.sleep(0.1)
            order.append("first")

    thread = threading.Thread(target=first)
    thread.start()
    is_held.wait()
    with (
        pytest.raises(LogLockedError, match="another thread"),
        locked([str(tmp_path)], timeout_ms=1),
    ):
        pass
    with locked([str(tmp_path)], timeout_ms=60_000):
        order.append("second")
    thread.join()
    assert order == ["first", "second"]


def test_a_lock_file_that_a_broker_deleted_is_locked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lockf, path = fcntl.lockf, tmp_path / BROKER_LOCK_FILE_NAME
    deleted: list[int] = []

    def delete_meanwhile(descriptor: int, command: int) -> None:
        lockf(descriptor, command)
        if path.exists() and not deleted and os.path.samestat(os.fstat(descriptor), path.stat()):
            deleted.append(path.stat().st_ino)
            path.unlink()

    monkeypatch.setattr(lock.fcntl, "lockf", delete_meanwhile)
    with locked([str(tmp_path)]):
        assert deleted
        assert path.exists()
        assert not is_free(tmp_path)


def test_all_or_none_of_several_are_held(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    first.mkdir()
    second.mkdir()
    with (
        held_by_another(HOLD_AS_BROKER, second),
        pytest.raises(LogLockedError, match="b is held"),
        locked([str(second), str(first)]),
    ):
        pass
    assert is_free(first)
    with locked([str(second), str(first), str(first / ".." / "a")]) as paths:
        assert paths == (os.path.realpath(first), os.path.realpath(second))


def test_a_forked_child_holds_nothing(tmp_path: Path) -> None:
    with locked([str(tmp_path)]):
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                with locked([str(tmp_path)], timeout_ms=0):
                    answer = b"locked"
            except LogLockedError as error:
                answer = str(error).encode()
            os.write(writing, answer)
            os._exit(0)
        os.waitpid(child, 0)
        assert b"being written by" in os.read(reading, 1000)
        os.close(reading)
        os.close(writing)
        assert not is_free(tmp_path)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogPathNotFoundError, match="missing"), locked([str(tmp_path / "missing")]):
        pass


def test_its_errors_pickle(tmp_path: Path) -> None:
    with locked([str(tmp_path)]), pytest.raises(LogLockedError) as caught, locked([str(tmp_path)]):
        pass
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert (tmp_path / WRITER_LOCK_FILE_NAME).exists()
