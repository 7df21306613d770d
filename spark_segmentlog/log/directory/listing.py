"""The files of one partition directory, from one listing: numbers only, no object a file.

A live cleaner renames the files that it made from ``.cleaned`` to ``.swap``, then the old ones to
``.deleted``, then the new ones to plain names. So a ``.swap`` counts as its segment where no plain
file has that base offset, unless a ``.cleaned`` has a lower or equal one: then it may be part of a
split that never ended (Kafka's LogLoader). A listing that such a rename may have slipped through is
made again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from spark_segmentlog.log.io.reading import Storage
from spark_segmentlog.log.io.signature import list_whole
from spark_segmentlog.log.names import (
    BASE_OFFSET_DIGITS,
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    LOG_SUFFIX,
    MAX_OFFSET,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    find_base_offsets,
)
from spark_segmentlog.record.types import Int64s

STRICT_LISTINGS: Final = 8
"""Listings of a busy folder that must agree in every name; later ones, in their segments."""

_LOG_NAME_LENGTH = BASE_OFFSET_DIGITS + len(LOG_SUFFIX)
_USUAL_LENGTHS = frozenset(
    BASE_OFFSET_DIGITS + len(suffix)
    for suffix in (LOG_SUFFIX, OFFSET_INDEX_SUFFIX, TIME_INDEX_SUFFIX)
)
_SWAPPED_LOG_SUFFIX = LOG_SUFFIX + SWAP_SUFFIX
_SWAPPED_TRANSACTION_INDEX_SUFFIX = TRANSACTION_INDEX_SUFFIX + SWAP_SUFFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionListing:
    """Offsets in the names of a partition directory's files, each ascending.

    Attributes
    ----------
    base_offsets : ndarray of int64
        Of the segments.
    suffixes : mapping of int to str
        What stands after the files' names, by base offset, of segments that are being renamed.
    orphan_offsets : ndarray of int64
        Of offset indexes whose segment has no `.log`.
    """

    base_offsets: Int64s
    suffixes: Mapping[int, str]
    transaction_index_offsets: Int64s
    snapshot_offsets: Int64s
    orphan_offsets: Int64s

    def only(self, named: Mapping[int, str]) -> PartitionListing:
        """Keep some of the segments, and those whose files were named with a suffix."""
        suffixes = {base_offset: suffix for base_offset, suffix in named.items() if suffix}
        plain = np.array(sorted(named.keys() - suffixes.keys()), np.int64)
        kept = np.intersect1d(self.base_offsets, plain)
        return PartitionListing(
            base_offsets=_ascending([*kept.tolist(), *suffixes]),
            suffixes={**self.suffixes, **suffixes},
            transaction_index_offsets=self.transaction_index_offsets,
            snapshot_offsets=self.snapshot_offsets,
            orphan_offsets=self.orphan_offsets,
        )


def list_partition(storage: Storage, directory: str) -> PartitionListing:
    """List a partition directory.

    Raises
    ------
    FileNotFoundError
        The directory is gone.
    """
    return sort_names(list_names(storage, directory))


def list_names(storage: Storage, directory: str) -> list[str]:
    """List the names of a partition directory's files, none of them missed."""
    return list_whole(storage, directory, lambda: storage.list_names(directory), _agree)


def _agree(earlier: list[str], later: list[str], attempt: int) -> bool:
    """Tell whether two listings show one state of a folder that changes.

    Where names come and go all the time it must do that the segments are the same, but for new ones
    at the end: those are made under their plain names.
    """
    if earlier == later or set(earlier) == set(later):
        return True
    if attempt < STRICT_LISTINGS:
        return False
    one, other = sort_names(earlier).base_offsets, sort_names(later).base_offsets
    count = min(len(one), len(other))
    return count > 0 and bool((one[:count] == other[:count]).all())


def sort_names(names: list[str]) -> PartitionListing:
    """Pick the segments, transaction indexes and snapshots out of file names."""
    plain = _plain_segments(names)
    # Most files are logs and their two indexes, known by the length of their names.
    others = [name for name in names if len(name) not in _USUAL_LENGTHS]
    swapped = _swapped(others).difference(plain) if others else set()
    transaction_indexes = {
        *find_base_offsets(others, TRANSACTION_INDEX_SUFFIX),
        *find_base_offsets(others, _SWAPPED_TRANSACTION_INDEX_SUFFIX),
    }
    return PartitionListing(
        base_offsets=_ascending([*plain, *swapped] if swapped else plain),
        suffixes=dict.fromkeys(swapped, SWAP_SUFFIX),
        transaction_index_offsets=_ascending(transaction_indexes),
        snapshot_offsets=_ascending(find_base_offsets(others, SNAPSHOT_SUFFIX)),
        orphan_offsets=_orphans(names, swapped),
    )


def _orphans(names: list[str], swapped: set[int]) -> Int64s:
    logs = {name[:BASE_OFFSET_DIGITS] for name in names if name[-4:] == LOG_SUFFIX}
    lonely = [
        name
        for name in names
        if name[-6:] == OFFSET_INDEX_SUFFIX and name[:BASE_OFFSET_DIGITS] not in logs
    ]
    if not lonely:
        return _ascending(())
    # Who takes a segment away renames its log first, and its indexes next.
    going = find_base_offsets(names, LOG_SUFFIX + DELETED_SUFFIX)
    return _ascending(set(find_base_offsets(lonely, OFFSET_INDEX_SUFFIX)) - swapped - set(going))


def _plain_segments(names: list[str]) -> list[int]:
    logs = [name for name in names if name[-4:] == LOG_SUFFIX]
    digits = [name[:BASE_OFFSET_DIGITS] for name in logs if len(name) == _LOG_NAME_LENGTH]
    together = "".join(digits)
    if together.isascii() and together.isdigit():
        offsets = [int(text) for text in digits]
        if max(offsets) <= MAX_OFFSET:
            return offsets
    return find_base_offsets(logs, LOG_SUFFIX)


def _swapped(names: list[str]) -> set[int]:
    swapped = find_base_offsets(names, _SWAPPED_LOG_SUFFIX)
    if not swapped:
        return set()
    cleaned = [name.removesuffix(CLEANED_SUFFIX) for name in names if name.endswith(CLEANED_SUFFIX)]
    first_cleaned = min(
        (int(name.partition(".")[0]) for name in cleaned if name.partition(".")[0].isdecimal()),
        default=None,
    )
    return {offset for offset in swapped if first_cleaned is None or offset < first_cleaned}


def _ascending(offsets: Iterable[int]) -> Int64s:
    return np.array(sorted(set(offsets)), np.int64)
