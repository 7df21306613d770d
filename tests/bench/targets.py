"""Every bound that ``make bench`` holds the library to, in one table."""

from __future__ import annotations

from tests.bench.harness import Target

# What a log of `decode` holds, by how the names of its figures end.
_SHAPES = {
    "100": "100 records a batch",
    "1": "1 record a batch",
    "1000": "1,000 records a batch",
    "1kb": "values of 1 kB",
    "lz4": "lz4",
    "zstd": "zstd",
    "v1": "message format 1",
    "v1_lz4": "message format 1, lz4",
}


def _decode_targets(
    prefix: str, what: str, bounds: dict[str, float], aims: dict[str, float], *, at_most: bool
) -> tuple[Target, ...]:
    return tuple(
        Target(
            name=f"{prefix}_{suffix}",
            what=f"{what}, {_SHAPES[suffix]}",
            bound=bound,
            aim=aims.get(suffix),
            at_most=at_most,
        )
        for suffix, bound in bounds.items()
    )


DECODE_TARGETS = (
    *_decode_targets(
        "arrow_against_java",
        "log to Arrow against Kafka's Java `FileRecords` that checks and visits",
        {"100": 0.6, "1": 0.2, "1000": 0.8, "1kb": 1.0, "lz4": 0.6, "zstd": 0.5}
        | {"v1": 1.0, "v1_lz4": 3.0},
        {"1": 0.1, "1000": 0.6, "zstd": 0.4},
        at_most=True,
    ),
    *_decode_targets(
        "arrow_against_aiokafka",
        "log to Arrow against aiokafka's C extension that checks and visits",
        {"100": 0.25, "1": 0.25, "1000": 0.3, "1kb": 0.6, "lz4": 0.6, "zstd": 0.7}
        | {"v1": 1.0, "v1_lz4": 3.0},
        {"100": 0.2, "1": 0.2},
        at_most=True,
    ),
    *_decode_targets(
        "arrow_against_kafka_python",
        "log to Arrow against kafka-python that checks and visits",
        {"100": 0.05, "1": 0.05, "1000": 0.05, "1kb": 0.2, "v1": 0.2},
        {},
        at_most=True,
    ),
    *_decode_targets(
        "threads_against_one",
        "rows a second of log to Arrow in two threads against one",
        dict.fromkeys(_SHAPES, 0.9) | {"zstd": 1.2},
        dict.fromkeys(_SHAPES, 1.8),
        at_most=False,
    ),
    Target(
        name="committed_against_uncommitted_100",
        what="read_committed over transactions against read_uncommitted, 100 records a batch",
        bound=1.4,
        aim=1.3,
    ),
    Target(
        name="committed_against_uncommitted_1",
        what="read_committed over transactions against read_uncommitted, 1 record a batch",
        bound=1.5,
        aim=1.3,
    ),
)

SPARK_READ_TARGETS = (
    *(
        Target(
            name=f"spark_rows_{suffix}",
            what=f"rows a second through Spark against ready-made Arrow{where}, {_SHAPES[shape]}",
            bound=bound,
            aim=aim,
            at_most=False,
        )
        for suffix, shape, where, bound, aim in (
            ("100", "100", "", 0.9, 0.95),
            ("100_shared", "100", " in shared workers", 0.8, 0.9),
            ("1000", "1000", "", 0.9, 0.95),
            ("1000_shared", "1000", " in shared workers", 0.8, 0.9),
            ("1", "1", "", 0.85, 0.9),
            ("1_shared", "1", " in shared workers", 0.75, 0.85),
        )
    ),
    Target(
        name="spark_rows_parquet",
        what="rows a second through Spark against Spark's uncompressed Parquet of the same rows",
        bound=0.1,
        at_most=False,
    ),
    Target(
        name="spark_offset_only",
        what='rows a second of `.schema("offset bigint")` against ready-made Arrow',
        bound=0.8,
        at_most=False,
    ),
    Target(
        name="ten_rows_by_options",
        what="ten rows of four million by timestamp options against reading nothing",
        bound=1.5,
    ),
    Target(
        name="ten_rows_by_pushdown",
        what="ten rows of four million by `pushdown=true` against reading nothing",
        bound=1.5,
    ),
)

