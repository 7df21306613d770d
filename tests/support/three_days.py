"""A topic of three segments, of two days ago, of one and of now, also in a cluster's directory."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.testing.builder import LogBuilder
from tests.support.cleaning import DAY_MS, NOW_MS, plain_batches
from tests.support.metadata_log import metadata_log, partition, setting, topic

TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
SETTINGS = ("--delete-retention-ms", DAY_MS, "--min-compaction-lag-ms", 0)


def days(path: Path, name: str = "t", topic_id: str | None = None) -> Path:
    """Three segments of four records, of two days ago, of one, and of now."""
    return LogBuilder(path).partition(
        name,
        0,
        [
            plain_batches(
                [(b"k%d" % (number % 3), b"v%d" % number) for number in range(base, base + 4)],
                base_offset=base,
                timestamp_ms=NOW_MS - age * DAY_MS,
            )
            for base, age in ((0, 2), (4, 1), (8, 0))
        ],
        topic_id=topic_id,
    )


def cluster(path: Path, **settings: str) -> Path:
    """Topic t of three days in a cluster's directory, which names these settings of it."""
    metadata_log(
        path,
        topic("t", 1),
        partition(0, 1, 1),
        *(setting(2, "t", name.replace("_", "."), value) for name, value in settings.items()),
    )
    return days(path, topic_id=TOPIC_ID)
