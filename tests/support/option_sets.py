"""Option sets of a read that cover every pair of choices, drawn from a seed.

A set chooses one value of each factor. Few sets hold every pair of values of any two factors, which
is where sources of different make are found to differ; further ones are drawn at random.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from typing import Final

from tests.support.broker import ConsumedRecord

DEFAULT: Final = "default"
MOMENTS: Final = ("before", "between", "on", "after")
LIMITS: Final = ("offsets", "named offsets", "timestamp", "timestamps by partition")
Factors = Mapping[str, Sequence[str]]

FACTORS: Final[Factors] = {
    "topics": (
        "codec.none,codec.lz4",
        "codec.gzip",
        "codec.snappy,codec.zstd",
        "appended",
        "bank",
        "large",
        "ledger",
        "rolled.by.time",
        "table",
        "trimmed",
    ),
    "selection": ("subscribe", "subscribePattern", "assign"),
    "start": (DEFAULT, "earliest", *LIMITS),
    "start at": MOMENTS,
    "end": (DEFAULT, "latest", *LIMITS),
    "end at": MOMENTS,
    "startingOffsetsByTimestampStrategy": (DEFAULT, "error", "latest"),
    "kafka.isolation.level": (DEFAULT, "read_committed", "read_uncommitted"),
    "includeHeaders": (DEFAULT, "true", "false"),
    "failOnDataLoss": (DEFAULT, "false"),
    "minPartitions": (DEFAULT, "1", "7"),
    "maxRecordsPerPartition": (DEFAULT, "150"),
}
"""Of a batch."""

STREAM_FACTORS: Final[Factors] = {
    **{name: FACTORS[name] for name in ("selection", "start", "start at", "includeHeaders")},
    "topics": ("codec.none,codec.lz4", "bank", "ledger", "rolled.by.time", "table", "trimmed"),
    "startingOffsetsByTimestampStrategy": (DEFAULT, "latest"),
    "kafka.isolation.level": (DEFAULT, "read_committed"),
    "maxOffsetsPerTrigger": (DEFAULT, "45", "160"),
    "minPartitions": (DEFAULT, "5"),
}
"""Of a stream, which has no end."""

_NO_OPTIONS: Final = ("topics", "selection", "start", "start at", "end", "end at")

_CANDIDATES: Final = 20

Choices = dict[str, str]
_Pair = tuple[tuple[str, str], tuple[str, str]]


def option_sets(seed: int, count: int, factors: Factors = FACTORS) -> list[Choices]:
    """Draw sets: first those that hold every pair, then others up to `count`.

    Fewer than hold every pair are given where `count` is less.
    """
    draw = random.Random(seed)
    uncovered = pairs_of_factors(factors)
    chosen = []
    for _ in range(count):
        candidates = [_candidate(draw, factors, uncovered) for _ in range(_CANDIDATES)]
        best = max(candidates, key=lambda candidate: len(uncovered & pairs_of(candidate)))
        uncovered -= pairs_of(best)
        chosen.append(best)
    return chosen


def pairs_of_factors(factors: Factors = FACTORS) -> set[_Pair]:
    """List every pair of values of two factors."""
    return {
        ((one, value), (other, other_value))
        for one, other in combinations(sorted(factors), 2)
        for value, other_value in product(factors[one], factors[other])
    }


def pairs_of(choices: Choices) -> set[_Pair]:
    """List the pairs that one set holds."""
    return set(combinations(sorted(choices.items()), 2))


def _candidate(draw: random.Random, factors: Factors, uncovered: set[_Pair]) -> Choices:
    """Start from a pair that no set has yet; add values that bring the most of such pairs."""
    first = draw.choice(sorted(uncovered)) if uncovered else ()
    choices = dict(first)
    rest = [name for name in factors if name not in choices]
    for name in draw.sample(rest, len(rest)):
        values = draw.sample(factors[name], len(factors[name]))
        gains = [_gain(choices, name, value, uncovered) for value in values]
        choices[name] = values[gains.index(max(gains))]
    return choices


def _gain(choices: Choices, name: str, value: str, uncovered: set[_Pair]) -> int:
    gained = 0
    for pair in (((name, value), other) for other in choices.items()):
        gained += (pair if pair[0] < pair[1] else pair[::-1]) in uncovered
    return gained


# From choices to options


@dataclass(frozen=True, slots=True)
class PartitionFacts:
    """What a consumer saw of a partition: offsets and timestamps of its records, in order."""

    offsets: Sequence[int]
    timestamps_ms: Sequence[int]

    def offset_at(self, moment: str) -> int:
        """Give an offset: the first one, one within, that of the last record, the end."""
        last = self.offsets[-1]
        within = self.offsets[len(self.offsets) // 3] + 1
        return {"before": self.offsets[0], "between": within, "on": last, "after": last + 1}[moment]

    def timestamp_at(self, moment: str) -> int:
        """Give a time: before all records, between two, of one of them, after all."""
        times = sorted(set(self.timestamps_ms))
        middle = times[len(times) // 2]
        gap = next(time_ms + 1 for time_ms in times[len(times) // 3 :] if time_ms + 1 not in times)
        return {"before": times[0] - 1, "between": gap, "on": middle, "after": times[-1] + 1}[
            moment
        ]


Facts = Mapping[tuple[str, int], PartitionFacts]


def facts_of(records: Sequence[ConsumedRecord]) -> Facts:
    """Gather what option sets need to know of each partition."""
    by_partition: dict[tuple[str, int], list[ConsumedRecord]] = {}
    for record in records:
        by_partition.setdefault((record.topic, record.partition), []).append(record)
    return {
        place: PartitionFacts(
            [record.offset for record in found], [record.timestamp_ms for record in found]
        )
        for place, found in by_partition.items()
    }


def options_of(choices: Choices, facts: Facts) -> dict[str, str]:
    """Turn a set into the options that both sources take."""
    topics = choices["topics"].split(",")
    chosen = {place: partition for place, partition in facts.items() if place[0] in topics}
    plain = {
        name: value
        for name, value in choices.items()
        if name not in _NO_OPTIONS and value != DEFAULT
    }
    selection = choices["selection"]
    return {
        selection: _selection(selection, topics, chosen),
        **dict(_limit("starting", choices["start"], choices["start at"], chosen)),
        **dict(_limit("ending", choices.get("end", DEFAULT), choices.get("end at", ""), chosen)),
        **plain,
    }


def _selection(selection: str, topics: Sequence[str], chosen: Facts) -> str:
    if selection == "subscribePattern":
        return "|".join(topics).replace(".", "\\.")
    if selection == "assign":
        return json.dumps({topic: _partitions(topic, chosen) for topic in topics})
    return ",".join(topics)


def _partitions(topic: str, chosen: Facts) -> list[int]:
    return sorted(partition for name, partition in chosen if name == topic)


def _limit(side: str, form: str, moment: str, chosen: Facts) -> Iterator[tuple[str, str]]:
    if form in ("earliest", "latest"):
        yield f"{side}Offsets", form
    elif form == "offsets":
        yield f"{side}Offsets", _by_partition(chosen, lambda partition: partition.offset_at(moment))
    elif form == "named offsets":
        named = -2 if side == "starting" else -1
        first = min(chosen)
        offsets = {place: partition.offset_at(moment) for place, partition in chosen.items()} | {
            first: named
        }
        yield f"{side}Offsets", _json(offsets)
    elif form == "timestamp":
        whole = PartitionFacts(
            [0], [ms for partition in chosen.values() for ms in partition.timestamps_ms]
        )
        yield f"{side}Timestamp", str(whole.timestamp_at(moment))
    elif form == "timestamps by partition":
        times = _by_partition(chosen, lambda partition: partition.timestamp_at(moment))
        yield f"{side}OffsetsByTimestamp", times


def _by_partition(chosen: Facts, number: Callable[[PartitionFacts], int]) -> str:
    return _json({place: number(partition) for place, partition in chosen.items()})


def _json(numbers: Mapping[tuple[str, int], int]) -> str:
    by_topic: dict[str, dict[str, int]] = {}
    for (topic, partition), number in numbers.items():
        by_topic.setdefault(topic, {})[str(partition)] = number
    return json.dumps(by_topic)
