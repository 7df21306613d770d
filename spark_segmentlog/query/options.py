"""The options that were given: parsed and checked before anything is read.

Keys have no case (Spark lower-cases them); messages print the documented spelling.
"""

from __future__ import annotations

import difflib
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, Final

from spark_segmentlog.errors import OptionValueError, UnknownOptionError
from spark_segmentlog.log.io.storage_options import StorageOptions
from spark_segmentlog.log.tier.remote_options import RemoteOptions
from spark_segmentlog.query.offsets import (
    EARLIEST,
    LATEST,
    EarliestOffsets,
    LatestOffsets,
    OffsetLimit,
    SpecificOffsets,
    check_limits,
)
from spark_segmentlog.query.option import READS, Option, OptionScope, snake_case
from spark_segmentlog.query.read_options import READ_OPTIONS, ReadOptions, TopicSelection
from spark_segmentlog.query.write_options import WRITE_OPTIONS, WriteOptions

_log = logging.getLogger(__name__)

OPTIONS: Final = (*READ_OPTIONS, *WRITE_OPTIONS)

SPARK_KEYS: Final = frozenset(("checkpointlocation", "queryname", "owner", "location", "provider"))
"""Keys that Spark adds by itself, besides ``path`` and ``paths``."""

_IGNORED_KAFKA_PREFIXES: Final = ("kafka.", "kafkaconsumer.", "fetchoffset.")
_IGNORED_KAFKA_KEYS: Final = frozenset(("groupidprefix",))
_PRODUCER_NAMES: Final = {
    "kafka.batch.size": "batch.size",
    "kafka.max.request.size": "max.message.bytes",
    **{
        f"kafka.{option.name}": option.name
        for option in OPTIONS
        if option.name.startswith("compression.")
    },
}
_USE_INSTEAD: Final = (
    "Use DataFrame operations to explicitly {0}serialize the {1}s: they are bytes in both columns."
)
_REFUSED_BY_READS: Final = {
    "kafka.auto.offset.reset": (
        "Instead set the source option 'startingOffsets' to 'earliest' or 'latest' to specify "
        "where to start."
    ),
    "kafka.key.deserializer": _USE_INSTEAD.format("de", "key"),
    "kafka.value.deserializer": _USE_INSTEAD.format("de", "value"),
    "kafka.enable.auto.commit": "Offsets are kept by Spark's checkpoint.",
    "kafka.interceptor.classes": "Interceptors can modify the payload.",
}
_REFUSED_BY_WRITES: Final = {
    "kafka.key.serializer": _USE_INSTEAD.format("", "key"),
    "kafka.value.serializer": _USE_INSTEAD.format("", "value"),
}


def parse_read_options(options: Mapping[str, str], *, streaming: bool = False) -> ReadOptions:
    """Parse and check the options of a read.

    Raises
    ------
    UnknownOptionError
        An option that does not exist, or is not one of reads.
    OptionValueError
        A value that is not legal, or options that exclude each other.
    """
    scope = OptionScope.STREAM_READ if streaming else OptionScope.BATCH_READ
    values, ignored = _parse(options, scope, _REFUSED_BY_READS, {})
    starting, ending = _limits(values, streaming=streaming)
    if not streaming:
        _check_batch_limits(starting, ending)
    check_limits(starting, ending)
    _check_trigger_limits(values)
    return ReadOptions(
        **{
            **_named_alike(ReadOptions, values),
            "paths": _all_paths(values),
            "selection": _selection(values),
            "starting": starting,
            "ending": ending,
            "missing_timestamp": values["starting_offsets_by_timestamp_strategy"],
            "max_trigger_delay_ms": values["max_trigger_delay"],
            "isolation_level": values["kafka_isolation_level"],
            "check_crcs": values["kafka_check_crcs"],
            "remote": RemoteOptions(
                uris=values["remote_storage"],
                layout=values["remote_storage_layout"],
                keys=values["remote_storage_keys"],
                topic_ids=values["remote_storage_topic_ids"],
                storage=StorageOptions(
                    endpoint=values["storage_endpoint"],
                    region=values["storage_region"],
                    access_key=values["storage_access_key"],
                    secret_key=values["storage_secret_key"],
                    session_token=values["storage_session_token"],
                    is_anonymous=values["storage_anonymous"],
                    settings=values["storage_settings"],
                ),
            ),
            "ignored": ignored,
        }
    )


