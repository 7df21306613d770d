"""Every bound that ``make bench`` holds the library to, in one table."""

from __future__ import annotations

from tests.bench.harness import Target

READ_TARGETS = (
    Target(
        name="arrow_against_java_100",
        what="log to Arrow against Java `FileRecords`, 100 records a batch",
        bound=0.8,
    ),
    Target(
        name="arrow_against_java_1",
        what="log to Arrow against Java `FileRecords`, 1 record a batch",
        bound=0.2,
    ),
    Target(
        name="arrow_against_java_1000",
        what="log to Arrow against Java `FileRecords`, 1,000 records a batch",
        bound=0.8,
    ),
    Target(
        name="arrow_against_java_1kb",
        what="log to Arrow against Java `FileRecords`, values of 1 kB",
        bound=2.0,
    ),
    Target(
        name="threads_against_one_zstd",
        what="rows a second of log to Arrow in threads against one, zstd, two cores",
        bound=1.2,
        at_most=False,
    ),
    Target(
        name="arrow_against_java_lz4",
        what="log to Arrow against Java `FileRecords`, lz4",
        bound=1.0,
    ),
    Target(
        name="arrow_against_java_zstd",
        what="log to Arrow against Java `FileRecords`, zstd",
        bound=1.0,
    ),
    Target(
        name="arrow_against_aiokafka_100",
        what="log to Arrow against aiokafka, 100 records a batch",
        bound=0.25,
    ),
    Target(
        name="arrow_against_aiokafka_1",
        what="log to Arrow against aiokafka, 1 record a batch",
        bound=0.25,
    ),
    Target(
        name="committed_against_uncommitted_100",
        what="read_committed over transactions against read_uncommitted, 100 records a batch",
        bound=1.3,
    ),
    Target(
        name="committed_against_uncommitted_1",
        what="read_committed over transactions against read_uncommitted, 1 record a batch",
        bound=1.3,
    ),
    Target(
        name="spark_rows_100",
        what="rows a second through Spark against ready-made Arrow, 100 records a batch",
        bound=0.9,
        at_most=False,
    ),
    Target(
        name="spark_rows_1",
        what="rows a second through Spark against ready-made Arrow, 1 record a batch",
        bound=0.85,
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
    ),
    Target(
        name="write_against_parquet",
        what="writing against Spark's uncompressed Parquet writer",
        bound=1.0,
    ),
    Target(
        name="write_against_kafka_none",
        what="writing against Spark's Kafka sink into a broker on the same machine, none",
        bound=0.4,
    ),
    Target(
        name="write_against_kafka_lz4",
        what="writing against Spark's Kafka sink into a broker on the same machine, lz4",
        bound=0.4,
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

TARGETS = (
    *READ_TARGETS,
    *WRITE_TARGETS,
    *COMMIT_TARGETS,
    *STREAM_TARGETS,
    *CLI_TARGETS,
    *TIER_TARGETS,
)
