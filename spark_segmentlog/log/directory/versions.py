"""``.segmentlog-versions``, a plain JSON file: what a log directory remembers of commits.

A counter that every commit raises, for each application the last version that it committed, and,
once a commit went over several log directories, the directory's own id.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from spark_segmentlog.log.directory.commit_fields import (
    checked_integer,
    checked_text,
    object_from_bytes,
    object_to_bytes,
    parsing,
    read_commit_file,
)

VERSIONS_FILE_NAME: Final = ".segmentlog-versions"

VERSIONS_FORMAT: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplicationVersion:
    """The last commit of one application in a log directory."""

    version: int
    write_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Versions:
    """Contents of ``.segmentlog-versions``."""

    counter: int = 0
    applications: Mapping[str, ApplicationVersion] = field(default_factory=dict)
    directory_id: str | None = None

    def to_bytes(self) -> bytes:
        """Give the bytes of the file."""
        applications = {
            name: {"version": entry.version, "write_id": entry.write_id}
            for name, entry in sorted(self.applications.items())
        }
        own_id = {} if self.directory_id is None else {"directory_id": self.directory_id}
        return object_to_bytes(
            {
                "format": VERSIONS_FORMAT,
                "counter": self.counter,
                "applications": applications,
                **own_id,
            }
        )

    @classmethod
    def from_bytes(cls, data: bytes, *, source: str) -> Versions:
        """Parse the bytes of the file; `source` is named in errors."""
        with parsing(source):
            found = object_from_bytes(data, VERSIONS_FORMAT)
            applications = {
                name: ApplicationVersion(
                    version=checked_integer(entry["version"]),
                    write_id=checked_text(entry["write_id"]),
                )
                for name, entry in found["applications"].items()
            }
            own_id = found.get("directory_id")
            return cls(
                counter=checked_integer(found["counter"]),
                applications=applications,
                directory_id=None if own_id is None else checked_text(own_id),
            )


def read_versions(log_directory: str) -> Versions:
    """Read ``.segmentlog-versions``; an absent file is a directory without a commit."""
    path = os.path.join(log_directory, VERSIONS_FILE_NAME)
    data = read_commit_file(path)
    return Versions() if data is None else Versions.from_bytes(data, source=path)


def new_directory_id() -> str:
    """Make the id by which journals of other directories know a log directory."""
    return uuid.uuid4().hex