def parse_write_options(options: Mapping[str, str], *, streaming: bool = False) -> WriteOptions:
    """Parse and check the options of a write.

    Raises
    ------
    UnknownOptionError
        An option that does not exist, or is not one of writes.
    OptionValueError
        A value that is not legal, or options that exclude each other.
    """
    values, ignored = _parse(options, OptionScope.WRITE, _REFUSED_BY_WRITES, _PRODUCER_NAMES)
    _check_transaction(values, streaming=streaming)
    return WriteOptions(
        **{
            **_named_alike(WriteOptions, values),
            "paths": _all_paths(values),
            "compression_level": values.get(f"compression_{values['compression_type']}_level"),
            "ignored": ignored,
        }
    )


def warn_ignored(options: ReadOptions | WriteOptions) -> None:
    """Warn once of all options that were given and mean nothing."""
    if options.ignored:
        _log.warning(
            "these options mean nothing for files, or nothing here, and are ignored: %s",
            ", ".join(options.ignored),
        )


def keywords_to_options(paths: str | Iterable[str], keywords: Mapping[str, Any]) -> dict[str, str]:
    """Turn Python keywords in snake case, with Python values, into the options of a read.

    Raises
    ------
    UnknownOptionError
        A keyword that is none of a read; the text names the nearest one.
    """
    known = {option.field: option for option in OPTIONS if OptionScope.BATCH_READ in option.scopes}
    options = {"paths": json.dumps([paths] if isinstance(paths, str) else list(map(str, paths)))}
    for keyword, value in keywords.items():
        if keyword not in known:
            raise UnknownOptionError(f"no keyword '{keyword}'{_nearest(keyword, known)}")
        if value is not None:
            options[known[keyword].name] = _option_text(known[keyword], value)
    return options


# Private helpers


def _named_alike(
    kind: type[ReadOptions | WriteOptions], values: Mapping[str, Any]
) -> dict[str, Any]:
    """Pick the values of which the parsed options have a field of the same name."""
    return {field.name: values[field.name] for field in fields(kind) if field.name in values}


