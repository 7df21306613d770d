"""Tables of the documentation that the code itself tells.

Each stands between ``<!-- table: NAME -->`` and ``<!-- /table -->``. ``make docs`` writes them, and
a test compares.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Final

import click
import pyarrow as pa

from spark_segmentlog.cli.output import Column
from spark_segmentlog.cli.verbs import VERBS, Effect, Verb
from spark_segmentlog.log.names import FILE_KINDS
from spark_segmentlog.query import options
from spark_segmentlog.query.option import READS, OptionScope
from spark_segmentlog.query.schema import CORRUPT_RECORD_TYPE, sql_name
from spark_segmentlog.query.system_columns import SYSTEM_SCHEMAS
from spark_segmentlog.query.view_columns import VIEW_COLUMNS, schema_of
from spark_segmentlog.record.codec.codec import Levels
from spark_segmentlog.record.codec.codecs import CODECS
from spark_segmentlog.record.columns import COLUMNS
from spark_segmentlog.record.system.topics import INTERNAL_TOPICS
from tests.support.broker_data import PRODUCERS
from tests.support.compatibility import versions_that_ran
from tests.support.kafka_differences import DIFFERENCES
from tests.support.kafka_jars import KAFKA_VERSION
from tests.support.pages import site_pages

_PLACE: Final = re.compile(
    r"(<!-- table: (?P<name>[\w' -]+) -->\n).*?(<!-- /table -->)", flags=re.DOTALL
)


def fields_table(fields: Iterable[pa.Field]) -> str:
    """Write a table of columns and their types."""
    return _table(
        ("column", "type"), ((f"`{field.name}`", _type_name(field.type)) for field in fields)
    )


def columns_table() -> str:
    """Write a table of the columns of a read's rows."""
    return _table(
        ("column", "type", "meaning"),
        (
            (f"`{column.name}`", f"`{_type_name(column.type)}`", column.meaning)
            for column in COLUMNS.values()
        ),
    )


def codecs_table() -> str:
    """Write a table of the codecs."""
    rows = [
        (
            str(codec.number),
            codec.name,
            str(codec.first_format),
            _levels(codec.levels),
            codec.framing,
        )
        for codec in CODECS.values()
    ]
    return _table(("id", "codec", "first format", "levels", "traps"), rows)


def _levels(levels: Levels | None) -> str:
    return "" if levels is None else f"{levels.lowest} to {levels.highest}"


def files_table() -> str:
    """Write a table of the kinds of files in a partition's folder."""
    return _table(
        ("suffix", "holds", "made by", "deleted by", "renamed with its segment"),
        (
            (
                f"`{kind.suffix}`",
                kind.holds,
                kind.made_by,
                kind.deleted_by,
                _yes(kind.moves_with_segment),
            )
            for kind in FILE_KINDS
        ),
    )


def read_options_table() -> str:
    """Write a table of the options of reads."""
    rows = [
        (
            f"`{option.name}`",
            option.shown_default,
            *("x" if scope in option.scopes else "" for scope in READS),
            option.meaning,
        )
        for option in options.OPTIONS
        if set(READS) & set(option.scopes)
    ]
    return _table(("option", "default", "batch", "stream", "meaning"), rows)


def write_options_table() -> str:
    """Write a table of the options of writes."""
    rows = [
        (f"`{option.name}`", option.shown_default, option.meaning)
        for option in options.OPTIONS
        if OptionScope.WRITE in option.scopes
    ]
    return _table(("option", "default", "meaning"), rows)


def internal_topics_table() -> str:
    """Write a table of Kafka's own topics."""
    rows = [
        (f"`{topic.name}`", topic.holds, f"`{topic.view}`" if topic.view else "")
        for topic in INTERNAL_TOPICS.values()
    ]
    return _table(("topic", "holds", "view"), rows)


def spark_versions_table() -> str:
    """Write a table of the versions of Spark that ran."""
    return _table(("Spark", "Python", "what it lacks"), versions_that_ran())


def kafka_versions_table() -> str:
    """Write a table of the brokers whose logs are read, and that are given what is written."""
    read = sorted({producer.split("-")[1] for producer in PRODUCERS})
    rows = ((version, "yes", _yes(version == KAFKA_VERSION)) for version in read)
    return _table(("Kafka", "its logs are read", "it opens what is written"), rows)


