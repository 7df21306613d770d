"""Which files a broker, run as the owner of its log directory, could not write."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from spark_segmentlog.log.findings import GOES_OFFLINE, Finding, FindingKind, refuse
from spark_segmentlog.log.formats.checkpoints import META_PROPERTIES
from spark_segmentlog.log.names import TopicPartition


def wrong_owner(
    directory: str, names: Iterable[str], topic_partition: TopicPartition | None
) -> Iterator[Finding]:
    """Find what the owner of a log directory, as whom its broker runs, cannot open for writing."""
    log_directory = directory if topic_partition is None else os.path.dirname(directory)
    owner = os.stat(log_directory)
    closed = [
        path
        for path in (directory, *(os.path.join(directory, name) for name in sorted(names)))
        if not _is_open_to(path, owner)
    ]
    if closed:
        yield Finding(
            kind=FindingKind.OWNER,
            path=closed[0],
            topic_partition=topic_partition,
            detail=f"{len(closed)} of the files here cannot be written by user {owner.st_uid}, the "
            "owner of the log directory",
            broker=f"{GOES_OFFLINE}, where it runs as that user",
        )


def _is_open_to(path: str, owner: os.stat_result) -> bool:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return True
    if owner.st_uid == 0:
        return True
    wanted = stat.S_IROTH | stat.S_IWOTH
    if status.st_uid == owner.st_uid:
        return status.st_mode >> 6 & wanted == wanted
    if status.st_gid == owner.st_gid:
        return status.st_mode >> 3 & wanted == wanted
    return status.st_mode & wanted == wanted


def check_owner(log_directories: Iterable[str]) -> None:
    """Refuse to create files in a broker's directories that it could not open.

    Raises
    ------
    PreflightError
        Before anything was created.
    """
    user = os.geteuid()
    findings = [
        Finding(
            kind=FindingKind.OWNER,
            path=path,
            detail=f"belongs to user {owner}, and files that user {user} creates could not be "
            "written by it: run this as that user, or as root",
            broker=f"{GOES_OFFLINE}, where it runs as user {owner}",
            refuses_writes=True,
        )
        for path in log_directories
        if user != 0
        and os.path.exists(os.path.join(path, META_PROPERTIES))
        and (owner := os.stat(path).st_uid) not in (user, 0)
    ]
    refuse(findings)
