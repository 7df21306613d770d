"""Read and write Kafka's on-disk log with Spark, without a broker."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spark_segmentlog import errors
    from spark_segmentlog.errors import SegmentLogError
    from spark_segmentlog.log.write.local_log import open_log
    from spark_segmentlog.query.lag import lag
    from spark_segmentlog.query.read_arrow import read_arrow
    from spark_segmentlog.spark.datasource import register

__all__ = ["SegmentLogError", "errors", "lag", "open_log", "read_arrow", "register"]

# Each name is loaded when it is used, so that Arrow alone needs no Spark, and Spark's look-up of
# sources no compiler.
_HOMES = {
    "SegmentLogError": "spark_segmentlog.errors",
    "lag": "spark_segmentlog.query.lag",
    "open_log": "spark_segmentlog.log.write.local_log",
    "read_arrow": "spark_segmentlog.query.read_arrow",
    "register": "spark_segmentlog.spark.datasource",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return importlib.import_module("spark_segmentlog.errors")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
