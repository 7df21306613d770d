"""Texts of options, and what is no value."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import Any

import pytest

from spark_segmentlog.query import option_parsers as parsers


class Colour(StrEnum):
    """Something with names."""

    RED = "Red"
    GREEN = "green"


@pytest.mark.parametrize(
    ("parse", "text", "value"),
    [
        (parsers.boolean, "TRUE", True),
        (parsers.integer(0, 10), "+10", 10),
        (parsers.size(0), "2 KiB", 2048),
        (parsers.size(-1), "-1", -1),
        (parsers.duration_ms(0), "15m", 900_000),
        (parsers.one_of(Colour), "RED", Colour.RED),
        (parsers.word("CreateTime"), "createtime", "CreateTime"),
        (parsers.paths, '["/a","/b"]', ("/a", "/b")),
        (parsers.uris, "s3://bucket/a", ("s3://bucket/a",)),
        (parsers.uris, '["a","b"]', ("a", "b")),
        (parsers.key_files, '{"b":"2","a":"1"}', (("a", "1"), ("b", "2"))),
        (parsers.topic_list, " a, b,,a ", ("a", "b")),
        (parsers.topic_ids, "A" * 22, ("A" * 22,)),
        (parsers.topic_name, "a.b_c-d", "a.b_c-d"),
        (parsers.cleanup_policy, "compact,delete", ("compact", "delete")),
    ],
)
def test_values(parse: Callable[[str], Any], text: str, value: object) -> None:
    assert parse(text) == value


@pytest.mark.parametrize(
    ("parse", "texts", "legal"),
    [
        (parsers.boolean, ("yes", "1", ""), "legal are true and false"),
        (parsers.integer(1, 9), ("0", "10", "1.0", "", "9" * 30), "whole numbers from 1 to 9"),
        (parsers.size(0, 100), ("1x", "k", "101", "1k"), "legal are 0 to 100 bytes"),
        (parsers.duration_ms(0), ("-1", "1 year"), "ms, or a number with s, m, h or d"),
        (parsers.one_of(Colour), ("blue",), "legal are Red, green"),
        (parsers.word("a", "b"), ("c",), "legal are a, b"),
        (parsers.non_empty, ("",), "must not be empty"),
        (parsers.paths, ("/a", '["a",1]', "{}", '[""]'), "a JSON list of paths"),
        (parsers.key_files, ("[]", '{"a":1}', "x"), "key pair id to private key file"),
        (parsers.topic_list, ("", " , "), "no topics to subscribe to"),
        (parsers.topic_ids, ("", "short", "A" * 22 + ",b"), "topic ids of 22 characters"),
        (parsers.topic_pattern, ("",), "pattern to subscribe is empty"),
        (parsers.topic_pattern, ("(",), "no Java regular expression"),
        (parsers.topic_name, ("", ".", "..", "a/b", "a" * 250), "legal are 1 to 249"),
    ],
)
def test_what_is_no_value_is_told_with_what_is(
    parse: Callable[[str], Any], texts: tuple[str, ...], legal: str
) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=legal):
            parse(text)
