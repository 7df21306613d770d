"""Tables of the documentation that the code itself tells.

Each stands between ``<!-- table: NAME -->`` and ``<!-- /table -->``. ``make docs`` writes them, and
a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import click
import pyarrow as pa

from spark_segmentlog.cli import cleaning, create, lag, ls, restore
from spark_segmentlog.cli.main import main as command
from spark_segmentlog.cli.output import Column
from spark_segmentlog.query.options import reading_options_markdown, writing_options_markdown
from spark_segmentlog.query.schema import (
    BATCHES_SCHEMA,
    CORRUPT_RECORD_TYPE,
    SEGMENTS_SCHEMA,
    TRANSACTIONS_SCHEMA,
    sql_name,
)
from spark_segmentlog.query.system_columns import SYSTEM_SCHEMAS
from tests.support.pages import DOCS

_PLACE: Final = re.compile(
    r"(<!-- table: (?P<name>[\w -]+) -->\n).*?(<!-- /table -->)", flags=re.DOTALL
)


def fields_table(fields: Iterable[pa.Field]) -> str:
    """Write a table of columns and their types."""
    return _table(("column", "type"), ((f"`{it.name}`", _type_name(it.type)) for it in fields))


def _type_name(kind: pa.DataType) -> str:
    """Name a type in lower case, but for the names of fields in it."""
    return re.sub(r"\b[A-Z]+\b", lambda word: word[0].lower(), sql_name(kind))


def verb_table(name: str) -> str:
    """Write a table of a verb's own options, as its help tells them."""
    options = [it for it in command.commands[name].params if isinstance(it, click.Option)]
    return _table(
        ("option", "default", "meaning"),
        ((f"`{_usage(it)}`", _default(it), str(it.help).replace("|", "\\|")) for it in options),
    )


def json_fields(columns: Sequence[Column]) -> str:
    """Write the names of the fields of a verb's objects."""
    return f"Fields with `--format json`: {', '.join(f'`{it.field}`' for it in columns)}.\n"


TABLES: Final[dict[str, Callable[[], str]]] = {
    "options of reads": reading_options_markdown,
    "options of writes": writing_options_markdown,
    "view batches": partial(fields_table, BATCHES_SCHEMA),
    "view segments": partial(fields_table, SEGMENTS_SCHEMA),
    "view transactions": partial(fields_table, TRANSACTIONS_SCHEMA),
    **{f"view {view}": partial(fields_table, it) for view, it in SYSTEM_SCHEMAS.items()},
    "corrupt record": partial(fields_table, list(CORRUPT_RECORD_TYPE)),
    "fields of ls": partial(json_fields, ls.TOPIC_COLUMNS),
    "fields of ls --partitions": partial(json_fields, ls.PARTITION_COLUMNS),
    "fields of ls --segments": partial(json_fields, ls.SEGMENT_COLUMNS),
    "fields of lag": partial(json_fields, lag.COLUMNS),
    "fields of retain": partial(json_fields, cleaning.RETENTION_COLUMNS),
    "fields of compact": partial(json_fields, cleaning.COMPACTION_COLUMNS),
    "fields of create": partial(json_fields, create.COLUMNS),
    "fields of restore": partial(json_fields, restore.COLUMNS),
    **{f"verb {name}": partial(verb_table, name) for name in command.commands},
}


def names_of(text: str) -> list[str]:
    """List the tables that a page has."""
    return [place["name"] for place in _PLACE.finditer(text)]


def with_tables(text: str) -> str:
    """Give a page with its tables as the code has them."""
    return _PLACE.sub(lambda place: place[1] + TABLES[place["name"]]() + place[3], text)


def write_tables() -> None:
    """Write the tables of every page."""
    for page in sorted(DOCS.glob("**/*.md")):
        page.write_text(with_tables(page.read_text()))


def _usage(option: click.Option) -> str:
    name = option.opts[0]
    if option.is_flag:
        return name
    if isinstance(option.type, click.Choice):
        return f"{name} {'|'.join(str(it) for it in option.type.choices)}".replace("|", "\\|")
    return f"{name} {option.metavar or 'N'}"


def _default(option: click.Option) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    return str(option.default) if option.show_default else ""


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    write_tables()
