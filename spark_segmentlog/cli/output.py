"""What the verbs print: tables for eyes, one JSON object a line for programs.

On a terminal a table is drawn by rich and fitted to its width. Anywhere else its columns are
aligned with spaces, and nothing is coloured, folded or cut off. Whatever comes out of a log has its
control characters escaped in text, so that a record cannot steer the terminal.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from spark_segmentlog.cli.terminal import Overflow

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
NOTHING: Final = "-"


class OutputFormat(StrEnum):
    """Text for eyes, or one JSON object a line."""

    TEXT = "text"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: the field of the rows it shows, and how.

    `kind` is ``text``, ``number``, ``size`` (bytes, shown for people), ``time`` or ``minute``:
    milliseconds that text shows as UTC. A column without a heading shows in objects alone.
    """

    field: str
    heading: str = ""
    kind: str = "text"

    @property
    def is_right(self) -> bool:
        """Whether its cells are aligned at their ends."""
        return self.kind in ("number", "size")


def print_rows(
    columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], output_format: OutputFormat
) -> None:
    """Print rows as a table of these columns, or all their fields as JSON, each when it comes."""
    if output_format is OutputFormat.JSON:
        for row in rows:
            print_json(row)
    else:
        _print_table(columns, rows, overflow="fold")


def print_sections(
    columns: Sequence[Column],
    rows: Iterable[Mapping[str, Any]],
    output_format: OutputFormat,
    section_of: Callable[[Mapping[str, Any]], str],
) -> None:
    """Print rows; as text a table for each section, below its name.

    On a terminal each row is one line: what is too long for it is cut off.
    """
    if output_format is OutputFormat.JSON:
        print_rows(columns, rows, output_format)
        return
    for number, (name, section) in enumerate(groupby(rows, section_of)):
        if number:
            print_line("")
        if name:
            print_line(f"{printable(name)}:")
        _print_table(columns, section, overflow="ellipsis")


def _print_table(
    columns: Sequence[Column], rows: Iterable[Mapping[str, Any]], *, overflow: Overflow
) -> None:
    shown = [column for column in columns if column.heading]
    cells = [[_cell(row[column.field], column.kind) for column in shown] for row in rows]
    # Verbs without a table start without it.
    from spark_segmentlog.cli.terminal import draw_table

    if not draw_table(shown, cells, overflow):
        _print_aligned(shown, cells)


def print_json(row: Mapping[str, Any]) -> None:
    """Print one object on a line of its own."""
    print_line(json.dumps(row))


def print_line(text: str) -> None:
    """Print text and a line end, not flushed: a dump has millions of lines."""
    sys.stdout.write(f"{text}\n")


def print_bytes(text: memoryview) -> None:
    """Print whole lines in UTF-8."""
    output = sys.stdout
    if isinstance(output, io.TextIOWrapper) and output.encoding.lower() == "utf-8":
        output.flush()
        output.buffer.write(text)
    else:
        output.write(str(text, "utf-8"))


def escape_what_cannot_be_printed() -> None:
    """Let characters that the standard output cannot encode be escaped, and be no error."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def format_time(timestamp_ms: int) -> str:
    """Write a timestamp as ISO 8601 in UTC; the number where the calendar ends before it."""
    try:
        moment = EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_size(size_bytes: int) -> str:
    """Write a number of bytes for people: at most four digits, and a unit."""
    size = float(size_bytes)
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 999.5 or unit == "TiB":
            break
        size /= 1024
    digits = 1 if unit != "B" and size < 99.95 else 0
    return f"{size:.{digits}f} {unit}"


def printable(text: str) -> str:
    """Escape control and other invisible characters, line ends among them."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode("ascii")
        for character in text
    )


def _cell(value: Any, kind: str) -> str:
    if value is None or value == []:
        return NOTHING
    if isinstance(value, bool):
        return "yes" if value else "no"
    if kind == "time":
        return format_time(value)
    if kind == "minute":
        date, is_date, time = format_time(value).partition("T")
        return f"{date} {time[: len('08:00')]}" if is_date else date
    if kind == "size":
        return format_size(value)
    if isinstance(value, list):
        return ",".join(value)
    return printable(str(value))


def _print_aligned(columns: Sequence[Column], cells: Sequence[Sequence[str]]) -> None:
    lines = [[column.heading for column in columns], *cells]
    widths = [max(len(line[number]) for line in lines) for number in range(len(columns))]
    for line in lines:
        padded = (
            cell.rjust(width) if column.is_right else cell.ljust(width)
            for column, cell, width in zip(columns, line, widths, strict=True)
        )
        print_line("  ".join(padded).rstrip())
