"""What is typed after the options of a dump."""

from __future__ import annotations

import click
import pytest

from spark_segmentlog.cli.dump import dump_verb
from spark_segmentlog.cli.dump_options import BytesAs
from spark_segmentlog.cli.dump_values import parse_key, parse_offsets, parse_timestamps
from spark_segmentlog.log.names import MAX_OFFSET

CONTEXT = click.Context(dump_verb)
OPTION = dump_verb.params[0]
DAY_MS = 1_739_232_000_000  # 2025-02-11T00:00Z


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("5", (5, 6)),
        ("5:", (5, MAX_OFFSET)),
        (":7", (0, 7)),
        ("5:7", (5, 7)),
    ],
)
def test_offsets(text: str, wanted: tuple[int, int]) -> None:
    assert parse_offsets(CONTEXT, OPTION, text) == wanted


@pytest.mark.parametrize("text", ["", "a", "1:b", "-1", "1:2:3", "\u0661"])
def test_what_is_no_range_of_offsets(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not START:END"):
        parse_offsets(CONTEXT, OPTION, text)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (None, (None, None)),
        ("100:200", (100, 199)),
        ("100:", (100, None)),
        (":-5", (None, -6)),
        ("2025-02-11:2025-02-11T00:01", (DAY_MS, DAY_MS + 59_999)),
        ("2025-02-11T01:00+01:00:", (DAY_MS, None)),
        (":2025-02-11T00:00:00.0001", (None, DAY_MS)),
    ],
)
def test_times(text: str | None, wanted: tuple[int | None, int | None]) -> None:
    assert parse_timestamps(CONTEXT, OPTION, text) == wanted


@pytest.mark.parametrize("text", ["yesterday:", "100", "2025:2026-01-01", "100:2025-02-11"])
def test_what_is_no_range_of_times(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not FROM:TO"):
        parse_timestamps(CONTEXT, OPTION, text)


def test_keys_are_typed_as_they_are_printed() -> None:
    assert parse_key("a\u00e9", BytesAs.TEXT) == b"a\xc3\xa9"
    assert parse_key("00ff", BytesAs.HEX) == b"\x00\xff"
    assert parse_key("AP8=", BytesAs.BASE64) == b"\x00\xff"
    for text, kind in (("0", BytesAs.HEX), ("A", BytesAs.BASE64)):
        with pytest.raises(click.BadParameter, match=f"is not {kind}"):
            parse_key(text, kind)
