"""The files of one partition directory, from one listing: numbers only, no object a file.

A live cleaner renames the files that it made from ``.cleaned`` to ``.swap``, then the old ones to
``.deleted``, then the new ones to plain names. So a ``.swap`` counts as its segment where no plain
file has that base offset, unless a ``.cleaned`` has a lower or equal one: then it may be part of a
split that never ended (Kafka's LogLoader).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from spark_segmentlog.log.file_names import (
    BASE_OFFSET_DIGITS,
    CLEANED_SUFFIX,
    LOG_SUFFIX,
    MAX_OFFSET,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    find_base_offset,
)
from spark_segmentlog.log.files import Storage
from spark_segmentlog.record._types import Int64s

_LOG_NAME_LENGTH = BASE_OFFSET_DIGITS + len(LOG_SUFFIX)
_USUAL_LENGTHS = frozenset(
    BASE_OFFSET_DIGITS + len(suffix)
    for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
)
_SWAPPED_LOG_SUFFIX = LOG_SUFFIX + SWAP_SUFFIX
_SWAPPED_TRANSACTION_INDEX_SUFFIX = TRANSACTION_INDEX_SUFFIX + SWAP_SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionListing:
    """Offsets in the names of a partition directory's files, each ascending."""

    base_offsets: Int64s
    swapped: frozenset[int]
    transaction_index_offsets: Int64s
    snapshot_offsets: Int64s

    def only(self, base_offsets: Iterable[int]) -> PartitionListing:
        """Keep some of the segments."""
        kept = np.intersect1d(self.base_offsets, np.array(sorted(base_offsets), np.int64))
        return PartitionListing(
            base_offsets=kept,
            swapped=self.swapped,
            transaction_index_offsets=self.transaction_index_offsets,
            snapshot_offsets=self.snapshot_offsets,
        )


def list_partition(storage: Storage, directory: str) -> PartitionListing:
    """List a partition directory.

    Raises
    ------
    FileNotFoundError
        The directory is gone.
    """
    return sort_names(storage.list_names(directory))


def sort_names(names: list[str]) -> PartitionListing:
    """Pick the segments, transaction indexes and snapshots out of file names."""
    plain = _plain_segments(names)
    # Most files are logs and their two indexes, known by the length of their names.
    others = [name for name in names if len(name) not in _USUAL_LENGTHS]
    swapped = _swapped(others).difference(plain) if others else set()
    transaction_indexes = {
        *_offsets(others, TRANSACTION_INDEX_SUFFIX),
        *_offsets(others, _SWAPPED_TRANSACTION_INDEX_SUFFIX),
    }
    return PartitionListing(
        base_offsets=_ascending([*plain, *swapped] if swapped else plain),
        swapped=frozenset(swapped),
        transaction_index_offsets=_ascending(transaction_indexes),
        snapshot_offsets=_ascending(_offsets(others, SNAPSHOT_SUFFIX)),
    )


def _plain_segments(names: list[str]) -> list[int]:
    logs = [name for name in names if name[-4:] == LOG_SUFFIX]
    digits = [name[:BASE_OFFSET_DIGITS] for name in logs if len(name) == _LOG_NAME_LENGTH]
    together = "".join(digits)
    if together.isascii() and together.isdigit():
        offsets = [int(text) for text in digits]
        if max(offsets) <= MAX_OFFSET:
            return offsets
    return _offsets(logs, LOG_SUFFIX)


def _swapped(names: list[str]) -> set[int]:
    swapped = _offsets(names, _SWAPPED_LOG_SUFFIX)
    if not swapped:
        return set()
    cleaned = [name.removesuffix(CLEANED_SUFFIX) for name in names if name.endswith(CLEANED_SUFFIX)]
    first_cleaned = min(
        (int(name.partition(".")[0]) for name in cleaned if name.partition(".")[0].isdecimal()),
        default=None,
    )
    return {offset for offset in swapped if first_cleaned is None or offset < first_cleaned}


def _offsets(names: list[str], suffix: str) -> list[int]:
    found = (find_base_offset(name, suffix) for name in names if name.endswith(suffix))
    return [offset for offset in found if offset is not None]


def _ascending(offsets: Iterable[int]) -> Int64s:
    return np.unique(np.fromiter(offsets, np.int64))
