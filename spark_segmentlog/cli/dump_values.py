"""What is typed after the options of ``segmentlog dump``: ranges, times, keys."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

import click

from spark_segmentlog.cli.dump_options import BytesAs
from spark_segmentlog.cli.output import EPOCH
from spark_segmentlog.log.names import MAX_OFFSET

_SHORTEST_DATE: Final = len("2025-02-11")
_Bound = int | None


def parse_offsets(ctx: click.Context, param: click.Parameter, value: str) -> tuple[int, int]:
    """Parse ``START:END``, or one offset; the end is exclusive."""
    start, colon, end = value.partition(":")
    bounds = (start or "0", end or str(MAX_OFFSET)) if colon else (start, start)
    if not all(bound.isascii() and bound.isdigit() for bound in bounds):
        raise click.BadParameter(f"{value!r} is not START:END, START:, :END or one offset")
    first, last = (int(bound) for bound in bounds)
    return first, last if colon else last + 1


def parse_timestamps(
    ctx: click.Context, param: click.Parameter, value: str | None
) -> tuple[_Bound, _Bound]:
    """Parse ``FROM:TO`` into the first and the last millisecond; None for an open side.

    Dates have colons too: the range is parted at the one that leaves a time on both sides, of one
    kind.
    """
    if value is None:
        return None, None
    for start, end in _partings(value):
        first, last_end = _parse_time_ms(start), _parse_time_ms(end)
        if start and end and _is_number(start) != _is_number(end):
            continue
        if (first is None) == (not start) and (last_end is None) == (not end):
            return first, None if last_end is None else last_end - 1
    raise click.BadParameter(
        f"{value!r} is not FROM:TO, FROM: or :TO; a time is ISO 8601, in UTC where it names no "
        "zone, or milliseconds since 1970"
    )


def parse_key(text: str, bytes_as: BytesAs) -> bytes:
    """Parse a key that is written as keys are printed."""
    try:
        if bytes_as is BytesAs.HEX:
            return bytes.fromhex(text)
        if bytes_as is BytesAs.BASE64:
            return base64.b64decode(text, validate=True)
    except (ValueError, binascii.Error) as error:
        raise click.BadParameter(f"{text!r} is not {bytes_as}: {error}") from error
    return text.encode()


def _partings(value: str) -> Iterator[tuple[str, str]]:
    for at, character in enumerate(value):
        if character == ":":
            yield value[:at], value[at + 1 :]


def _is_number(text: str) -> bool:
    return text.isascii() and text.removeprefix("-").isdigit()


def _parse_time_ms(text: str) -> int | None:
    """Parse one time, rounded up to milliseconds; None where it is none."""
    if _is_number(text):
        return int(text)
    if len(text) < _SHORTEST_DATE:
        return None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    elapsed = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH
    microseconds = (elapsed.days * 86_400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds
    return -(-microseconds // 1000)
