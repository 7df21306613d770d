"""A micro-batch of about so many bytes: shared out over partitions, cut where batches end."""

from __future__ import annotations

from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.partition.log_watch import WatchedPartitionLog
from spark_segmentlog.query.admission import AdmissionLimits, limit_offsets, share_out
from spark_segmentlog.query.stream_planning import Offsets

Logs = dict[TopicPartition, WatchedPartitionLog]


def admit(begin: Offsets, end: Offsets, logs: Logs, limits: AdmissionLimits) -> Offsets:
    """Cut what a micro-batch would take to what the limits on offsets and on bytes allow."""
    if limits.max_offsets is not None:
        end = limit_offsets(limits.max_offsets, begin, end)
    if limits.max_bytes is not None:
        end = _limit_bytes(limits.max_bytes, begin, end, logs)
    return end


def _limit_bytes(limit: int, begin: Offsets, end: Offsets, logs: Logs) -> Offsets:
    """Share a number of bytes out over partitions, and cut each at the end of a batch."""
    sizes = {
        topic_partition: int(log.estimate_bytes(begin[topic_partition], end[topic_partition]).sum())
        for topic_partition, log in logs.items()
        if topic_partition in end
    }
    if sum(sizes.values()) <= limit:
        return end
    shares = share_out(limit, sizes)
    return {
        topic_partition: _offset_after(
            logs[topic_partition],
            begin[topic_partition],
            shares[topic_partition],
            sizes[topic_partition],
            offset,
        )
        if topic_partition in shares
        else offset
        for topic_partition, offset in end.items()
    }


def _offset_after(
    log: WatchedPartitionLog, begin: int, share_bytes: int, size_bytes: int, end: int
) -> int:
    try:
        return log.offset_after_bytes(begin, share_bytes, end)
    except FileNotFoundError:
        # A segment was renamed since the look; its share of the offsets must do.
        return min(begin + max((end - begin) * share_bytes // size_bytes, 1), end)
