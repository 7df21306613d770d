"""One name for two questions: how far behind is a stream, and how far are consumer groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

import pyarrow as pa

from spark_segmentlog.query.group_lag import group_lag
from spark_segmentlog.query.progress import Lag, stream_lag
from spark_segmentlog.query.read_arrow import Paths


@overload
def lag(source: Mapping[str, Any]) -> Lag: ...


@overload
def lag(source: Paths, **options: Any) -> pa.Table: ...


def lag(source: Any, **options: Any) -> Any:
    """Tell how far behind readers are: consumer groups of a log, or a streaming query.

    Parameters
    ----------
    source : path, iterable of paths, or StreamingQueryProgress
        Log directories, for the groups whose offsets they hold. Or ``query.lastProgress``,
        ``event.progress`` of a listener, or either as a dict or JSON text, for one query.
    **options
        With paths: options of `read_arrow` (``mode``, ``until_high_watermark``,
        ``kafka_isolation_level``, those of storages that are not local).

    Returns
    -------
    pyarrow.Table or Lag
        Of groups, a row a committed offset: ``group``, ``topic``, ``partition``,
        ``committedOffset``, ``logEndOffset``, ``lag``; the last two are null where the partition is
        in none of the directories. A commit within a transaction counts once that is committed.

        Of a query, over all its sources whose offsets are Kafka's. A partition that no micro-batch
        has reached yet counts from offset 0. Of a partition that two sources read, the larger lag
        counts.

    Raises
    ------
    SegmentLogError
        One of its subclasses; `UnknownTopicOrPartitionError` without ``__consumer_offsets``.
    TypeError
        `source` is none of the above.
    """
    is_json = isinstance(source, str) and source.lstrip().startswith("{")
    if source is None or is_json or isinstance(source, Mapping):
        return stream_lag(source)
    return group_lag(source, **options)