def _parse(
    options: Mapping[str, str],
    scope: OptionScope,
    refused: Mapping[str, str],
    renamed: Mapping[str, str],
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Give the value of every option that `scope` takes, and the names of those without meaning."""
    by_key = {option.name.lower(): option for option in OPTIONS}
    # A stream has the defaults of batches alone too, and the other way round.
    related = set(READS) if scope in READS else {scope}
    values = {
        option.field: option.default for option in by_key.values() if related & set(option.scopes)
    }
    ignored: list[str] = []
    given = {key.lower(): text for key, text in options.items()}
    for key, text in given.items():
        if key in refused:
            raise OptionValueError(f"Kafka option '{key}' is not supported. {refused[key]}")
        option = by_key.get(renamed.get(key, key))
        if option is None:
            _check_ignorable(key, scope)
            ignored.extend([] if key in SPARK_KEYS else [key])
        elif scope in option.scopes:
            if key in renamed and given.get(option.name.lower(), text) != text:
                raise OptionValueError(f"options '{key}' and '{option.name}' differ: give one")
            values[option.field] = option.value(text)
        elif scope in option.ignored_in:
            option.value(text)
            ignored.append(option.name)
        else:
            raise UnknownOptionError(
                f"option '{option.name}' is not one of {scope}; it is one of "
                f"{' and '.join(option.scopes)}"
            )
    return values, tuple(ignored)


def _check_ignorable(key: str, scope: OptionScope) -> None:
    if key in SPARK_KEYS or key in _IGNORED_KAFKA_KEYS or key.startswith(_IGNORED_KAFKA_PREFIXES):
        return
    known = {option.name: option for option in OPTIONS if scope in option.scopes}
    raise UnknownOptionError(f"no option '{key}'{_nearest(key, known)}")


def _nearest(name: str, known: Iterable[str]) -> str:
    by_key = {candidate.lower(): candidate for candidate in known}
    nearest = difflib.get_close_matches(name.lower(), by_key, n=1, cutoff=0.0)
    return f"; the nearest one is '{by_key[nearest[0]]}'" if nearest else ""


def _limits(values: Mapping[str, Any], *, streaming: bool) -> tuple[OffsetLimit, OffsetLimit]:
    """Pick starts and ends: timestamp before timestamps by partition before offsets."""
    starting: OffsetLimit = (
        values["starting_timestamp"]
        or values["starting_offsets_by_timestamp"]
        or values["starting_offsets"]
        or (LatestOffsets() if streaming else EarliestOffsets())
    )
    ending: OffsetLimit = (
        values["ending_timestamp"]
        or values["ending_offsets_by_timestamp"]
        or values["ending_offsets"]
        or LatestOffsets()
    )
    return starting, ending


def _check_batch_limits(starting: OffsetLimit, ending: OffsetLimit) -> None:
    if isinstance(starting, LatestOffsets):
        raise OptionValueError(
            "option 'startingOffsets' is 'latest': starting offset can't be latest for batch "
            "queries; legal are earliest and JSON"
        )
    if isinstance(ending, EarliestOffsets):
        raise OptionValueError(
            "option 'endingOffsets' is 'earliest': ending offset can't be earliest for batch "
            "queries; legal are latest and JSON"
        )
    if isinstance(starting, SpecificOffsets):
        for topic_partition, offset in starting.offsets.items():
            if offset == LATEST:
                raise OptionValueError(
                    f"startingOffsets for {topic_partition} can't be latest (-1) for batch queries"
                )
    if isinstance(ending, SpecificOffsets):
        for topic_partition, offset in ending.offsets.items():
            if offset == EARLIEST:
                raise OptionValueError(
                    f"ending offset for {topic_partition} can't be earliest (-2) for batch queries"
                )


def _check_trigger_limits(values: Mapping[str, Any]) -> None:
    low, high = values["min_offsets_per_trigger"], values["max_offsets_per_trigger"]
    if low is not None and high is not None and low > high:
        raise OptionValueError(
            f"the value of minOffsetsPerTrigger ({low}) is higher than that of "
            f"maxOffsetsPerTrigger ({high})"
        )


def _check_transaction(values: Mapping[str, Any], *, streaming: bool) -> None:
    has_id, has_version = values["txn_app_id"] is not None, values["txn_version"] is not None
    if streaming and has_version:
        raise OptionValueError(
            "option 'txnVersion' is not one of a stream, whose versions are its micro-batch ids; "
            "'txnAppId' alone stands for the query's own id"
        )
    if not streaming and has_id != has_version:
        raise OptionValueError(
            "options 'txnAppId' and 'txnVersion' are given together or not at all; given is only "
            f"'{'txnAppId' if has_id else 'txnVersion'}'"
        )


def _selection(values: Mapping[str, Any]) -> TopicSelection:
    names = ("subscribe", "subscribePattern", "assign")
    given = [name for name in names if values[snake_case(name)] is not None]
    if len(given) > 1:
        raise OptionValueError(
            f"only one of subscribe, subscribePattern and assign can be specified; given are "
            f"{' and '.join(given)}"
        )
    system_topic = values["view"].system_topic
    if system_topic is not None and not given:
        return TopicSelection(subscribe=(system_topic,))
    return TopicSelection(
        subscribe=values["subscribe"],
        pattern=values["subscribe_pattern"],
        assign=values["assign"],
    )


def _all_paths(values: Mapping[str, Any]) -> tuple[str, ...]:
    path = () if values["path"] is None else (values["path"],)
    paths = tuple(dict.fromkeys((*path, *values["paths"])))
    if not paths:
        raise OptionValueError(
            "no path is given: load('/data/kafka-logs') or save('/data/kafka-logs'), or option "
            "'paths' with a JSON list"
        )
    return paths


def _option_text(option: Option, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple) and option.name == "subscribe":
        return ",".join(value)
    if isinstance(value, dict | list | tuple):
        return json.dumps(value)
    return str(value)
