"""Entries of a dump as text."""

from __future__ import annotations

import pytest

from spark_segmentlog.cli.dump_text import bytes_text, text_line


def test_a_segment_begins_with_two_lines() -> None:
    entry = {"type": "segment", "path": "/t-0/00000000000000000005.log", "baseOffset": 5}
    assert text_line(entry) == ("Dumping /t-0/00000000000000000005.log\nLog starting offset: 5")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"key": None}, None),
        ({"key": ""}, ""),
        ({"key": "k"}, "k"),
        ({"keyHex": "00ff"}, "0x00ff"),
        ({"keyBase64": "AP8="}, "base64:AP8="),
    ],
)
def test_bytes_are_told_by_what_stands_before_them(
    fields: dict[str, str | None], text: str | None
) -> None:
    assert bytes_text(fields, "key") == text


def test_text_that_would_move_the_cursor_is_escaped() -> None:
    printed = bytes_text({"value": "a\nb\x1b[2J"}, "value")
    assert printed is not None
    assert "\n" not in printed
    assert "\x1b" not in printed
