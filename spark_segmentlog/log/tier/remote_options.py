"""What was given to read remote stores, apart from what reads them and loads Arrow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from spark_segmentlog.log.io.storage_options import NO_STORAGE_OPTIONS, StorageOptions
from spark_segmentlog.log.tier.remote_segment import KeyFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteOptions:
    """What is read besides local files; travels to tasks.

    Attributes
    ----------
    uris : tuple of str
        Stores beside log directories.
    layout : str or None
        Name of their layout; None to find it by looking.
    keys : tuple of (str, str)
        Of encrypted segments.
    topic_ids : tuple of str
        Of topics that are read from a store though the log directory has none such, or another of
        that name.
    storage : StorageOptions
        How file systems are reached, those of log directories too.
    """

    uris: tuple[str, ...] = ()
    layout: str | None = None
    keys: KeyFiles = ()
    topic_ids: tuple[str, ...] = ()
    storage: StorageOptions = NO_STORAGE_OPTIONS


NO_REMOTE: Final = RemoteOptions()
