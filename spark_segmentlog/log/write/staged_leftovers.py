"""What writes that failed, or died, have left staged: found by its names, and removed."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from typing import Final

from spark_segmentlog.log.io import files
from spark_segmentlog.log.names import STAGED_NAME

STAGED_MAX_AGE_SECONDS: Final = 7 * 24 * 60 * 60


def new_write_id(application: str | None = None, version: int | None = None) -> str:
    """Make the id of one write.

    An application and its version are part of it, so that a later version of the same application
    knows the staging of earlier ones as dead.
    """
    unique = uuid.uuid4().hex
    if application is None or version is None:
        return unique
    return f"{_application_digest(application)}.{version}.{unique}"


def list_staged(log_directory: str) -> Iterator[tuple[str, str]]:
    """List the paths of staged files in a log directory, each with its write id."""
    for name in sorted(os.listdir(log_directory)):
        match = STAGED_NAME.fullmatch(name)
        if match is not None:
            yield os.path.join(log_directory, name), match["write_id"]


def discard_staged(log_directories: Iterable[str], write_ids: Sequence[str]) -> None:
    """Remove all that these writes staged."""
    for directory in log_directories:
        for path, write_id in list_staged(directory):
            if write_id in write_ids:
                files.unlink(path, missing_ok=True)


def sweep_staged(
    log_directories: Iterable[str],
    *,
    application: str | None = None,
    version: int | None = None,
    now_seconds: float | None = None,
) -> None:
    """Remove the staging of dead writes: old files, and those of an application up to a version."""
    now_seconds = time.time() if now_seconds is None else now_seconds
    for directory in log_directories:
        for path, write_id in list_staged(directory):
            if _is_superseded(write_id, application, version) or _is_old(path, now_seconds):
                files.unlink(path, missing_ok=True)


def _is_superseded(write_id: str, application: str | None, version: int | None) -> bool:
    digest, _, rest = write_id.partition(".")
    staged_version, _, _ = rest.partition(".")
    return (
        application is not None
        and version is not None
        and digest == _application_digest(application)
        and staged_version.isdigit()
        and int(staged_version) <= version
    )


def _is_old(path: str, now_seconds: float) -> bool:
    try:
        return os.stat(path).st_mtime < now_seconds - STAGED_MAX_AGE_SECONDS
    except FileNotFoundError:
        return False


def _application_digest(application: str) -> str:
    return sha256(application.encode()).hexdigest()[:16]
