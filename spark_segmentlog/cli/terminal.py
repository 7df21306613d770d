"""What is drawn on a terminal, by rich, which is loaded where there is something to draw."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, TypeAlias

from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from spark_segmentlog.cli.output import Column

Overflow: TypeAlias = Literal["fold", "ellipsis"]
_GAP: Final = 2
_LEAST_WIDTH: Final = 4


def draw_table(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], overflow: Overflow
) -> bool:
    """Draw a table, fitted to the terminal; False, and nothing, where the output goes elsewhere.

    Where it is too wide, columns of text are made narrower: a number that is cut off says nothing.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        return False
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, width in zip(columns, _widths(columns, cells, console.width), strict=True):
        table.add_column(
            column.heading,
            justify="right" if column.is_right else "left",
            overflow=overflow,
            no_wrap=overflow == "ellipsis",
            max_width=width,
        )
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    return True


def _widths(
    columns: Sequence[Column], cells: Sequence[Sequence[str]], console_width: int
) -> list[int]:
    """Choose how wide columns are at most: the widest text gives way first."""
    lines = [[column.heading for column in columns], *cells]
    widths = [max(map(cell_len, texts)) for texts in zip(*lines, strict=True)]
    excess = sum(widths) + _GAP * (len(columns) - 1) - console_width
    texts = [number for number, column in enumerate(columns) if column.kind == "text"]
    for _ in range(excess):
        widest = max(texts, key=lambda number: widths[number], default=None)
        if widest is None or widths[widest] <= _LEAST_WIDTH:
            break
        widths[widest] -= 1
    return widths


@contextmanager
def progress_bar(name: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
    """Show on the standard error how far something has come; gives what is told the bytes done."""
    columns = (TextColumn(name), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(
        *columns,
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
        redirect_stderr=False,
    ) as bar:
        task = bar.add_task(name, total=total_bytes)
        yield lambda done_bytes: bar.update(task, completed=done_bytes)
