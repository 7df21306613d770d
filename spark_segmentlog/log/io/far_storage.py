"""Storages over a network: each question costs a request."""

from __future__ import annotations

import fnmatch
import glob
from abc import abstractmethod
from typing import NamedTuple

from spark_segmentlog.log.io.reading import LogFile, Storage
from spark_segmentlog.log.io.remote_file import RangeSource, RemoteFile


class Child(NamedTuple):
    """What a listing tells of one file or folder in it.

    `version` is another one wherever the bytes of a file are others; None where nothing tells.
    """

    name: str
    is_directory: bool
    size: int | None
    version: str | None = None


class FarStorage(Storage):
    """A file system that is not the local one; paths are its own, without a scheme."""

    __slots__ = ()

    def open_input(
        self, path: str, *, reads_blocks: bool = True, size: int | None = None
    ) -> LogFile:
        file = RemoteFile(path, self.ranges(path), size=size, reads_blocks=reads_blocks)
        if size is None:
            # What is not there must show now.
            file.size()
        return file

    def list_names(self, path: str) -> list[str]:
        return list(self.list_sizes(path))

    def list_sizes(self, path: str) -> dict[str, int | None]:
        return {child.name: child.size for child in self.children(path)}

    def list_directories(self, path: str) -> tuple[list[str], list[str]]:
        directories: list[str] = []
        others: list[str] = []
        for child in self.children(path):
            (directories if child.is_directory else others).append(child.name)
        return directories, others

    def real_path(self, path: str) -> str:
        return path.rstrip("/") or path

    def glob(self, pattern: str) -> list[str]:
        found = [""]
        for part in pattern.split("/"):
            found = [path for base in found for path in self._matching(base, part)]
        return found

    def _matching(self, base: str, part: str) -> list[str]:
        prefix = f"{base}/" if base else ""
        if not glob.has_magic(part):
            return [f"{prefix}{part}" if prefix or part else "/"]
        if not self.is_directory(base):
            return []
        return [f"{prefix}{name}" for name in fnmatch.filter(self.list_names(base), part)]

    @abstractmethod
    def ranges(self, path: str) -> RangeSource:
        """Open a file for ranged reads."""

    @abstractmethod
    def children(self, path: str) -> list[Child]:
        """List all that is in a folder."""
