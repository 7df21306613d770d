"""How far a stream is behind, from a query's progress, told as the Kafka source's metrics do.

Spark reports custom metrics of JVM sources only. But its progress holds, for every source, the
offset that the micro-batch reached and the latest one there was, both as ``{"topic":{"0":23}}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Offsets = dict[str, dict[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """Offsets behind the latest, by partition and over all of them.

    Attributes
    ----------
    partitions : dict of topic to dict of partition to int
        Latest offset less the one reached, as reported for one trigger.
    min_offsets_behind_latest, max_offsets_behind_latest : int or None
        Over all partitions; None where the progress names no latest offset.
    avg_offsets_behind_latest : float or None
    """

    partitions: Offsets = field(default_factory=dict)
    min_offsets_behind_latest: int | None = None
    avg_offsets_behind_latest: float | None = None
    max_offsets_behind_latest: int | None = None


def stream_lag(progress: Any) -> Lag:
    """Tell how many offsets a streaming query was behind the log when it reported this progress.

    Parameters
    ----------
    progress : StreamingQueryProgress, dict or str
        ``query.lastProgress``, ``event.progress`` of a listener, or either as a dict or JSON text.

    Returns
    -------
    Lag
        Over all sources of the query whose offsets are Kafka's. A partition that no micro-batch
        has reached yet counts from offset 0. Of a partition that two sources read, the larger
        lag counts.

    Raises
    ------
    TypeError
        The progress is none of the above.
    """
    behind: Offsets = {}
    for source in _sources(progress):
        latest = _offsets(source.get("latestOffset"))
        reached = _offsets(source.get("endOffset")) or {}
        for topic, partitions in (latest or {}).items():
            of_topic = behind.setdefault(topic, {})
            for partition, offset in partitions.items():
                distance = offset - reached.get(topic, {}).get(partition, 0)
                of_topic[partition] = max(distance, of_topic.get(partition, distance))
    return _summarize(behind)


def _summarize(behind: Offsets) -> Lag:
    distances = [distance for partitions in behind.values() for distance in partitions.values()]
    if not distances:
        return Lag()
    return Lag(
        partitions=behind,
        min_offsets_behind_latest=min(distances),
        avg_offsets_behind_latest=sum(distances) / len(distances),
        max_offsets_behind_latest=max(distances),
    )


def _sources(progress: Any) -> list[Mapping[str, Any]]:
    if isinstance(progress, str):
        progress = json.loads(progress)
    if progress is None or not isinstance(progress, Mapping):
        raise TypeError(
            f"progress is {type(progress).__name__}; expected a StreamingQueryProgress, a dict or "
            "JSON text, and query.lastProgress is None until a first trigger has ended"
        )
    return list(progress.get("sources") or ())


def _offsets(reported: Any) -> Offsets | None:
    """Read an offset as a progress holds it; None where it is absent or another source's."""
    if isinstance(reported, str):
        try:
            reported = json.loads(reported)
        except ValueError:
            return None
    try:
        return {
            topic: {int(partition): int(offset) for partition, offset in partitions.items()}
            for topic, partitions in reported.items()
        }
    except (AttributeError, TypeError, ValueError):
        return None
