"""Which records go: by key, as tombstones, and by a made-up rule."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.upkeep import record_rules
from spark_segmentlog.log.upkeep.record_rules import RECORD_RULES, RecordRule
from spark_segmentlog.testing.builder import (
    LogBuilder,
)
from tests.support.cleaning import (
    DAY_MS,
    NOW_MS,
    build,
    check_indexes,
    headers,
    kept,
    plain_batches,
)
from tests.support.compacting import CODECS, active, old_format_log, run


@pytest.mark.parametrize("codec", CODECS)
def test_only_the_latest_record_of_a_key_stays_with_its_offset(tmp_path: Path, codec: str) -> None:
    values = [(b"a", b"1"), (b"b", b"1"), (b"a", b"2"), (b"c", b"1"), (b"b", b"2"), (b"a", b"3")]
    directory = build(tmp_path, [plain_batches(values, batch_size=3, codec=codec), active(6)])
    result = run(directory)
    assert kept(directory)[:-1] == [(3, b"c", b"1"), (4, b"b", b"2"), (5, b"a", b"3")]
    assert (result.records_read, result.records_kept) == (6, 3)
    assert headers(directory)[0].codec_id == CODECS.index(codec)
    check_indexes(directory)


def test_records_without_a_key_go_and_are_counted(tmp_path: Path) -> None:
    values = [(None, b"1"), (b"a", b"1"), (None, b"2"), (b"", b"empty key")]
    directory = build(tmp_path, [plain_batches(values), active(4)])
    result = run(directory)
    assert kept(directory)[:-1] == [(1, b"a", b"1"), (3, b"", b"empty key")]
    assert result.records_without_key == 2


def test_a_tombstone_stays_until_its_delete_horizon_is_over(tmp_path: Path) -> None:
    directory = build(
        tmp_path, [plain_batches([(b"a", b"1"), (b"b", b"1"), (b"a", None)]), active(3)]
    )
    run(directory)
    assert kept(directory)[:-1] == [(1, b"b", b"1"), (2, b"a", None)]
    horizons = [header.delete_horizon_ms for header in headers(directory)]
    assert horizons == [None, NOW_MS + DAY_MS, None]
    run(directory, now_ms=NOW_MS + DAY_MS - 1)
    assert kept(directory)[:-1] == [(1, b"b", b"1"), (2, b"a", None)]
    run(directory, now_ms=NOW_MS + DAY_MS)
    assert kept(directory)[:-1] == [(1, b"b", b"1")]


def test_a_tombstone_that_is_not_the_latest_goes_at_once(tmp_path: Path) -> None:
    directory = build(tmp_path, [plain_batches([(b"a", None), (b"a", b"1")]), active(2)])
    run(directory)
    assert kept(directory)[:-1] == [(1, b"a", b"1")]
    assert headers(directory)[0].delete_horizon_ms is None


def test_tombstones_of_old_formats_go_with_the_age_of_their_segment(tmp_path: Path) -> None:
    directory = old_format_log(tmp_path, 1, "none")
    LogBuilder(tmp_path)._offset_checkpoint("cleaner-offset-checkpoint", {("t", 0): 5})
    run(directory)
    # Its segment is two days older than the newest clean one, delete.retention.ms is one.
    assert (2, b"a", None) not in kept(directory)


def test_an_added_rule_takes_records_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [(b"a", b"short"), (b"b", b"a longer one"), (b"c", b"short too")]
    directory = build(tmp_path, [plain_batches(rows), active(3)])
    too_long = RecordRule("too long", lambda judged: judged.records.value_length > 10)
    monkeypatch.setattr(record_rules, "RECORD_RULES", [*RECORD_RULES, too_long])
    assert run(directory).records_without_key == 0
    assert kept(directory)[:-1] == [(0, b"a", b"short"), (2, b"c", b"short too")]
