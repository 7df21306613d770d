"""Retention and compaction after a commit, as far as the write's options ask for them.

Only what is given is applied: ``retention.bytes`` alone lets no record go by its age.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from spark_segmentlog.clock import now_ms
from spark_segmentlog.errors import SegmentLogError
from spark_segmentlog.log.upkeep.partitions import DEFAULT_FILE_DELETE_DELAY_MS
from spark_segmentlog.query.write_options import WriteOptions

# A broker's own default: below it a commit need not even walk the headers.
MIN_CLEANABLE_RATIO = 0.5

_log = logging.getLogger(__name__)


def clean_up(log_directories: Sequence[str], topics: Sequence[str], options: WriteOptions) -> None:
    """Apply to topics that were just written what the options give.

    The rows are committed, so an error is no reason to fail: whoever tried again would write them
    twice. It is logged.
    """
    try:
        if _asks_for_retention(options):
            _retain(log_directories, topics, options)
        if "compact" in (options.cleanup_policy or ()):
            _compact(log_directories, topics, options)
    except (SegmentLogError, OSError) as error:
        _log.warning(
            "the rows are committed, but retention or compaction after them failed; run "
            "segmentlog retain or compact: %s",
            error,
        )


def _asks_for_retention(options: WriteOptions) -> bool:
    limits = (options.retention_ms, options.retention_bytes, options.cleanup_policy)
    return any(limit is not None for limit in limits)


def _retain(log_directories: Sequence[str], topics: Sequence[str], options: WriteOptions) -> None:
    from spark_segmentlog.log.upkeep.partitions import CleanupPolicy
    from spark_segmentlog.log.upkeep.retention import apply_retention
    from spark_segmentlog.log.upkeep.retention_config import NO_LIMIT, RetentionConfig

    config = RetentionConfig(
        retention_ms=_or(options.retention_ms, NO_LIMIT),
        retention_bytes=_or(options.retention_bytes, NO_LIMIT),
        cleanup_policy=frozenset(map(CleanupPolicy, options.cleanup_policy or ("delete",))),
        file_delete_delay_ms=_or(options.file_delete_delay_ms, DEFAULT_FILE_DELETE_DELAY_MS),
        lock_timeout_ms=options.lock_timeout_ms,
    )
    apply_retention(log_directories, topics, config, now_ms())


def _compact(log_directories: Sequence[str], topics: Sequence[str], options: WriteOptions) -> None:
    from spark_segmentlog.clock import DAY_MS
    from spark_segmentlog.log.upkeep.compaction import compact
    from spark_segmentlog.log.upkeep.compaction_config import CompactionConfig
    from spark_segmentlog.query.row_stager import segment_config

    config = CompactionConfig(
        delete_retention_ms=_or(options.delete_retention_ms, DAY_MS),
        min_compaction_lag_ms=_or(options.min_compaction_lag_ms, 0),
        min_cleanable_ratio=MIN_CLEANABLE_RATIO,
        segment=segment_config(options),
        file_delete_delay_ms=_or(options.file_delete_delay_ms, DEFAULT_FILE_DELETE_DELAY_MS),
        lock_timeout_ms=options.lock_timeout_ms,
    )
    compact(log_directories, topics, config, now_ms())


def _or(given: int | None, default: int) -> int:
    return default if given is None else given
