"""What a commit does to a partition: its bounds before and after, and the steps between."""

from __future__ import annotations

import os
from dataclasses import dataclass

from spark_segmentlog.log.formats.checkpoints import LeaderEpoch
from spark_segmentlog.log.names import TopicPartition
from spark_segmentlog.log.segment.growth import SegmentEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptStep:
    """Rename a staged file to the segment of this base offset.

    The renamed file is known again by its inode, its size and its first batch header; where it was
    copied to another file system since, by the checksum over all its batch headers.
    """

    staged_path: str
    base_offset: int
    size_bytes: int
    inode: int
    first_header: bytes
    header_checksum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyStep:
    """Copy bytes of a staged file to a position of the segment of this base offset."""

    staged_path: str
    staged_position: int
    length_bytes: int
    base_offset: int
    position: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPlan:
    """A touched segment: its `.log` before and after, and from where its indexes are completed.

    Attributes
    ----------
    file_bytes_before : int
        Size of the `.log`; -1 for a segment that the commit makes.
    valid_bytes_before : int
        Where the first copy goes; what the file holds after it is a torn tail and is cut off.
    bytes_after : int
        Size of the `.log` once all steps are taken.
    indexed : SegmentEnd
        The segment up to where its indexes hold; entries for batches after that are made again.
    """

    base_offset: int
    file_bytes_before: int
    valid_bytes_before: int
    bytes_after: int
    indexed: SegmentEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionPlan:
    """What a commit does to one partition; offsets before are None for one that was not there.

    `leader_epochs` is what `leader-epoch-checkpoint` is to hold; None where it stays as it is.

    `linked_inode` is that of the folder which a partition's folder is a link to; None where the
    folder is none. A journal leads through a link only where both still are what they were.
    """

    topic_partition: TopicPartition
    log_directory: str
    start_before: int | None
    end_before: int | None
    start_after: int
    end_after: int
    leader_epoch: int
    leader_epochs: tuple[LeaderEpoch, ...] | None
    partition_metadata: bytes | None
    segments: tuple[SegmentPlan, ...]
    steps: tuple[AdoptStep | CopyStep, ...]
    linked_inode: int | None = None

    @property
    def directory(self) -> str:
        """The partition directory."""
        return os.path.join(self.log_directory, str(self.topic_partition))

    @property
    def visible_range(self) -> tuple[int, int] | None:
        """What readers see of the partition while the commit is open."""
        if self.start_before is None or self.end_before is None:
            return None
        return self.start_before, self.end_before
