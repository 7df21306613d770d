"""The clean-shutdown marks of log directories, away while their logs are open for appending.

A broker believes a mark without looking, so one may stand only where all is whole.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from spark_segmentlog.log.formats.checkpoints import CLEAN_SHUTDOWN_MARK
from spark_segmentlog.log.io import files
from spark_segmentlog.log.io.reading import LOCAL


def take_marks_away(log_directories: Iterable[str]) -> dict[str, bytes]:
    """Remove the marks, and make that last; gives the bytes of each by its directory."""
    marks = {}
    for directory in log_directories:
        path = os.path.join(directory, CLEAN_SHUTDOWN_MARK)
        mark = LOCAL.read_file(path)
        if mark is not None:
            marks[directory] = mark
            files.unlink(path)
            files.fsync_directory(directory)
    return marks


def put_marks_back(marks: Mapping[str, bytes]) -> None:
    """Write marks again as they were, after all that they vouch for lasts."""
    for directory, mark in marks.items():
        files.write_atomically(os.path.join(directory, CLEAN_SHUTDOWN_MARK), mark)
        files.fsync_directory(directory)
