"""Fields of a header table's row."""

from __future__ import annotations

from spark_segmentlog.record import header_fields


def test_fields_are_numbered_without_a_gap() -> None:
    numbers = [
        value for name, value in vars(header_fields).items() if name.isupper() and name[0] != "_"
    ]
    numbers.remove(header_fields.HEADER_FIELDS)
    assert sorted(numbers) == list(range(header_fields.HEADER_FIELDS))
