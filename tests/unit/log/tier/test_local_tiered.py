"""The layout of Kafka's own LocalTieredStorage; whole stores are read in `system/broker_logs`."""

from __future__ import annotations

import pytest

from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.tier.local_tiered import cut_text, epochs_between

EPOCHS = [LeaderEpoch(1, 0), LeaderEpoch(4, 50), LeaderEpoch(5, 80)]


@pytest.mark.parametrize(
    ("start", "end", "wanted"),
    [
        (0, 100, ((1, 0), (4, 50), (5, 80))),
        (10, 50, ((1, 10),)),
        (50, 51, ((4, 50),)),
        (60, 81, ((4, 60), (5, 80))),
        (200, 300, ((5, 200),)),
    ],
)
def test_epochs_are_those_of_the_segments_own_offsets(
    start: int, end: int, wanted: tuple[tuple[int, int], ...]
) -> None:
    found = epochs_between(EPOCHS, start, end)
    assert tuple((entry.epoch, entry.start_offset) for entry in found) == wanted


def test_what_a_segment_lacks_is_named_in_order() -> None:
    assert cut_text({".timeindex", ".log"}).startswith("lacks .log, .timeindex: ")
