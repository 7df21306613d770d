"""Loads compiled kernels ahead of their first call, for a process that will fork workers.

Only what numba's cache holds is loaded: nothing is compiled here, no kernel runs and no thread
starts, so that a fork afterwards is safe.
"""

from __future__ import annotations

import logging
import pickle
from typing import Any

from numba.core.registry import cpu_target

from spark_segmentlog.record.codec import codec_kernels
from spark_segmentlog.record.kernels import (
    checksum,
    decode,
    headers,
    messages,
    output,
    producers,
    records,
    search,
    wrappers,
)

_log = logging.getLogger(__name__)
_CACHE_ERRORS = (OSError, EOFError, pickle.PickleError, AttributeError, ImportError, LookupError)


def load_cached_kernels() -> int:
    """Load the decoding kernels from the cache.

    Returns
    -------
    int
        How many were loaded; what the cache lacks is compiled at its first call.
    """
    modules = (
        codec_kernels,
        checksum,
        headers,
        search,
        records,
        messages,
        output,
        decode,
        producers,
        wrappers,
    )
    named = {
        value
        for module in modules
        for value in vars(module).values()
        if hasattr(value, "overloads")
    }
    return sum(_load(value) for value in named)


def _load(dispatcher: Any) -> int:
    loaded = 0
    try:
        for signature in dispatcher._cache.signatures():
            compiled = dispatcher._cache.load_overload(signature, cpu_target.target_context)
            if compiled is not None and signature not in dispatcher.overloads:
                # Without this, a kernel that is compiled later cannot call this one.
                cpu_target.target_context.insert_user_function(
                    compiled.entry_point, compiled.fndesc, [compiled.library]
                )
                dispatcher.add_overload(compiled)
                loaded += 1
    except _CACHE_ERRORS as error:
        _log.debug("kernel %s is not loaded ahead: %s", dispatcher, error)
    return loaded
