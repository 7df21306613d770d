from __future__ import annotations

import logging
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.errors import (
    CrcMismatchError,
    DataLossError,
    DecompressedSizeError,
    EmptyLogDirectoryError,
    LogPathNotFoundError,
    MalformedTimestampError,
    NotALogDirectoryError,
    OptionValueError,
    SchemaError,
    UnknownTopicOrPartitionError,
)
from spark_segmentlog.query.options import parse_read_options
from spark_segmentlog.query.planning import RowBounds
from spark_segmentlog.query.read_plan import (
    ReadRequest,
    Split,
    plan_splits,
    plan_whole_ranges,
    read_split,
)
from spark_segmentlog.query.schema import default_schema, shape_rows
from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    control_batch,
    legacy_message,
    legacy_message_set,
    v2_batch,
)


def batch(base_offset: int, *timestamps_ms: int, **fields: Any) -> bytes:
    records = [
        RecordSpec(key=b"k", value=b"%04d" % (base_offset + place), timestamp_ms=timestamp)
        for place, timestamp in enumerate(timestamps_ms)
    ]
    return v2_batch(records, base_offset=base_offset, **fields)


def offsets(path: Path | list[Path], **options: Any) -> list[int]:
    table = read_arrow(path, columns=["offset"], **options).read_all()
    return list(table["offset"].to_pylist())


def places(path: Path | list[Path], **options: Any) -> list[tuple[str, int, int]]:
    table = read_arrow(path, columns=["topic", "partition", "offset"], **options).read_all()
    return [(it["topic"], it["partition"], it["offset"]) for it in table.to_pylist()]


@pytest.fixture
def three_segments(tmp_path: Path) -> Path:
    """Topic t, partition 0: offsets 0 to 29 in segments from 0, 10 and 20, at 1000 + offset ms."""
    log = LogBuilder(tmp_path / "logs")
    log.partition(
        "t",
        0,
        [
            [
                batch(base + 5 * half, *range(1000 + base + 5 * half, 1005 + base + 5 * half))
                for half in range(2)
            ]
            for base in (0, 10, 20)
        ],
    )
    log.clean_shutdown()
    return log.path


# Rows


