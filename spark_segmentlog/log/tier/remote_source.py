"""The stores of a read, and the metadata topics that tell what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spark_segmentlog.log.io.reading import Storage
from spark_segmentlog.log.tier.metadata_topic import MetadataTopic
from spark_segmentlog.log.tier.remote_segment import KeyFiles, RemoteSegment
from spark_segmentlog.log.tier.stores import RemoteStore


class RemoteSource:
    """The stores of a read, and the metadata of what is in them. Pickles without what was read.

    Parameters
    ----------
    log_directories : sequence of (Storage, str)
        In which ``__remote_log_metadata`` may lie.

    Attributes
    ----------
    described : dict of str to RemoteSegment
        What stores have told of segments, by id: it never changes.
    """

    def __init__(
        self,
        stores: Sequence[RemoteStore],
        keys: KeyFiles,
        log_directories: Sequence[tuple[Storage, str]] = (),
    ) -> None:
        self.stores = tuple(stores)
        self.keys = keys
        self._log_directories = tuple(log_directories)
        self.described: dict[str, RemoteSegment] = {}
        self._metadata: MetadataTopic | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return RemoteSource, (self.stores, self.keys, self._log_directories)

    @property
    def metadata(self) -> MetadataTopic:
        """The metadata topic, as of the last `refresh`."""
        if self._metadata is None:
            self.refresh()
        assert self._metadata is not None
        return self._metadata

    def refresh(self) -> None:
        """Read what has come to the metadata topic."""
        if self._metadata is None:
            self._metadata = MetadataTopic(self._log_directories)
        self._metadata.refresh()
