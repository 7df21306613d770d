"""Which neighbouring segments become one when they are cleaned."""

from __future__ import annotations

from collections.abc import Sequence

from spark_segmentlog.log.formats import offset_index, time_index
from spark_segmentlog.log.formats.offset_index import MAX_RELATIVE_OFFSET
from spark_segmentlog.log.segment.growth import SegmentConfig
from spark_segmentlog.log.upkeep.swap import SegmentFile


def group_segments(
    segments: Sequence[SegmentFile], *, end_offset: int, config: SegmentConfig
) -> list[list[SegmentFile]]:
    """Group neighbouring segments that become one (Kafka's `groupSegmentsBySize`).

    Parameters
    ----------
    segments : sequence of SegmentFile
        Ascending.
    end_offset : int
        After the last one.
    config : SegmentConfig
        Sums of log and index sizes stay within it; the indexes are counted as large as they can
        get.
    """
    groups: list[list[SegmentFile]] = []
    size_bytes = entries = 0
    bounds = [*(segment.base_offset for segment in segments[1:]), end_offset]
    for segment, bound in zip(segments, bounds, strict=True):
        most_entries = segment.size_bytes // (config.index_interval_bytes + 1) + 1
        fits = (
            bool(groups)
            and size_bytes + segment.size_bytes <= config.segment_bytes
            and (entries + most_entries) * offset_index.ENTRY.itemsize <= config.segment_index_bytes
            and (entries + most_entries) * time_index.ENTRY.itemsize <= config.segment_index_bytes
            and (
                segment.size_bytes == 0
                or bound - 1 - groups[-1][0].base_offset <= MAX_RELATIVE_OFFSET
            )
        )
        if fits:
            groups[-1].append(segment)
            size_bytes += segment.size_bytes
            entries += most_entries
        else:
            groups.append([segment])
            size_bytes, entries = segment.size_bytes, most_entries
    return groups
