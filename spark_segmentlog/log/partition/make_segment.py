"""How a segment of a partition's log is made of what the listing tells: local, moving, remote."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_segmentlog.log import names
from spark_segmentlog.log.io.as_listed import StorageAsListed
from spark_segmentlog.log.segment.segment import RemoteCopy, Segment
from spark_segmentlog.log.tier.remote_segment import RemotePiece
from spark_segmentlog.log.tier.tiered_storage import TieredStorage

if TYPE_CHECKING:
    from spark_segmentlog.log.partition.listed_log import ListedLog


def make_segment(log: ListedLog, base_offset: int) -> Segment:
    """Make the segment of a base offset, of a remote piece where that begins with it."""
    bound = log.next_base_offset(base_offset)
    storage = log.storage
    if log.tier is not None:
        piece = log.tier.find_piece(base_offset)
        if piece is not None:
            return _remote_segment(log, log.tier, piece, bound)
        storage = log.tier.narrowed(base_offset)
    if isinstance(storage, StorageAsListed):
        storage = storage.narrowed(log.directory, _names_of(base_offset, bound))
    suffixes = log.listing.suffixes
    ends = (base_offset,) if bound is None else (base_offset, bound)
    is_moving = names.SWAP_SUFFIX in map(suffixes.get, ends)
    return Segment(
        topic_partition=log.topic_partition,
        directory=log.directory,
        base_offset=base_offset,
        end_offset_bound=bound,
        is_index_trusted=log.state.is_index_whole(log.topic_partition, bound),
        recovery_point=log.recovery_point,
        reached_offset=log.state.reached_offset(log.topic_partition),
        suffix=suffixes.get(base_offset, ""),
        is_moving=is_moving,
        is_first=is_moving or base_offset == int(log.all_base_offsets[0]),
        listed_end=log.found_end if bound is None else None,
        storage=storage,
    )


def _remote_segment(
    log: ListedLog, tier: TieredStorage, piece: RemotePiece, bound: int | None
) -> Segment:
    # What is known to end where the next begins is as strict as a local segment.
    is_exact = bound is None or piece.segment.end_offset == bound
    return Segment(
        topic_partition=log.topic_partition,
        directory=log.directory,
        base_offset=piece.start_offset,
        end_offset_bound=bound,
        is_index_trusted=True,
        is_moving=not is_exact,
        copy=RemoteCopy(
            tier.remote.objects.object_path(piece), piece.end_offset if bound is None else bound
        ),
        storage=tier.narrowed(piece.start_offset),
    )


def _names_of(base_offset: int, next_base_offset: int | None) -> list[str]:
    """Name the files that are looked for by who reads a segment."""
    kinds = (
        names.LOG_SUFFIX,
        names.OFFSET_INDEX_SUFFIX,
        names.TIME_INDEX_SUFFIX,
        names.TRANSACTION_INDEX_SUFFIX,
    )
    suffixes = [f"{kind}{renamed}" for kind in kinds for renamed in ("", names.SWAP_SUFFIX)]
    found = [names.segment_file_name(base_offset, suffix) for suffix in suffixes]
    following = [] if next_base_offset is None else [names.segment_file_name(next_base_offset)]
    return [*found, *following]
