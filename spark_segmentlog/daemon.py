"""A daemon for Spark's Python workers that loads what they need before it forks them.

Set ``spark.python.daemon.module=spark_segmentlog.daemon``. A query that stops early (``show``,
``limit``) costs Spark its worker, and the next one would load numba and the kernels again. Here
they are loaded once. No kernel is run and pyarrow is not imported before the fork: neither's
threads would survive it.
"""

from __future__ import annotations

import gc
import logging

from pyspark import daemon


def preload() -> None:
    """Load numba, the compiled kernels and what else a reading task imports, but not pyarrow.

    Whatever cannot be loaded is left to the worker, which can tell the user why.
    """
    try:
        from spark_segmentlog.query import planning  # noqa: F401
        from spark_segmentlog.record.kernels.preload import load_cached_kernels
        from spark_segmentlog.spark import pushdown  # noqa: F401

        load_cached_kernels()
    except ImportError:
        logging.getLogger(__name__).warning("cannot load the reader ahead", exc_info=True)


def main() -> None:
    """Load, then serve workers as Spark's own daemon does."""
    preload()
    # Workers share these pages, and collect no garbage among them.
    gc.freeze()
    daemon.manager()


if __name__ == "__main__":
    main()
