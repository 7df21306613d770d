"""Which leader epochs a log has, whatever its checkpoint says, and that writers keep to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from spark_segmentlog.log.formats.checkpoints import LeaderEpoch, parse_leader_epochs
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.segment.leader_epochs import load_leader_epochs
from spark_segmentlog.log.write.commit import commit_staged_batches
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.testing.builder import LogBuilder, RecordSpec, v2_batch
from spark_segmentlog.testing.legacy import legacy_message
from tests.support.scenarios import Writing, stage

T0 = TopicPartition("t", 0)
Epochs = list[tuple[int, int]]
Segments = Sequence[Sequence[tuple[int, int]]]

# Epoch 2 from offset 0, 3 from 20, 5 from 30, a segment at 0, 20 and 40; the log ends at 50.
BATCHES = ((0, 2), (10, 2)), ((20, 3), (30, 5)), ((40, 5),)
TRUE_EPOCHS = [(2, 0), (3, 20), (5, 30)]
END = 50


def batch(base_offset: int, epoch: int) -> bytes:
    rows = [RecordSpec(value=b"v" * 30) for _ in range(10)]
    return v2_batch(rows, base_offset=base_offset, partition_leader_epoch=epoch)


def make_log(path: Path, epochs: Epochs, segments: Segments = BATCHES) -> Path:
    return LogBuilder(path).partition(
        "t",
        0,
        [[batch(*fields) for fields in of_segment] for of_segment in segments],
        leader_epochs=epochs,
    )


def commit(path: Path) -> None:
    commit_staged_batches(stage([str(path)], [Writing({T0: 1})]))


def append(path: Path) -> None:
    with open_log(str(path)) as log:
        log.append("t", pa.record_batch({"value": [b"by us"]}))


def batch_epochs(path: Path) -> list[int]:
    log = LogManager.open(str(path)).topic_partitions[T0]
    tables = (table for segment in log.segments for table in segment.headers())
    return [int(epoch) for table in tables for epoch in table.partition_leader_epoch]


CHECKPOINTS = {
    "right": (TRUE_EPOCHS, TRUE_EPOCHS),
    "lost": ([], TRUE_EPOCHS),
    "stale by one": (TRUE_EPOCHS[:2], TRUE_EPOCHS),
    "stale by two": (TRUE_EPOCHS[:1], TRUE_EPOCHS),
    "of an epoch below all": ([(0, 0)], [(0, 0), *TRUE_EPOCHS]),
    "of a leader that wrote nothing": ([*TRUE_EPOCHS, (7, END)], [*TRUE_EPOCHS, (7, END)]),
    "of a longer log": ([*TRUE_EPOCHS, (7, 80)], [*TRUE_EPOCHS, (7, END)]),
    "of another longer log": ([(2, 0), (7, 80)], [*TRUE_EPOCHS, (7, END)]),
}


@pytest.mark.parametrize("write", [commit, append])
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_a_writer_goes_on_with_the_logs_last_epoch_and_keeps_the_checkpoint_right(
    tmp_path: Path, write: Callable[[Path], None], name: str
) -> None:
    found, wanted = CHECKPOINTS[name]
    folder = make_log(tmp_path, found)
    write(tmp_path)
    entries = parse_leader_epochs((folder / "leader-epoch-checkpoint").read_text())
    assert entries == [LeaderEpoch(*entry) for entry in wanted]
    assert batch_epochs(tmp_path) == [2, 2, 3, 5, 5, wanted[-1][0]]


def test_the_epochs_of_a_log_without_any_begin_at_its_end(tmp_path: Path) -> None:
    message = legacy_message(1, offset=0, value=b"v")
    folder = LogBuilder(tmp_path).partition("t", 0, [[message]], leader_epochs=[])
    append(tmp_path)
    assert (folder / "leader-epoch-checkpoint").read_text() == "0\n1\n0 1\n"


def test_batches_after_the_valid_end_have_no_say(tmp_path: Path) -> None:
    folder = make_log(tmp_path, [(2, 0)], segments=[[(0, 2)]])
    (log_path,) = folder.glob("*.log")
    log_path.write_bytes(log_path.read_bytes() + batch(10, 9)[:-3])
    append(tmp_path)
    assert batch_epochs(tmp_path) == [2, 2]
    assert (folder / "leader-epoch-checkpoint").read_text() == "0\n1\n2 0\n"


def test_a_right_checkpoint_costs_no_walk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_log(tmp_path, TRUE_EPOCHS)
    segments = LogManager.open(str(tmp_path)).topic_partitions[T0].segments
    walked: list[int] = []
    original = type(segments[0]).headers

    def headers(segment, *arguments, **settings):  # type: ignore[no-untyped-def]
        walked.append(segment.base_offset)
        return original(segment, *arguments, **settings)

    monkeypatch.setattr(type(segments[0]), "headers", headers)
    entries = [LeaderEpoch(*entry) for entry in TRUE_EPOCHS]
    end = {"end_position": segments[-1].size_bytes(), "log_end_offset": END}
    assert load_leader_epochs(entries, segments, **end) == entries
    assert walked == [40]
    assert load_leader_epochs(entries[:2], segments, **end) == entries
    assert 0 not in walked