def test_rows_have_the_schema_of_the_kafka_source(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    records = [
        RecordSpec(key=None, value=b"", timestamp_ms=-1),
        RecordSpec(key=b"", value=None, headers=[("trace-id", None), ("x", b"")]),
    ]
    log.partition("t", 3, [[v2_batch(records, base_offset=7)]])
    table = read_arrow(log.path, include_headers=True).read_all()
    assert table.schema.names == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    first, second = table.to_pylist()
    assert (first["key"], first["value"], first["headers"]) == (None, b"", None)
    assert (second["key"], second["value"]) == (b"", None)
    assert second["headers"] == [{"key": "trace-id", "value": None}, {"key": "x", "value": b""}]
    assert (first["topic"], first["partition"], first["offset"]) == ("t", 3, 7)
    assert first["timestamp"].isoformat() == "1969-12-31T23:59:59.999000+00:00"
    assert second["timestampType"] == 0
    assert "headers" not in read_arrow(log.path).schema.names


def test_rows_of_all_formats_show_no_timestamp_as_the_kafka_source_does(tmp_path: Path) -> None:
    none = [RecordSpec(value=b"v", timestamp_ms=-1)]
    entries = [
        legacy_message(0, offset=0, value=b"v"),
        legacy_message(1, offset=1, value=b"v", timestamp_ms=-1),
        legacy_message_set(0, none, base_offset=2, codec="gzip"),
        legacy_message_set(1, none, base_offset=3, codec="gzip"),
        v2_batch(none, base_offset=4, base_timestamp=-1),
    ]
    LogBuilder(tmp_path).partition("t", 0, [entries])
    columns = ["timestamp", "timestampType"]
    rows = read_arrow(tmp_path, columns=columns).read_all().to_pylist()
    assert {row["timestamp"].isoformat() for row in rows} == {"1969-12-31T23:59:59.999000+00:00"}
    assert [row["timestampType"] for row in rows] == [-1, 0, -1, 0, 0]


def test_rows_are_counted_by_records_not_by_offsets(tmp_path: Path) -> None:
    records = [RecordSpec(value=b"v", offset_delta=delta) for delta in (1, 3, 7, 9)]
    segment = SegmentSpec([v2_batch(records, base_offset=100, last_offset_delta=9)])
    LogBuilder(tmp_path).partition("t", 0, [segment])
    assert offsets(tmp_path) == [101, 103, 107, 109]
    assert spans(splits_of(tmp_path)) == [[(100, 110)]]
    for columns in (["topic"], ["partition", "timestampType"], ["value"]):
        assert read_arrow(tmp_path, columns=columns).read_all().num_rows == 4


def test_columns_are_a_subset_in_any_order_and_case(three_segments: Path) -> None:
    reader = read_arrow(three_segments, columns=["VALUE", "offset"])
    assert reader.schema.names == ["value", "offset"]
    assert reader.read_all().to_pylist()[29] == {"value": b"0029", "offset": 29}
    with pytest.raises(SchemaError, match=r"no column 'ofset'; the nearest one is 'offset'"):
        read_arrow(three_segments, columns=["ofset"])
    with pytest.raises(SchemaError, match="more than once: offset"):
        read_arrow(three_segments, columns=["offset", "offset"])


def test_timestamp_that_spark_cannot_hold_names_its_record(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [[batch(4, 1_700_000_000_000_000)]])
    with pytest.raises(
        MalformedTimestampError, match=r"1700000000000000 ms at topic t, partition 0, offset 4"
    ):
        read_arrow(log.path).read_all()
    assert offsets(log.path) == [4]


def test_arrow_needs_no_spark_and_no_pandas(three_segments: Path) -> None:
    code = (
        "import sys, spark_segmentlog as s;"
        f"n = s.read_arrow({str(three_segments)!r}, include_headers=True).read_all().num_rows;"
        "assert n == 30 and not {'pyspark', 'pandas'} & set(sys.modules), n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# Paths


def test_paths_are_log_directories_partitions_files_and_globs(three_segments: Path) -> None:
    partition = three_segments / "t-0"
    assert offsets(three_segments) == list(range(30))
    assert offsets(partition) == list(range(30))
    assert offsets(partition / "00000000000000000010.log") == list(range(10, 20))
    assert offsets([partition / "00000000000000000020.log", partition / f"{0:020}.log"]) == [
        *range(10),
        *range(20, 30),
    ]
    assert offsets(three_segments / "t-*") == list(range(30))


def test_several_log_directories_are_one_log(tmp_path: Path) -> None:
    for number in range(2):
        LogBuilder(tmp_path / f"d{number}").partition("t", number, [[batch(0, 1, 2)]])
    assert places([tmp_path / "d1", tmp_path / "d0"]) == [
        ("t", partition, offset) for partition in range(2) for offset in range(2)
    ]


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: path / "nothing", LogPathNotFoundError),
        (lambda path: path / "nothing-*", LogPathNotFoundError),
        (lambda path: path, EmptyLogDirectoryError),
    ],
)
def test_path_without_a_log(tmp_path: Path, make: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match=re.escape(str(tmp_path))):
        read_arrow(make(tmp_path))


