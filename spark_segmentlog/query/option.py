"""One option: its name, how it is parsed, where it holds, and what it means."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from spark_segmentlog.errors import OptionValueError
from spark_segmentlog.log.io.reading import without_secrets


class OptionScope(StrEnum):
    """What options are given to."""

    BATCH_READ = "a batch read"
    STREAM_READ = "a stream"
    WRITE = "a write"


@dataclass(frozen=True, slots=True)
class Option:
    """One option.

    Attributes
    ----------
    name : str
        Documented spelling.
    parse : callable
        From text to value; raises ValueError with the legal values as its text.
    scopes : tuple of OptionScope
        What takes it.
    meaning : str
        One line.
    default : object
        Value where it is not given.
    shown : str or None
        The default as the documentation shows it, where that is not the value.
    ignored_in : tuple of OptionScope
        What warns and goes on, as Spark's Kafka source does; all others refuse it.
    is_secret : bool
        Whether no message may have its value.
    """

    name: str
    parse: Callable[[str], Any]
    scopes: tuple[OptionScope, ...]
    meaning: str
    default: Any = None
    shown: str | None = None
    ignored_in: tuple[OptionScope, ...] = ()
    is_secret: bool = False

    @property
    def field(self) -> str:
        """Name of the attribute that holds the value, and of the keyword in Python."""
        return snake_case(self.name)

    @property
    def shown_default(self) -> str:
        """The default as the documentation shows it."""
        if self.shown is not None:
            return self.shown
        if isinstance(self.default, bool):
            return str(self.default).lower()
        return str(self.default or "")

    def value(self, text: str) -> Any:
        """Parse a value.

        Raises
        ------
        OptionValueError
            It is not legal.
        """
        try:
            return self.parse(text.strip())
        except ValueError as error:
            shown = "not shown" if self.is_secret else f"'{without_secrets(text)}'"
            raise OptionValueError(f"option '{self.name}' is {shown}: {error}") from error


def snake_case(name: str) -> str:
    """Write the name of an option as a Python keyword: ``kafka_check_crcs``, ``min_partitions``."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).replace(".", "_").lower()


READS: Final = (OptionScope.BATCH_READ, OptionScope.STREAM_READ)


BATCH: Final = (OptionScope.BATCH_READ,)


STREAM: Final = (OptionScope.STREAM_READ,)


WRITES: Final = (OptionScope.WRITE,)


EVERYWHERE: Final = (OptionScope.BATCH_READ, OptionScope.STREAM_READ, OptionScope.WRITE)
