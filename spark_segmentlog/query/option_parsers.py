"""From the text of an option to its value, or `ValueError` with the legal values as its text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any, Final

from spark_segmentlog.log.names import is_topic_name
from spark_segmentlog.log.tier.remote_segment import is_uuid
from spark_segmentlog.query.offsets import (
    EARLIEST,
    LEGAL_TIMESTAMPS,
    EarliestOffsets,
    GlobalTimestamp,
    LatestOffsets,
    OffsetLimit,
    SpecificOffsets,
    SpecificTimestamps,
    parse_json,
    parse_offsets_json,
    parse_timestamps_json,
)
from spark_segmentlog.query.topic_pattern import compile_java_pattern
from spark_segmentlog.record.codec.codecs import codec_names

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1


def boolean(text: str) -> bool:
    """Read true or false."""
    if text.lower() not in ("true", "false"):
        raise ValueError("legal are true and false")
    return text.lower() == "true"


def integer(low: int, high: int = MAX_LONG) -> Callable[[str], int]:
    """Make a parser of whole numbers in a range, both ends included."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not low <= int(text) <= high:
            raise ValueError(f"legal are whole numbers from {low} to {high}")
        return int(text)

    return parse


_BYTE_UNITS: Final = {
    unit: 1024**power for power, letter in enumerate("bkmgtp") for unit in (letter, f"{letter}b")
} | {f"{letter}ib": 1024**power for power, letter in enumerate("kmgtp", 1)}
_TIME_UNITS_MS: Final = {
    "ms": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


def size(low: int, high: int = MAX_LONG) -> Callable[[str], int]:
    """Make a parser of sizes in bytes, in a range, both ends included."""
    return _quantity(low, high, _BYTE_UNITS, "bytes, or a number with k, m, g or t after it")


def duration_ms(low: int) -> Callable[[str], int]:
    """Make a parser of durations of so many ms at least."""
    return _quantity(low, MAX_LONG, _TIME_UNITS_MS, "ms, or a number with s, m, h or d after it")


def _quantity(low: int, high: int, units: Mapping[str, int], words: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        match = re.fullmatch(r"(-?[0-9]{1,19})\s*([a-z]*)", text.lower())
        factor = 1 if match and not match[2] else units.get(match[2]) if match else None
        if match is None or factor is None or not low <= int(match[1]) * factor <= high:
            raise ValueError(f"legal are {low} to {high} {words}")
        return int(match[1]) * factor

    return parse


def one_of(kind: type[StrEnum]) -> Callable[[str], StrEnum]:
    """Make a parser of the members of an enumeration."""
    legal = {member.value.lower(): member for member in kind}

    def parse(text: str) -> StrEnum:
        if text.lower() not in legal:
            raise ValueError(f"legal are {', '.join(member.value for member in kind)}")
        return legal[text.lower()]

    return parse


def word(*legal: str) -> Callable[[str], str]:
    """Make a parser of some words, whose case does not count."""

    def parse(text: str) -> str:
        by_key = {word.lower(): word for word in legal}
        if text.lower() not in by_key:
            raise ValueError(f"legal are {', '.join(legal)}")
        return by_key[text.lower()]

    return parse


def non_empty(text: str) -> str:
    """Read any text but an empty one."""
    if not text:
        raise ValueError("it must not be empty")
    return text


def paths(text: str) -> tuple[str, ...]:
    """Read a JSON list of paths."""
    expected = 'expected a JSON list of paths, e.g. ["/data/1","/data/2"]'
    paths = parse_json(text, list, expected)
    if not all(isinstance(path, str) and path for path in paths):
        raise ValueError(expected)
    return tuple(paths)


def uris(text: str) -> tuple[str, ...]:
    """Read a URI, or a JSON list of them."""
    return paths(text) if text.startswith("[") else (non_empty(text),)


def key_files(text: str) -> tuple[tuple[str, str], ...]:
    """Read JSON of key pair ids and private key files, in the order of the ids."""
    expected = 'expected JSON of key pair id to private key file, e.g. {"pair-1":"/keys/1.pem"}'
    found = parse_json(text, dict, expected)
    if not all(isinstance(path, str) for path in found.values()):
        raise ValueError(expected)
    return tuple(sorted(found.items()))


def settings(text: str) -> tuple[tuple[str, Any], ...]:
    """Read a JSON object, as pairs in the order of the names."""
    expected = "expected a JSON object"
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(expected) from error
    if not isinstance(found, dict):
        raise ValueError(expected)
    return tuple(sorted(found.items()))


def topic_ids(text: str) -> tuple[str, ...]:
    """Read topic ids with commas between them."""
    ids = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    wrong = [each for each in ids if not is_uuid(each)]
    if wrong or not ids:
        raise ValueError("legal are topic ids of 22 characters, with commas between them")
    return ids


def topic_list(text: str) -> tuple[str, ...]:
    """Read topics with commas between them."""
    topics = tuple(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))
    if not topics:
        raise ValueError("no topics to subscribe to; expected e.g. topicA,topicB")
    return topics


def topic_pattern(text: str) -> re.Pattern[str]:
    """Read a Java regular expression."""
    if not text:
        raise ValueError("the pattern to subscribe is empty; expected a Java regular expression")
    try:
        return compile_java_pattern(text)
    except ValueError as error:
        raise ValueError(f"no Java regular expression: {error}") from error


def topic_name(text: str) -> str:
    """Read a topic's name."""
    if not is_topic_name(text):
        raise ValueError(
            "legal are 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', but not '.' and '..'"
        )
    return text


def offset_limit(text: str) -> OffsetLimit:
    """Read earliest, latest, or JSON of offsets by partition."""
    if text.lower() == "earliest":
        return EarliestOffsets()
    if text.lower() == "latest":
        return LatestOffsets()
    try:
        return SpecificOffsets(parse_offsets_json(text))
    except ValueError as error:
        raise ValueError(f"legal are earliest, latest and JSON: {error}") from error


def timestamps(text: str) -> SpecificTimestamps:
    """Read JSON of timestamps by partition."""
    return SpecificTimestamps(parse_timestamps_json(text))


def timestamp(text: str) -> GlobalTimestamp:
    """Read one timestamp in ms, or -2 or -1 for the earliest or latest offset."""
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not EARLIEST <= int(text) <= MAX_LONG:
        raise ValueError(f"expected a single long value, legal are {LEGAL_TIMESTAMPS}")
    return GlobalTimestamp(int(text))


def cleanup_policy(text: str) -> tuple[str, ...]:
    """Read delete, compact, or both."""
    policies = tuple(dict.fromkeys(part.strip() for part in text.lower().split(",")))
    if not set(policies) <= {"delete", "compact"}:
        raise ValueError("legal are delete, compact and delete,compact")
    return policies


def codec(text: str) -> str:
    """Read the name of a codec, or none."""
    return word(*codec_names())(text)


def remote_layout(text: str) -> str:
    """Read the name of a layout of remote stores."""
    # Here, as it loads Arrow: a daemon that forks workers reads options without.
    from spark_segmentlog.log.tier.stores import layout_names

    return word(*layout_names())(text)