def test_file_that_is_no_segment(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(NotALogDirectoryError, match=r"notes\.txt"):
        read_arrow(tmp_path / "notes.txt")


# Topics


@pytest.fixture
def many_topics(tmp_path: Path) -> Path:
    log = LogBuilder(tmp_path)
    for topic, partition in [
        ("audit.events", 0),
        ("audit-events", 0),
        ("my-topic-2", 10),
        ("__consumer_offsets", 0),
    ]:
        log.partition(topic, partition, [[batch(0, 1)]])
    return log.path


def test_topics_by_default_by_name_by_pattern_and_assigned(many_topics: Path) -> None:
    assert [it[0] for it in places(many_topics)] == ["audit-events", "audit.events", "my-topic-2"]
    assert places(many_topics, subscribe="audit.events") == [("audit.events", 0, 0)]
    assert [it[0] for it in places(many_topics, subscribe_pattern="audit.events")] == [
        "audit-events",
        "audit.events",
    ]
    assert places(many_topics, subscribe_pattern="audit") == []
    assert places(many_topics, assign={"my-topic-2": [10]}) == [("my-topic-2", 10, 0)]
    assert places(many_topics, subscribe="__consumer_offsets") == [("__consumer_offsets", 0, 0)]
    with pytest.raises(UnknownTopicOrPartitionError, match="not in this log: audit;"):
        read_arrow(many_topics, subscribe="audit")


def test_control_records_of_any_kind_are_no_rows(tmp_path: Path) -> None:
    kinds = [2, 3, 4, 99]
    markers = [
        control_batch(kind, base_offset=offset, key_version=1) for offset, kind in enumerate(kinds)
    ]
    LogBuilder(tmp_path).partition("__cluster_metadata", 0, [[*markers, batch(4, 1)]])
    for level in ("read_uncommitted", "read_committed"):
        read = offsets(tmp_path, subscribe="__cluster_metadata", kafka_isolation_level=level)
        assert read == [4]
    headers = read_arrow(tmp_path, subscribe="__cluster_metadata", view="batches").read_all()
    assert headers["isControl"].to_pylist() == [True] * 4 + [False]


def test_log_of_internal_topics_alone_tells_how_to_read_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    LogBuilder(tmp_path).partition("__consumer_offsets", 0, [[batch(0, 1)]])
    assert offsets(tmp_path) == []
    assert "subscribe" in caplog.text


# Where it starts and ends


def test_offsets_narrow(three_segments: Path) -> None:
    def read(start: int, end: int) -> list[int]:
        return offsets(
            three_segments,
            starting_offsets={"t": {"0": start}},
            ending_offsets={"t": {"0": end}},
        )

    assert read(-2, -1) == list(range(30))
    assert read(7, 23) == list(range(7, 23))
    assert read(10, 10) == []
    assert read(30, 30) == []


def test_start_and_end_must_name_the_chosen_partitions(three_segments: Path) -> None:
    for named in ({"t": {"1": 5}}, {"t": {"0": 5, "9": 5}}, {"u": {"0": 1}}):
        with pytest.raises(OptionValueError, match=r"Specified: .* Assigned: \[t-0\]"):
            read_arrow(three_segments, starting_offsets=named)
        with pytest.raises(OptionValueError, match=r"Specified: .* Assigned: \[t-0\]"):
            read_arrow(three_segments, ending_offsets=named)


def test_batch_above_a_limit_of_the_reader_is_a_bad_one(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    large = v2_batch([RecordSpec(value=bytes(5000))], base_offset=1, codec="zstd")
    small = [v2_batch([RecordSpec(value=b"v")], base_offset=at, codec="zstd") for at in (0, 2)]
    log.partition("t", 0, [[small[0], large, small[1]]])
    assert offsets(log.path) == [0, 1, 2]
    assert offsets(log.path, max_decompressed_bytes="5100") == [0, 1, 2]
    with pytest.raises(DecompressedSizeError, match="larger than the 4000 bytes"):
        offsets(log.path, max_decompressed_bytes=4000)
    assert offsets(log.path, max_decompressed_bytes=4000, mode="DROPMALFORMED") == [0, 2]


def test_start_past_the_end_or_below_the_start_is_loss(
    three_segments: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = LogBuilder(three_segments)
    log.log_start_offsets({("t", 0): 12})
    assert offsets(three_segments) == list(range(12, 30))
    for start, kept in ((11, list(range(12, 30))), (31, [])):
        options: dict[str, Any] = {"starting_offsets": {"t": {"0": start}}}
        with pytest.raises(DataLossError, match=rf"\[{start}, .*t-0.*\[12, 30\)"):
            read_arrow(three_segments, **options)
        assert offsets(three_segments, fail_on_data_loss=False, **options) == kept
        assert "COULD_NOT_READ_OFFSET_RANGE" in caplog.text
    with pytest.raises(DataLossError):
        read_arrow(three_segments, ending_offsets={"t": {"0": 31}})


def test_gap_of_compaction_and_markers_is_no_loss(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    marker = control_batch(COMMIT, base_offset=5, producer_id=1)
    log.partition("t", 0, [[batch(0, 1, 2, last_offset_delta=4), marker, batch(8, 9)]])
    assert offsets(log.path, starting_offsets={"t": {"0": 5}}) == [8]
    assert offsets(log.path, starting_offsets={"t": {"0": 3}}, ending_offsets={"t": {"0": 7}}) == []


def test_start_in_the_removed_tail_of_a_segment(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [[batch(8740, 1)], SegmentSpec([batch(8748, 2)], base_offset=8748)])
    log.log_start_offsets({("t", 0): 8737})
    assert offsets(log.path, starting_offsets={"t": {"0": 8745}}) == [8748]


def test_timestamps_find_the_first_record_at_or_after(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [[batch(0, 100, 50), batch(2, 200, 10)], [batch(4, 300, 150)]])
    assert offsets(log.path, starting_timestamp=101) == [2, 3, 4, 5]
    assert offsets(log.path, starting_timestamp=201) == [4, 5]
    assert offsets(log.path, ending_timestamp=101) == [0, 1]
    assert offsets(log.path, ending_timestamp=9999) == [0, 1, 2, 3, 4, 5]
    assert offsets(log.path, starting_timestamp=50, ending_timestamp=50) == []
    assert offsets(log.path, starting_timestamp=1) == [0, 1, 2, 3, 4, 5]
    assert offsets(log.path, ending_timestamp=1) == []
    by_partition = {"t": {"0": 101}}
    assert offsets(log.path, starting_offsets_by_timestamp=by_partition) == [2, 3, 4, 5]
    assert offsets(log.path, ending_offsets_by_timestamp=by_partition) == [0, 1]


def test_starting_timestamp_later_than_all_of_one_partition(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [[batch(0, 1000, 1010)]])
    log.partition("t", 1, [[batch(0, 990)]])
    log.partition("t", 2, [[]])
    with pytest.raises(OptionValueError, match="t-1 and timestamp 1000"):
        read_arrow(log.path, starting_timestamp=1000)
    late = {"starting_timestamp": 1000, "starting_offsets_by_timestamp_strategy": "latest"}
    assert places(log.path, **late) == [("t", 0, 0), ("t", 0, 1)]
    assert places(log.path, ending_timestamp=1000) == [("t", 1, 0)]
    assert len(places(log.path, starting_timestamp=5)) == 3


def test_read_committed_hides_and_stops(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    transactional = {"transactional": True, "producer_id": 7, "producer_epoch": 0}
    log.partition(
        "t",
        0,
        [
            [
                batch(0, 1, 2, **transactional),
                control_batch(0, base_offset=2, producer_id=7),
                batch(3, 3),
                batch(4, 4, 5, **transactional),
                batch(6, 6),
            ]
        ],
        snapshots=True,
    )
    log.clean_shutdown()
    assert offsets(log.path) == [0, 1, 3, 4, 5, 6]
    committed = {"kafka_isolation_level": "read_committed"}
    assert offsets(log.path, **committed) == [3]
    assert offsets(log.path, ending_offsets={"t": {"0": 7}}, **committed) == [3]
    assert offsets(log.path, starting_offsets={"t": {"0": 5}}, **committed) == []


@pytest.mark.parametrize("is_clean", [True, False])
def test_each_task_knows_the_aborts_that_later_segments_tell(
    tmp_path: Path, is_clean: bool
) -> None:
    log = LogBuilder(tmp_path)
    writes = {"transactional": True, "producer_id": 7, "producer_epoch": 0}
    segments = [
        [batch(0, 1, **writes), batch(1, 1)],
        [batch(2, 1, **writes), batch(3, 1), batch(4, 1, **writes)],
        [batch(5, 1), control_batch(ABORT, base_offset=6, producer_id=7)],
    ]
    log.partition("t", 0, segments)
    if is_clean:
        log.clean_shutdown()
    options: dict[str, Any] = {"kafka.isolation.level": "read_committed"}
    splits = pickle.loads(pickle.dumps(splits_of(tmp_path, **options)))
    assert [rows_of(tmp_path, [split], **options) for split in splits] == [[1], [3], [5]]


def test_high_watermark_bounds_the_read(three_segments: Path) -> None:
    with pytest.raises(
        OptionValueError, match=r"untilHighWatermark.*replication-offset-checkpoint.*t-0"
    ):
        read_arrow(three_segments, until_high_watermark=True)
    LogBuilder(three_segments).high_watermarks({("t", 0): 17})
    assert offsets(three_segments, until_high_watermark=True) == list(range(17))
    assert offsets(three_segments) == list(range(30))


# Bad bytes


@pytest.fixture
def one_bad_batch(tmp_path: Path) -> tuple[Path, list[bytes]]:
    """Five batches of two records, the third with a wrong checksum."""
    batches = [batch(base, 1, 2) for base in range(0, 10, 2)]
    bad = bytearray(batches[2])
    bad[-2] ^= 1
    batches[2] = bytes(bad)
    LogBuilder(tmp_path).partition("t", 0, [batches])
    return tmp_path, batches


def test_failfast_names_the_batch(one_bad_batch: tuple[Path, list[bytes]]) -> None:
    path, batches = one_bad_batch
    with pytest.raises(CrcMismatchError) as caught:
        read_arrow(path).read_all()
    assert caught.value.position == len(batches[0] + batches[1])
    assert caught.value.base_offset == 4
    assert offsets(path, kafka_check_crcs=False) == list(range(10))


def test_dropmalformed_skips_the_batch_and_warns(
    one_bad_batch: tuple[Path, list[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    path, batches = one_bad_batch
    with caplog.at_level(logging.WARNING):
        assert offsets(path, mode="DROPMALFORMED") == [0, 1, 2, 3, 6, 7, 8, 9]
    assert str(len(batches[2])) in caplog.text
    assert f"position {len(batches[0] + batches[1])}" in caplog.text


def test_permissive_gives_a_row_where_there_is_a_column(
    one_bad_batch: tuple[Path, list[bytes]],
) -> None:
    path, batches = one_bad_batch
    assert offsets(path, mode="PERMISSIVE") == [0, 1, 2, 3, 6, 7, 8, 9]
    columns = ["offset", "_corrupt_record", "topic"]
    rows = read_arrow(path, columns=columns, mode="PERMISSIVE").read_all().to_pylist()
    good = [it for it in rows if it["_corrupt_record"] is None]
    assert [it["offset"] for it in good] == [0, 1, 2, 3, 6, 7, 8, 9]
    (bad,) = (it for it in rows if it["_corrupt_record"] is not None)
    assert (bad["offset"], bad["topic"]) == (None, None)
    corrupt = bad["_corrupt_record"]
    assert corrupt["path"].endswith("t-0/00000000000000000000.log")
    assert corrupt["position"] == len(batches[0] + batches[1])
    assert corrupt["length"] == len(batches[2])
    assert (corrupt["startOffset"], corrupt["endOffset"]) == (4, 6)
    assert "crc" in corrupt["reason"]
    dropped = read_arrow(path, columns=columns, mode="DROPMALFORMED").read_all()
    assert dropped["_corrupt_record"].null_count == dropped.num_rows == 8


# Splits


def splits_of(path: Path, bounds: RowBounds | None = None, **options: str) -> list[Split]:
    parsed = parse_read_options({"path": str(path), **options})
    return plan_splits(parsed, bounds or RowBounds())


def spans(splits: list[Split]) -> list[list[tuple[int, int]]]:
    return [[(it.start_offset, it.end_offset) for it in split] for split in splits]


def rows_of(path: Path, splits: list[Split], **options: str) -> list[int]:
    parsed = parse_read_options({"path": str(path), **options})
    request = ReadRequest(options=parsed, shape=shape_rows(default_schema(parsed), parsed))
    return [
        offset
        for split in splits
        for rows in read_split(split, request)
        for offset in rows["offset"].to_pylist()
    ]


def test_one_split_a_segment(three_segments: Path) -> None:
    assert spans(splits_of(three_segments)) == [[(0, 10)], [(10, 20)], [(20, 30)]]
    narrowed = splits_of(three_segments, startingOffsets='{"t":{"0":12}}')
    assert spans(narrowed) == [[(12, 20)], [(20, 30)]]


def test_minimum_and_maximum_replace_segments(three_segments: Path) -> None:
    assert spans(splits_of(three_segments, minPartitions="1")) == [[(0, 30)]]
    assert spans(splits_of(three_segments, minPartitions="2")) == [[(0, 15)], [(15, 30)]]
    by_records = splits_of(three_segments, maxRecordsPerPartition="12", maxPartitionBytes="1")
    assert spans(by_records) == [[(0, 10)], [(10, 20)], [(20, 30)]]
    halves = splits_of(three_segments, minPartitions="2")
    assert rows_of(three_segments, halves) == list(range(30))


def test_bytes_pack_small_segments_and_cut_big_ones(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    segments = [
        SegmentSpec([batch(base + at, 1, 2) for at in range(0, 40, 2)], index_interval_bytes=0)
        for base in (0, 40, 80)
    ]
    log.partition("t", 0, segments)
    size = (tmp_path / "t-0" / f"{0:020}.log").stat().st_size
    one_batch = size // 20
    packed = splits_of(tmp_path, maxPartitionBytes=str(2 * size))
    assert spans(packed) == [[(0, 80)], [(80, 120)]]
    cut = splits_of(tmp_path, maxPartitionBytes=str(size // 2))
    assert rows_of(tmp_path, cut) == list(range(120))
    assert 6 <= len(cut) <= 12
    for ((start, end),) in spans(cut):
        assert (end - start) // 2 * one_batch <= size // 2
    whole = splits_of(tmp_path, maxPartitionBytes="1g", endingOffsets='{"t":{"0":50}}')
    assert spans(whole) == [[(0, 50)]]
    assert rows_of(tmp_path, whole) == list(range(50))


def test_very_many_small_segments_are_packed(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    for partition in range(2):
        log.partition("t", partition, [[batch(base, 1)] for base in range(501)])
    splits = splits_of(tmp_path)
    assert 2 <= len(splits) <= 1000
    assert rows_of(tmp_path, splits) == [*range(501), *range(501)]
    batches = read_arrow(tmp_path, columns=["offset"])
    assert sum(1 for _ in batches) <= 4


def test_predicates_narrow_segments(three_segments: Path) -> None:
    def narrowed(**bounds: Any) -> list[list[tuple[int, int]]]:
        return spans(splits_of(three_segments, RowBounds(**bounds)))

    assert narrowed(start_offset=12, end_offset=13) == [[(12, 13)]]
    assert narrowed(topics=frozenset(["u"])) == []
    assert narrowed(partitions=frozenset([1])) == []
    assert narrowed(min_timestamp_ms=1012) == [[(10, 20)], [(20, 30)]]
    assert narrowed(min_timestamp_ms=5000) == []


def test_segments_that_are_looked_through_for_a_time_range_share_tasks(
    three_segments: Path,
) -> None:
    bounds = RowBounds(max_timestamp_ms=1012)
    splits = splits_of(three_segments, bounds)
    assert spans(splits) == [[(0, 30)]]
    assert rows_of(three_segments, splits) == list(range(30))
    later = splits_of(three_segments, RowBounds(min_timestamp_ms=1010, max_timestamp_ms=1012))
    assert spans(later) == [[(10, 30)]]


@pytest.mark.parametrize("suffix", ["index", "timeindex"])
def test_missing_indexes_change_neither_plan_nor_rows(three_segments: Path, suffix: str) -> None:
    asked: list[dict[str, Any]] = [
        {},
        {"startingOffsets": '{"t":{"0":12}}', "endingOffsets": '{"t":{"0":23}}'},
        {"startingTimestamp": "1013", "endingTimestamp": "1027"},
        {"minPartitions": "7"},
        {"maxPartitionBytes": "1g"},
    ]
    bounds = RowBounds(min_timestamp_ms=1017)
    planned = [splits_of(three_segments, **options) for options in asked]
    narrowed = splits_of(three_segments, bounds)
    for path in (three_segments / "t-0").glob(f"*.{suffix}"):
        path.unlink()
    for options, splits in zip(asked, planned, strict=True):
        again = splits_of(three_segments, **options)
        assert spans(again) == spans(splits)
        assert rows_of(three_segments, again) == rows_of(three_segments, splits)
    without = rows_of(three_segments, splits_of(three_segments, bounds))
    expected = list(range(17, 30))
    assert [it for it in without if it >= 17] == expected
    assert [it for it in rows_of(three_segments, narrowed) if it >= 17] == expected


def test_offsets_below_the_last_segment_are_planned_without_opening_a_file(
    three_segments: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    real_open = os.open

    def spy(path: Any, *rest: Any, **more: Any) -> int:
        opened.append(str(path))
        return real_open(path, *rest, **more)

    monkeypatch.setattr(os, "open", spy)
    options: dict[str, Any] = {"startingOffsets": '{"t":{"0":3}}', "endingOffsets": '{"t":{"0":8}}'}
    assert spans(splits_of(three_segments, **options)) == [[(3, 8)]]
    assert spans(splits_of(three_segments, RowBounds(end_offset=8))) == [[(0, 8)]]
    assert [it for it in opened if it.endswith((".log", ".index", ".timeindex"))] == []


def test_latest_is_fixed_by_the_plan(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    directory = log.partition("t", 0, [[batch(0, 1, 2)]])
    reader = read_arrow(log.path, columns=["offset"])
    splits = splits_of(log.path)
    with open(directory / f"{0:020}.log", "ab") as file:
        file.write(batch(2, 3))
    assert reader.read_all()["offset"].to_pylist() == [0, 1]
    assert rows_of(log.path, splits) == [0, 1]
    assert offsets(log.path) == [0, 1, 2]


def test_segment_that_goes_between_plan_and_read_is_loss(three_segments: Path) -> None:
    splits = splits_of(three_segments)
    first = three_segments / "t-0" / f"{0:020}.log"
    first.rename(f"{first}.deleted")
    with pytest.raises(DataLossError, match=r"\[0, 10\).*t-0"):
        rows_of(three_segments, splits)
    assert rows_of(three_segments, splits, failOnDataLoss="false") == list(range(10, 30))


def test_segment_that_is_merged_into_another_is_found(three_segments: Path) -> None:
    splits = splits_of(three_segments)
    directory = three_segments / "t-0"
    first, second = (directory / f"{base:020}.log" for base in (0, 10))
    merged = first.read_bytes() + second.read_bytes()
    first.write_bytes(merged)
    second.rename(f"{second}.deleted")
    for index in directory.glob("*index"):
        index.unlink()
    assert rows_of(three_segments, splits) == list(range(30))


def test_splits_are_small_and_travel(three_segments: Path) -> None:
    split = splits_of(three_segments)[0]
    assert pickle.loads(pickle.dumps(split)) == split
    assert len(pickle.dumps(split)) < 1000


def test_whole_ranges_are_one_split_a_partition(three_segments: Path) -> None:
    parsed = parse_read_options({"path": str(three_segments)})
    assert spans(plan_whole_ranges(parsed)) == [[(0, 30)]]


def test_empty_log_has_no_rows(tmp_path: Path) -> None:
    LogBuilder(tmp_path).partition("t", 0, [[]])
    assert offsets(tmp_path) == []
    assert splits_of(tmp_path) == []
    assert read_arrow(tmp_path).schema.names[0] == "key"


def test_dying_directories_are_not_read(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [[batch(0, 1)]])
    for number, suffix in enumerate(("-delete", "-future", "-stray"), 1):
        log.partition("t", number, [[batch(0, 1)]], directory_suffix=f".0123456789abcdef{suffix}")
    assert places(tmp_path) == [("t", 0, 0)]


def test_reader_is_a_record_batch_reader(three_segments: Path) -> None:
    assert isinstance(read_arrow(three_segments), pa.RecordBatchReader)
    assert isinstance(read_arrow(str(three_segments)), pa.RecordBatchReader)
