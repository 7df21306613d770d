"""Keeps what a Python worker has imported out of its garbage collections.

Spark's daemon has each of its workers collect garbage after every task. Walking numba's and
pyarrow's modules costs a worker about as long as decoding 32 MiB of batches; none of them is ever
garbage.
"""

from __future__ import annotations

import functools
import gc
import sys
from typing import Final, Literal

_DAEMONS: Final = ("pyspark.daemon", "spark_segmentlog.daemon")


@functools.cache
def freeze_worker_heap(work: Literal["plan", "read", "write"]) -> bool:
    """Take all that lives in this process from its collector, where Spark's daemon forked it.

    To be called when what some work needs is imported. It is done once for each kind of work, so
    that what other code leaves behind is collected as ever.

    Returns
    -------
    bool
        False in other processes, which are left alone.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    if spec is None or spec.name not in _DAEMONS:
        return False
    gc.freeze()
    return True
