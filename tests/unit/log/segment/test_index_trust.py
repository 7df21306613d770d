"""An index whose last entry names a batch that a crash has cut off hides nothing before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_manager import LogManager
from spark_segmentlog.log.write.local_log import open_log
from spark_segmentlog.testing.builder import (
    LogBuilder,
    RecordSpec,
    SegmentSpec,
    offset_index_bytes,
    v2_batch,
)

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("cut_bytes", [1, 60])
def test_the_log_ends_before_an_indexed_batch_that_is_cut_off(
    tmp_path: Path, is_clean: bool, cut_bytes: int
) -> None:
    batches = [
        v2_batch([RecordSpec(value=b"v" * 90)], base_offset=offset) for offset in range(5, 9)
    ]
    index = offset_index_bytes(batches, 5, interval_bytes=1)
    log = LogBuilder(tmp_path)
    log.partition("t", 0, [SegmentSpec(batches, base_offset=5, index=index, cut_bytes=cut_bytes)])
    if is_clean:
        log.clean_shutdown()
    assert LogManager.open(str(tmp_path)).offset_bounds() == {T0: (5, 8)}
    with open_log(str(tmp_path)) as opened:
        assert opened.log_end_offset("t", 0) == 8
