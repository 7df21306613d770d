"""A daemon for Spark's Python workers that loads what they need before it forks them.

Set ``spark.python.daemon.module=spark_segmentlog.daemon``. A query that stops early (``show``,
``limit``) costs Spark its worker, and the next one would load numba and the kernels again. Here
they are loaded once; no kernel is run and no thread of pyarrow is started before the fork, since
neither survives it.
"""

from __future__ import annotations

import logging

from pyspark import daemon


def preload() -> None:
    """Import the modules that a reading task uses, numba and the compiled kernels among them.

    A module that cannot be loaded is left to the worker, which can tell the user why.
    """
    try:
        import spark_segmentlog.spark.batch_reader
        import spark_segmentlog.spark.datasource  # noqa: F401
    except ImportError:
        logging.getLogger(__name__).warning("cannot load the reader ahead", exc_info=True)


def main() -> None:
    """Load, then serve workers as Spark's own daemon does."""
    preload()
    daemon.manager()


if __name__ == "__main__":
    main()