LIMIT_TARGETS = (
    Target(
        name="limit_with_daemon",
        what="`limit(5).collect()` again and again, more than ready-made Arrow, with the daemon",
        bound=0.1,
        unit="s",
    ),
    Target(
        name="limit_stock_worker",
        what="`limit(5).collect()` again and again, more than ready-made Arrow, stock worker",
        bound=0.3,
        unit="s",
    ),
)

SMALL_SEGMENTS_TARGETS = (
    Target(
        name="small_segments_planned",
        what="input partitions of 10,000 segments of ten records",
        bound=1000,
        unit="partitions",
    ),
    Target(
        name="small_segments_read",
        what="10,000 segments of ten records against the same in 1,000 segments",
        bound=1.5,
    ),
)

PLANNING_TARGETS = (
    Target(
        name="planning_by_offset",
        what="planning 100,000 segments by offset against a walk",
        bound=3.0,
    ),
    Target(
        name="planning_by_time",
        what="planning 100,000 segments by time against a walk that reads time indexes",
        bound=3.0,
    ),
    Target(
        name="planning_by_time_compared",
        what="planning 10,000 segments by time, whose indexes are compared with their logs, "
        "against such a walk",
        bound=25.0,
    ),
)

MEMORY_TARGETS = (
    Target(
        name="memory_arrow_none",
        what="memory of `read_arrow` above idle, 1 GiB segment, none",
        bound=300,
        unit="MB",
    ),
    Target(
        name="memory_arrow_zstd",
        what="memory of `read_arrow` above idle, 1 GiB segment, zstd",
        bound=300,
        unit="MB",
    ),
    Target(
        name="memory_spark_worker_none",
        what="memory of a Spark worker above idle, 1 GiB segment, none",
        bound=300,
        unit="MB",
    ),
    Target(
        name="memory_spark_worker_zstd",
        what="memory of a Spark worker above idle, 1 GiB segment, zstd",
        bound=300,
        unit="MB",
    ),
    Target(
        name="memory_arrow_large_batch",
        what="memory of `read_arrow` above idle, a zstd batch of 2.4 GB decompressed",
        bound=300,
        unit="MB",
    ),
    Target(
        name="memory_spark_worker_large_batch",
        what="memory of a Spark worker above idle, a zstd batch of 2.4 GB decompressed",
        bound=300,
        unit="MB",
    ),
)

WRITE_TARGETS = (
    Target(
        name="write_against_discarding",
        what="writing against a Python Arrow sink that throws rows away",
        bound=1.5,
        aim=1.3,
    ),
    Target(
        name="write_against_parquet",
        what="writing against Spark's uncompressed Parquet writer, which syncs nothing",
        bound=1.3,
        aim=0.95,
    ),
    Target(
        name="write_against_kafka_none",
        what="writing against Spark's Kafka sink into a broker on the same machine, none",
        bound=0.4,
        aim=0.15,
    ),
    Target(
        name="write_against_kafka_lz4",
        what="writing against Spark's Kafka sink into a broker on the same machine, lz4",
        bound=0.4,
        aim=0.25,
    ),
)

COMMIT_TARGETS = (
    Target(
        name="commit_rewritten",
        what="bytes that a commit of eight staged files of 64 MiB writes, a page a batch",
        bound=1.0,
    ),
    Target(
        name="commit_against_creation",
        what="commit of ten rows into each of 10,000 new partitions against bare creation, synced",
        bound=3.0,
    ),
    Target(
        name="commit_linear",
        what="processor's time of that, a partition, against that of 1,000 partitions",
        bound=1.5,
    ),
)

STREAM_TARGETS = (
    Target(
        name="stream_latency",
        what="p95 from a commit to foreachBatch against a source of ready-made rows",
        bound=1.3,
    ),
    Target(
        name="no_data_trigger",
        what="a trigger without data over 10,000 segments against one over 10",
        bound=1.5,
    ),
)

