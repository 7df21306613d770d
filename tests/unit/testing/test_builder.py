"""Directories that the builder writes."""

from __future__ import annotations

import struct
from pathlib import Path

from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    v2_batch,
)


def test_segment_files_and_their_damage(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path / "logs")
    batch = v2_batch([RecordSpec(value=b"x" * 3000)] * 3)
    second = v2_batch([RecordSpec(value=b"y" * 3000)] * 3, base_offset=3)
    directory = log.partition(
        "t.a-b",
        4,
        [
            [batch, second],
            SegmentSpec([], tail=bytes(100), index_size_bytes=64),
            SegmentSpec([batch], base_offset=50, suffix=".deleted", cut_bytes=5, index=False),
        ],
        topic_id="",
    )
    assert sorted(path.name for path in directory.iterdir()) == [
        "00000000000000000000.index",
        "00000000000000000000.log",
        "00000000000000000000.timeindex",
        "00000000000000000006.index",
        "00000000000000000006.log",
        "00000000000000000006.timeindex",
        "00000000000000000050.log.deleted",
        "00000000000000000050.timeindex.deleted",
        "leader-epoch-checkpoint",
    ]
    assert (directory / "00000000000000000000.index").read_bytes() == struct.pack(
        ">ii", 5, len(batch)
    )
    assert (directory / "00000000000000000006.index").read_bytes() == bytes(64)
    assert (directory / "00000000000000000050.log.deleted").read_bytes() == batch[:-5]


def test_checkpoints_read_like_a_brokers(tmp_path: Path) -> None:
    log = LogBuilder(tmp_path)
    offsets = {("a-b", 0): 5, ("c", 1): 7}
    text = "0\n2\na-b 0 5\nc 1 7\n"
    assert log.high_watermarks(offsets).read_text() == text
    assert log.recovery_points(offsets).name == "recovery-point-offset-checkpoint"
    assert log.log_start_offsets(offsets).name == "log-start-offset-checkpoint"
    assert log.clean_shutdown(446).read_text() == '{"version":0,"brokerEpoch":446}'
    assert "cluster.id=c\n" in log.meta_properties(cluster_id="c").read_text()
