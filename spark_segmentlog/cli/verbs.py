"""Every verb of the command, in one table: help, completion and pages have them from here.

A verb's module has its name, and in it the click command ``NAME_verb``; it is loaded only where the
verb is called. Where it prints rows, ``COLUMNS`` has their columns by the words that are typed.
"""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import Enum, auto
from types import ModuleType
from typing import Final

import click

from spark_segmentlog.cli.output import Column


class Effect(Enum):
    """What a verb does to a log."""

    SHOWS = auto()  # who stops reading its output, as ``head`` does, has seen enough
    CHECKS = auto()  # its exit code tells what it found, which needs all of it
    WRITES = auto()


@dataclass(frozen=True, slots=True)
class Verb:
    """A verb: its name, what it does to a log, and the line that the help has of it."""

    name: str
    effect: Effect
    meaning: str

    @property
    def module(self) -> ModuleType:
        """The module that it is in, loaded now."""
        with _without_collection():
            return importlib.import_module(f"{__package__}.{self.name}")

    @property
    def command(self) -> click.Command:
        """The click command of its name."""
        command: click.Command = getattr(self.module, f"{self.name}_verb")
        return command

    @property
    def columns(self) -> Mapping[str, Sequence[Column]]:
        """Columns of the rows that it prints, by the words that are typed for them."""
        columns: Mapping[str, Sequence[Column]] = getattr(self.module, "COLUMNS", {})
        return columns


@contextmanager
def _without_collection() -> Iterator[None]:
    """Load modules and all they hold, which stays, without a search through it for garbage.

    That would be a fifth of what a process takes to start, and is not made up for later.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.freeze()
            gc.enable()


VERBS: Final = {
    verb.name: verb
    for verb in (
        Verb("ls", Effect.SHOWS, "List topics, partitions or segments."),
        Verb("dump", Effect.SHOWS, "Print what the files of partitions hold."),
        Verb("lag", Effect.SHOWS, "How far consumer groups are behind."),
        Verb("verify", Effect.CHECKS, "Compare logs and indexes with themselves."),
        Verb("preflight", Effect.CHECKS, "Tell what a broker would stop at, drop or cut."),
        Verb("adopt", Effect.CHECKS, "Tell whether a broker would take over what is written."),
        Verb("recover", Effect.WRITES, "End commits, cut torn ends, mend indexes."),
        Verb("reindex", Effect.WRITES, "Make all indexes again."),
        Verb("retain", Effect.WRITES, "Delete segments by age, size or log start."),
        Verb("compact", Effect.WRITES, "Keep the latest record of each key."),
        Verb("create", Effect.WRITES, "Make the partitions of a topic."),
        Verb("salvage", Effect.WRITES, "Copy all that is good to a new log directory."),
    )
}