CLI_TARGETS = (
    Target(
        name="cli_dump_records",
        what="`segmentlog dump --records` against `kafka-dump-log --print-data-log`",
        bound=0.5,
    ),
    Target(
        name="cli_dump_json",
        what="`segmentlog dump --records --format json` against the same",
        bound=0.5,
    ),
    Target(
        name="cli_verify_deep",
        what="`segmentlog verify --deep` against `kafka-dump-log --deep-iteration`",
        bound=0.2,
    ),
    Target(
        name="cli_verify_deep_lz4",
        what="`segmentlog verify --deep` against the same, lz4",
        bound=0.2,
    ),
    Target(
        name="cli_verify_deep_zstd",
        what="`segmentlog verify --deep` against the same, zstd",
        bound=0.2,
    ),
    Target(
        name="cli_verify_deep_1",
        what="`segmentlog verify --deep` against the same, a million records, 1 record a batch",
        bound=0.2,
    ),
)

TIER_TARGETS = (
    Target(
        name="tier_copies",
        what="a scan of a tier of copies in a local folder against the log directory",
        bound=1.1,
    ),
    Target(
        name="tier_plain_chunks",
        what="a scan of a tier of plain chunks in a local folder against the log directory",
        bound=1.1,
    ),
    Target(
        name="tier_zstd_chunks",
        what="a scan of a tier of zstd chunks against a log directory of zstd batches",
        bound=1.5,
    ),
)

FAR_TARGETS = (
    Target(
        name="far_large",
        what="a scan of segments of 64 MiB in a store at 30 ms a request against their download",
        bound=1.25,
    ),
    Target(
        name="far_small_batches",
        what="the same with 1 record a batch",
        bound=1.25,
    ),
    Target(
        name="far_committed",
        what="the same of transactions with read_committed",
        bound=1.25,
    ),
    Target(
        name="far_small_segments",
        what="a scan of 327 small segments in that store against their download",
        bound=1.25,
    ),
)

FIRST_QUERY_TARGETS = (
    Target(
        name="first_query",
        what="the first query of a new process, more than of ready-made Arrow",
        bound=2.0,
        aim=0.5,
        unit="s",
    ),
)

KAFKA_SOURCE_TARGETS = tuple(
    Target(
        name=f"kafka_source_{suffix}",
        what=f"{what}, against Spark's Kafka source with the broker on the same machine",
        bound=bound,
        aim=aim,
        at_most=False,
        unit="times as fast",
    )
    for suffix, what, bound, aim in (
        ("scan", "scan of values of 100 bytes", 2.0, 3.5),
        ("lz4", "scan of values of 100 bytes, lz4", 2.5, 4.5),
        ("1kb", "scan of values of 1 kB", 2.0, 3.5),
        ("count", "`count()`", 2.0, 3.5),
        ("offset", "column `offset` alone", 3.0, 6.0),
        ("pushdown", "ten rows by timestamps in `where`, with `pushdown=true`", 3.5, 10.0),
        ("options", "ten rows by timestamps in options", 0.5, 1.0),
        ("stock", "scan of values of 100 bytes, with Spark's own settings", 2.0, None),
    )
)

TARGETS_OF_GROUPS = {
    "decode": DECODE_TARGETS,
    "kafka-source": KAFKA_SOURCE_TARGETS,
    "spark-read": SPARK_READ_TARGETS,
    "first-query": FIRST_QUERY_TARGETS,
    "limit": LIMIT_TARGETS,
    "small-segments": SMALL_SEGMENTS_TARGETS,
    "planning": PLANNING_TARGETS,
    "memory": MEMORY_TARGETS,
    "spark-write": WRITE_TARGETS,
    "commit": COMMIT_TARGETS,
    "spark-stream": STREAM_TARGETS,
    "cli": CLI_TARGETS,
    "tier": TIER_TARGETS,
    "far": FAR_TARGETS,
}
"""The bounds of each group of benchmarks, by its name."""

TARGETS = tuple(target for targets in TARGETS_OF_GROUPS.values() for target in targets)