def kafka_differences_table() -> str:
    """Write a table of what is meant to differ from Spark's Kafka source and sink."""
    rows = (
        (difference.what, difference.theirs, difference.ours) for difference in DIFFERENCES.values()
    )
    return _table(("what", "Kafka source and sink", "here"), rows)


def _yes(is_so: bool) -> str:
    return "yes" if is_so else ""


def _type_name(kind: pa.DataType) -> str:
    """Name a type in lower case, but for the names of fields in it."""
    return re.sub(r"\b[A-Z]+\b", lambda word: word[0].lower(), sql_name(kind))


def verbs_table() -> str:
    """Write a table of all verbs."""
    return _table(
        ("verb", "what it does", "writes"),
        (
            (f"`{verb.name}`", verb.meaning, _yes(verb.effect is Effect.WRITES))
            for verb in VERBS.values()
        ),
    )


def verb_table(verb: Verb) -> str:
    """Write a table of a verb's own options, as its help tells them."""
    options = [option for option in verb.command.params if isinstance(option, click.Option)]
    return _table(
        ("option", "default", "meaning"),
        (
            (f"`{_usage(option)}`", _default(option), str(option.help).replace("|", "\\|"))
            for option in options
        ),
    )


def json_fields(columns: Sequence[Column]) -> str:
    """Write the names of the fields of a verb's objects."""
    return f"Fields with `--format json`: {', '.join(f'`{column.field}`' for column in columns)}.\n"


TABLES: Final[dict[str, Callable[[], str]]] = {
    "options of reads": read_options_table,
    "options of writes": write_options_table,
    "columns of records": columns_table,
    "codecs": codecs_table,
    "files of a partition": files_table,
    "topics of Kafka's own": internal_topics_table,
    **{f"view {view}": partial(fields_table, schema_of(view)) for view in VIEW_COLUMNS},
    **{f"view {view}": partial(fields_table, schema) for view, schema in SYSTEM_SCHEMAS.items()},
    "versions of Spark": spark_versions_table,
    "versions of Kafka": kafka_versions_table,
    "differences from the Kafka source": kafka_differences_table,
    "corrupt record": partial(fields_table, list(CORRUPT_RECORD_TYPE)),
    "verbs": verbs_table,
    **{f"verb {verb.name}": partial(verb_table, verb) for verb in VERBS.values()},
    **{
        f"fields of {words}": partial(json_fields, columns)
        for verb in VERBS.values()
        for words, columns in verb.columns.items()
    },
}


def section_of(verb: Verb) -> str:
    """Write the section of a verb that the page does not know yet, of what its help says."""
    usage = " ".join(verb.command.collect_usage_pieces(click.Context(verb.command))[1:])
    tables = [f"verb {verb.name}", *(f"fields of {words}" for words in verb.columns)]
    places = "\n".join(f"<!-- table: {name} -->\n<!-- /table -->\n" for name in tables)
    text = inspect.cleandoc(str(verb.command.help)).partition("\n\b\n")[0].strip()
    return f"### `{verb.name} {usage}`\n\n{text}\n\n{places}\n"


def with_new_verbs(text: str) -> str:
    """Give the page of verbs with a section for each; one that is new comes last of them."""
    sections = list(re.finditer(r"^### `(\w+) .*?(?=^##|\Z)", text, re.DOTALL | re.MULTILINE))
    if not sections:
        return text
    new = VERBS.keys() - {section[1] for section in sections}
    end = sections[-1].end()
    return text[:end] + "".join(section_of(VERBS[name]) for name in sorted(new)) + text[end:]


def names_of(text: str) -> list[str]:
    """List the tables that a page has."""
    return [place["name"] for place in _PLACE.finditer(text)]


def with_tables(text: str) -> str:
    """Give a page with its tables as the code has them."""
    return _PLACE.sub(lambda place: place[1] + TABLES[place["name"]]() + place[3], text)


def write_tables() -> None:
    """Write the tables of every page."""
    for page in site_pages():
        page.write_text(with_tables(with_new_verbs(page.read_text())))


def _usage(option: click.Option) -> str:
    name = option.opts[0]
    if option.is_flag:
        return name
    if isinstance(option.type, click.Choice):
        return f"{name} {'|'.join(str(choice) for choice in option.type.choices)}".replace(
            "|", "\\|"
        )
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
