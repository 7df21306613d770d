"""Where the next batch goes: after the last whole batch of a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.directory.journal import journal_path
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.upkeep.verification import verify
from spark_segmentlog.log.write.append_state import TAIL_FILE_NAME
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, SegmentSpec, v2_batch
from tests.support.appending import T0, records, values_of
from tests.support.committing import commit


def test_bad_bytes_before_good_ones_are_not_built_upon(directory: str) -> None:
    log = LogBuilder(directory)
    batches = [v2_batch([RecordSpec(value=b"x" * 50)], base_offset=offset) for offset in range(4)]
    batches[1] = batches[1][:-1] + b"\xff"
    log.partition("t", 0, [batches])
    with pytest.raises(Exception, match="segmentlog recover"):
        commit(directory, {T0: 1})
    assert not Path(journal_path(directory)).exists()


def test_a_torn_tail_is_cut_off_at_the_next_append(directory: str) -> None:
    with open_log(directory) as log:
        log.append("t", records(b"one"))
        log.append("t", records(b"two"))
    path = Path(directory) / "t-0" / "00000000000000000000.log"
    whole = path.read_bytes()
    for torn in (whole + whole[:30], whole + bytes(100), whole[:-1]):
        path.write_bytes(torn)
        with open_log(directory) as log:
            log.append("t", records(b"three"))
        expected = [b"one", b"three"] if len(torn) < len(whole) else [b"one", b"two", b"three"]
        assert values_of(directory) == expected
        assert list(verify(directory)) == []
        path.write_bytes(whole)


def test_what_was_never_flushed_may_be_torn_anywhere(directory: str) -> None:
    with open_log(directory) as log:
        log.append("t", records(b"flushed"))
    log_path = Path(directory) / "t-0" / "00000000000000000000.log"
    tail_path = log_path.parent / TAIL_FILE_NAME
    remembered = tail_path.read_bytes()
    with open_log(directory) as log:
        for number in range(4):
            log.append("t", records(b"lost %d" % number * 100))
    data = bytearray(log_path.read_bytes())
    data[len(data) // 2] ^= 1
    log_path.write_bytes(data)
    tail_path.write_bytes(remembered)
    with open_log(directory) as log:
        log.append("t", records(b"next"))
    found = values_of(directory)
    assert found[0] == b"flushed"
    assert found[-1] == b"next"
    assert len(found) < 6
    assert list(verify(directory)) == []


@pytest.mark.parametrize("is_empty_after", [False, True])
def test_an_epoch_is_never_below_that_of_the_last_batch(
    directory: str, is_empty_after: bool
) -> None:
    batch = v2_batch([RecordSpec(value=b"a")], partition_leader_epoch=7)
    segments = [SegmentSpec([batch])]
    if is_empty_after:
        segments.append(SegmentSpec([], base_offset=1))
    LogBuilder(directory).partition(T0.topic, T0.partition, segments)
    checkpoint = Path(directory, str(T0), "leader-epoch-checkpoint")
    checkpoint.unlink(missing_ok=True)
    with open_log(directory) as log:
        log.append("t", records(b"b"))
    partition = LogManager.open(directory).topic_partitions[T0]
    epochs = [
        int(epoch)
        for segment in partition.segments
        for table in segment.headers()
        for epoch in table.partition_leader_epoch
    ]
    assert epochs == [7, 7]
    assert checkpoint.read_text().split() == ["0", "1", "7", "0"]
