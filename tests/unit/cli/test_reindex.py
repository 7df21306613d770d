"""``segmentlog reindex``: indexes as the batches say."""

from __future__ import annotations

from pathlib import Path

from spark_segmentlog.testing.builder import (
    LogBuilder,
    SegmentSpec,
    offset_index_bytes,
    time_index_bytes,
)
from tests.support.running import NAME, batches, objects, run


def test_indexes_are_made_anew(tmp_path: Path) -> None:
    data = batches(40)
    log = LogBuilder(tmp_path)
    lies = SegmentSpec(data, index=bytes(7) + b"\x01" + bytes(8), time_index=False)
    directory = log.partition("t", 0, [lies, batches(2, base_offset=40)])
    other = log.partition("other", 0, [SegmentSpec(data, index=False)])
    made = objects("reindex", tmp_path, "--topic", "t")
    assert [(action["kind"], action["path"], action["isDone"]) for action in made] == [
        ("rebuild indexes", f"{directory}/{NAME}.log", True),
        ("rebuild indexes", f"{directory}/00000000000000000040.log", True),
    ]
    assert (directory / f"{NAME}.index").read_bytes() == offset_index_bytes(data, 0)
    assert (directory / f"{NAME}.timeindex").read_bytes() == time_index_bytes(data, 0)
    assert not (other / f"{NAME}.index").exists()
    run("reindex", tmp_path, "--index-interval-bytes", "1000")
    expected = offset_index_bytes(data, 0, interval_bytes=1000)
    assert (other / f"{NAME}.index").read_bytes() == expected
