"""The lag of a stream, read from what Spark reports."""

from __future__ import annotations

import json

import pytest

from spark_segmentlog.query.progress import Lag, stream_lag


def progress(*sources: tuple[object, object]) -> dict[str, object]:
    return {"sources": [{"endOffset": end, "latestOffset": latest} for end, latest in sources]}


def test_lag_is_latest_less_reached_by_partition() -> None:
    report = progress(
        (
            '{"t": {"0": 10, "1": 5}, "u": {"0": 7}}',
            '{"t": {"0": 12, "1": 5}, "u": {"0": 17}}',
        )
    )
    assert stream_lag(report) == Lag(
        partitions={"t": {0: 2, 1: 0}, "u": {0: 10}},
        min_offsets_behind_latest=0,
        avg_offsets_behind_latest=4.0,
        max_offsets_behind_latest=10,
    )


def test_lag_reads_json_text_with_offsets_as_objects() -> None:
    report = json.dumps(progress(({"t": {"0": 1}}, {"t": {"0": 4}})))
    assert stream_lag(report).partitions == {"t": {0: 3}}


def test_a_partition_not_reached_yet_counts_from_zero() -> None:
    assert stream_lag(progress(("{}", '{"t": {"0": 4}}'))).max_offsets_behind_latest == 4


@pytest.mark.parametrize("latest", [None, "null", "None", "-", '{"index": 5}', '{"a": {"b": "c"}}'])
def test_other_sources_and_missing_reports_give_no_lag(latest: object) -> None:
    assert stream_lag(progress(('{"t": {"0": 1}}', latest))) == Lag()


def test_of_two_sources_on_one_partition_the_larger_lag_counts() -> None:
    report = progress(
        ('{"t": {"0": 1}}', '{"t": {"0": 9}}'), ('{"t": {"0": 7}}', '{"t": {"0": 9}}')
    )
    assert stream_lag(report).partitions == {"t": {0: 8}}
