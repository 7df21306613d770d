"""Tables of the documentation are those that the code tells, and all of them are there."""

from __future__ import annotations

from tests.support.doc_tables import TABLES, names_of, with_tables
from tests.support.pages import site_pages


def test_pages_have_the_tables_of_the_code() -> None:
    for page in site_pages():
        text = page.read_text()
        assert with_tables(text) == text, f"{page.name} is not up to date: make docs"


def test_every_table_stands_once() -> None:
    names = [name for page in site_pages() for name in names_of(page.read_text())]
    assert sorted(names) == sorted(TABLES)
