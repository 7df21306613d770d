"""One writer a log directory, across processes and threads, and a broker that is told from it."""

from __future__ import annotations

import errno
import fcntl
import os
import pickle
import shutil
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
from spark_segmentlog.log.io import files, lock
from spark_segmentlog.log.io.lock import (
    BROKER_LOCK_FILE_NAME,
    WRITER_LOCK_FILE_NAME,
    is_locked,
    locked,
)
from tests.support.running import contents

HOLD_AS_BROKER = """
import fcntl, os, sys, time
descriptor = os.open(sys.argv[1] + "/.lock", os.O_RDWR | os.O_CREAT)
fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("held", flush=True)
sys.stdin.read()
"""
HOLD_AS_WRITER = """
import sys
from spark_segmentlog.log.io.lock import locked
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
    set_lock, path = lock._set_lock, tmp_path / BROKER_LOCK_FILE_NAME
    deleted: list[int] = []

    def delete_meanwhile(descriptor: int, kind: int = fcntl.F_WRLCK) -> None:
        set_lock(descriptor, kind)
        if path.exists() and not deleted and os.path.samestat(os.fstat(descriptor), path.stat()):
            deleted.append(path.stat().st_ino)
            path.unlink()

    monkeypatch.setattr(lock, "_set_lock", delete_meanwhile)
    with locked([str(tmp_path)]):
        assert deleted
        assert path.exists()
        assert not is_free(tmp_path)


def test_it_is_held_whatever_else_in_the_process_opens_and_closes_the_files(
    tmp_path: Path,
) -> None:
    with locked([str(tmp_path)]):
        for name in (BROKER_LOCK_FILE_NAME, WRITER_LOCK_FILE_NAME):
            (tmp_path / name).read_bytes()
        shutil.copytree(tmp_path, tmp_path / "copy")
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


def test_without_locks_of_its_kind_record_locks_take_their_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(fcntl, "F_OFD_SETLK")
    with locked([str(tmp_path)]):
        assert not is_free(tmp_path)
    assert is_free(tmp_path)


def test_a_file_system_without_locks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(descriptor: int, kind: int = fcntl.F_WRLCK) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(lock, "_set_lock", refuse)
    with pytest.raises(LogLockedError, match="without file locks"), locked([str(tmp_path)]):
        pass


@pytest.mark.parametrize("program", [HOLD_AS_BROKER, HOLD_AS_WRITER], ids=["broker", "writer"])
def test_who_holds_it_is_seen_by_one_who_only_looks(tmp_path: Path, program: str) -> None:
    assert is_locked(str(tmp_path)) is False
    with held_by_another(program, tmp_path):
        before = contents(tmp_path)
        assert is_locked(str(tmp_path)) is True
    assert is_locked(str(tmp_path)) is False
    assert contents(tmp_path) == before


def test_a_look_at_it_lets_nothing_go(tmp_path: Path) -> None:
    with locked([str(tmp_path)]):
        assert is_locked(str(tmp_path)) is True
        assert not is_free(tmp_path)


def test_a_read_only_lock_file_does_for_a_look(tmp_path: Path) -> None:
    path = tmp_path / BROKER_LOCK_FILE_NAME
    path.touch()
    path.chmod(0o400)
    assert is_locked(str(tmp_path)) is False


def test_a_look_without_such_locks_touches_nothing_and_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(fcntl, "F_OFD_SETLK")
    monkeypatch.delattr(fcntl, "F_OFD_GETLK")
    with locked([str(tmp_path)]):
        assert is_locked(str(tmp_path)) is None
        assert not is_free(tmp_path)


@pytest.mark.parametrize("number", [errno.EINVAL, *sorted(lock.WITHOUT_LOCKS)])
def test_a_system_that_knows_no_such_question_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(descriptor: int, command: int, argument: bytes) -> bytes:
        raise OSError(number, os.strerror(number))

    assert is_locked(str(tmp_path)) is False
    (tmp_path / BROKER_LOCK_FILE_NAME).touch()
    monkeypatch.setattr(fcntl, "fcntl", refuse)
    assert is_locked(str(tmp_path)) is None


def test_what_may_not_be_opened_tells_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / BROKER_LOCK_FILE_NAME
    path.symlink_to(tmp_path / "elsewhere")
    assert is_locked(str(tmp_path)) is None

    def refuse(path: str) -> int:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(files, "open_plain_file", refuse)
    assert is_locked(str(tmp_path)) is None


JAVA_LOCK = """
import java.nio.channels.*; import java.nio.file.*;
public class Hold {
    public static void main(String[] arguments) throws Exception {
        FileChannel channel = FileChannel.open(Path.of(arguments[0]),
            StandardOpenOption.CREATE, StandardOpenOption.READ, StandardOpenOption.WRITE);
        FileLock lock = channel.tryLock();
        System.out.println(lock == null ? "taken" : "held");
        System.out.flush();
        System.in.read();
    }
}
"""


@contextmanager
def locked_by_java(source: Path, path: Path) -> Iterator[str]:
    """Run a Java FileChannel's tryLock; gives whether it holds the lock, until the block ends."""
    process = subprocess.Popen(
        ["java", "-Xint", str(source), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def test_it_and_a_file_channel_of_java_keep_each_other_away(tmp_path: Path) -> None:
    source = tmp_path / "Hold.java"
    source.write_text(JAVA_LOCK)
    directory = tmp_path / "log"
    directory.mkdir()
    path = directory / BROKER_LOCK_FILE_NAME
    with locked([str(directory)]):
        path.read_bytes()
        with locked_by_java(source, path) as answer:
            assert answer == "taken"
    with locked_by_java(source, path) as answer:
        assert answer == "held"
        with pytest.raises(LogLockedError, match="running broker"), locked([str(directory)]):
            pass


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


def test_a_forked_child_that_leaves_the_block_lets_nothing_go(tmp_path: Path) -> None:
    child = -1
    with locked([str(tmp_path)]):
        child = os.fork()
        if child != 0:
            assert os.waitpid(child, 0)[1] == 0
            assert not is_free(tmp_path)
    if child == 0:
        os._exit(0)
    assert is_free(tmp_path)


def test_a_forked_child_that_outlives_its_parent_keeps_nothing(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    with locked([str(tmp_path)]):
        child = os.fork()
        if child == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        os.close(reading)
    assert is_free(tmp_path)
    os.close(writing)
    os.waitpid(child, 0)


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(LogPathNotFoundError, match="missing"), locked([str(tmp_path / "missing")]):
        pass


def test_its_errors_pickle(tmp_path: Path) -> None:
    with locked([str(tmp_path)]), pytest.raises(LogLockedError) as caught, locked([str(tmp_path)]):
        pass
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
    assert (tmp_path / WRITER_LOCK_FILE_NAME).exists()
