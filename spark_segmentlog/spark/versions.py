"""What Spark's versions lack, from 4.0 on: found out here, and said once where it matters.

- before 4.1: no filters are pushed to a Python source, and the sink of a stream gets rows, not
  Arrow batches;
- before 4.2: a stream is told neither where a micro-batch starts nor how much it may take.
"""

from __future__ import annotations

import functools
import importlib.util
import inspect
import logging
from typing import TYPE_CHECKING, Final

import pyspark
from pyspark.sql import datasource

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

PUSHES_FILTERS: Final = hasattr(datasource, "Filter")
HANDS_ARROW_TO_STREAM_SINKS: Final = hasattr(datasource, "DataSourceStreamArrowWriter")
LIMITS_MICRO_BATCHES: Final = (
    importlib.util.find_spec("pyspark.sql.streaming.datasource") is not None
)
_log = logging.getLogger(__name__)


def to_arrow_schema(schema: StructType) -> pa.Schema:
    """Give the Arrow schema of Spark's; timestamps are in UTC."""
    # The daemon loads this module ahead, and must not load Arrow, which starts threads.
    from pyspark.sql.pandas import types

    if "timezone" in inspect.signature(types.to_arrow_schema).parameters:
        return types.to_arrow_schema(schema, timezone="UTC")
    return types.to_arrow_schema(schema)


def has_a_reader_for_each_scan() -> bool:
    """Tell whether predicates that narrow one scan of a load leave its other scans alone."""
    return int(pyspark.__version__.partition(".")[0]) >= 5


@functools.cache
def warn_of_lack(what: str, since: str) -> None:
    """Say once a process what this version of Spark cannot do."""
    _log.warning("Spark %s: %s; Spark %s and later can", pyspark.__version__, what, since)
