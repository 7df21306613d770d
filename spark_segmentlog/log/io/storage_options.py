"""How far file systems are reached, as options say; loads none of them.

Secrets are in no repr.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageOptions:
    """What was given to reach storages that are not local; travels to tasks.

    Attributes
    ----------
    endpoint : str or None
        URL of a server that speaks S3; None for Amazon's.
    region : str or None
        None for that of the bucket.
    is_anonymous : bool
        Whether requests are not signed.
    settings : tuple of (str, object)
        More arguments for the file system that fsspec has for a scheme.
    """

    endpoint: str | None = None
    region: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    is_anonymous: bool = False
    settings: tuple[tuple[str, Any], ...] = field(default=(), repr=False)


NO_STORAGE_OPTIONS: Final = StorageOptions()
