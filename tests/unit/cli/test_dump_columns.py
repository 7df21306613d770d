"""Lines that are made column by column are those that are made entry by entry."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spark_segmentlog.cli.dump_columns import group_lines
from spark_segmentlog.cli.dump_entries import BatchGroup, segment_parts
from spark_segmentlog.cli.dump_options import BytesAs, DumpOptions
from spark_segmentlog.cli.dump_text import text_line
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from spark_segmentlog.testing.strategies import record_specs
from tests.support.broker_data import BrokerLog
from tests.support.running import NAME, flip

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
RECORDS = DumpOptions(records=True)


def line_of(entry: dict[str, Any], *, as_json: bool) -> str:
    return json.dumps(entry) if as_json else text_line(entry)


def groups_of(path: str, options: DumpOptions) -> Iterator[BatchGroup]:
    for log in LogManager.open(path, skip_corrupt=True).topic_partitions.values():
        for segment in log.segments:
            for part in segment_parts(segment, options):
                if isinstance(part, BatchGroup):
                    yield part


def check(path: str, options: DumpOptions) -> int:
    """Compare both ways for every group; gives how many lines were made of columns."""
    made = 0
    for group in groups_of(path, options):
        entries = list(group.entries())
        kinds = [entry["type"] for entry in entries]
        for as_json in (False, True):
            lines = group_lines(group, as_json=as_json)
            if lines is None:
                continue
            made += len(entries)
            expected = [line_of(entry, as_json=as_json) for entry in entries]
            assert b"".join(lines.texts).decode().split("\n") == [*expected, ""]
            assert (lines.batches, lines.records) == (kinds.count("batch"), kinds.count("record"))
    return made


@pytest.mark.parametrize("bytes_as", BytesAs)
@pytest.mark.parametrize(
    ("producer", "least"),
    [("kafka-4.3.1", 3000), ("kafka-4.3.1-java-transactions", 100), ("kafka-2.8.2", 0)],
)
def test_logs_of_real_brokers(
    broker_log: Callable[[str, str], BrokerLog], producer: str, least: int, bytes_as: BytesAs
) -> None:
    log = broker_log(producer, "clean")
    options = DumpOptions(records=True, bytes_as=bytes_as)
    assert sum(check(path, options) for path in log.log_directories) > least
    assert sum(check(path, DumpOptions()) for path in log.log_directories) >= least // 100


@given(
    groups=st.lists(st.lists(record_specs(), max_size=5), min_size=1, max_size=5),
    codec=st.sampled_from(CODECS),
    append=st.booleans(),
    sequence=st.sampled_from([-1, 0, 2**31 - 2]),
    bytes_as=st.sampled_from(list(BytesAs)),
    chosen=st.sampled_from(
        [
            RECORDS,
            DumpOptions(),
            DumpOptions(records=True, start_offset=2, end_offset=6),
            DumpOptions(records=True, key=b""),
            DumpOptions(records=True, min_timestamp_ms=0, max_timestamp_ms=10**12),
            DumpOptions(records=True, producer_ids=(1,)),
        ]
    ),
)
@settings(max_examples=60)
def test_any_records(
    tmp_path_factory: pytest.TempPathFactory,
    groups: list[list[RecordSpec]],
    codec: str,
    append: bool,
    sequence: int,
    bytes_as: BytesAs,
    chosen: DumpOptions,
) -> None:
    offset, data = 0, []
    for number, records in enumerate(groups):
        data.append(
            v2_batch(
                records,
                base_offset=offset,
                codec=codec,
                log_append_time=append,
                base_sequence=sequence,
                producer_id=number % 2,
                last_offset_delta=max(len(records) - 1, 0),
            )
        )
        offset += max(len(records), 1)
    path = LogBuilder(tmp_path_factory.mktemp("log")).partition("t", 0, [data]).parent
    options = DumpOptions(
        **{
            name: getattr(chosen, name)
            for name in DumpOptions.__slots__
            if name not in ("bytes_as", "decode")
        },
        bytes_as=bytes_as,
    )
    check(str(path), options)


TEXTS = [
    b"plain",
    b"",
    b'"quoted\\"',
    b"\x00\x1f\x7f",
    "\u00e9\u4e2d\u2028\U0001f600".encode(),
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"{\t}\n",
]


def test_texts_of_every_kind_beside_each_other(tmp_path: Path) -> None:
    records = [
        RecordSpec(key=key, value=value, headers=[("h\n", key), ("\u00e9", None), ("", value)])
        for key in [*TEXTS, None]
        for value in [*TEXTS, None]
    ]
    records += [RecordSpec(key=b"none", headers=[])]
    LogBuilder(tmp_path / "a").partition("t", 0, [[v2_batch(records)]])
    for bytes_as in BytesAs:
        made = check(str(tmp_path / "a"), DumpOptions(records=True, bytes_as=bytes_as))
        assert made == 2 * (1 + len(records))


@pytest.mark.parametrize(
    "odd",
    [
        v2_batch([b"\x7f\x00"], base_offset=1),
        v2_batch([RecordSpec(value=b"x", timestamp_ms=2**62)], base_offset=1),
        v2_batch([RecordSpec(value=bytes(65 << 20))], base_offset=1, codec="zstd"),
    ],
    ids=["bad record", "time that no column holds", "large"],
)
def test_what_is_odd_is_left_to_the_entries(tmp_path: Path, odd: bytes) -> None:
    around = [v2_batch([RecordSpec(value=b"v")], base_offset=offset) for offset in (0, 2)]
    LogBuilder(tmp_path).partition("t", 0, [[around[0], odd, around[1]]])
    (group,) = groups_of(str(tmp_path), RECORDS)
    assert group_lines(group, as_json=True) is None
    assert [entry["type"] for entry in group.entries()].count("batch") == 3


def test_a_batch_with_a_wrong_checksum_is_shown_with_its_records(tmp_path: Path) -> None:
    data = [v2_batch([RecordSpec(value=b"v" * 9)], base_offset=offset) for offset in (0, 1, 2)]
    directory = LogBuilder(tmp_path).partition("t", 0, [data])
    flip(directory / f"{NAME}.log", len(data[0]) + len(data[1]) - 2)
    assert check(str(tmp_path), RECORDS) == 12


def test_groups_are_of_bounded_size(tmp_path: Path) -> None:
    value = b"v" * 100_000
    data = [v2_batch([RecordSpec(value=value)], base_offset=offset) for offset in range(30)]
    LogBuilder(tmp_path).partition("t", 0, [data])
    groups = groups_of(str(tmp_path), RECORDS)
    sizes = [len(part.table) for group in groups for part in group.parts()]
    assert sum(sizes) == 30
    assert max(sizes) <= 11
