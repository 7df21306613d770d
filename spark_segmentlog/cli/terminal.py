"""What is drawn on a terminal, by rich, which is loaded where there is something to draw."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Literal, TypeAlias

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

Overflow: TypeAlias = Literal["fold", "ellipsis"]


def draw_table(
    headings: Sequence[str],
    are_right: Sequence[bool],
    cells: Sequence[Sequence[str]],
    overflow: Overflow,
) -> bool:
    """Draw a table, fitted to the terminal; False, and nothing, where the output goes elsewhere."""
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        return False
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, is_right in zip(headings, are_right, strict=True):
        table.add_column(
            heading,
            justify="right" if is_right else "left",
            overflow=overflow,
            no_wrap=overflow == "ellipsis",
        )
    for row in cells:
        table.add_row(*(Text(cell) for cell in row))
    console.print(table)
    return True


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
