"""Which versions of Spark have run what each must be able to do, and what each was found to lack.

``python -m tests.support.compatibility`` writes down the version that runs it, and is the last step
of `make compatibility`. The table of the documentation is written from that.
"""

from __future__ import annotations

import json
import platform
from pathlib import Path
from typing import Any, Final

import pyspark

from spark_segmentlog.spark import versions

_RUNS: Final = Path(__file__).with_name("compatibility.json")
_LACKS: Final = {
    "PUSHES_FILTERS": "pushes no filters",
    "HANDS_ARROW_TO_STREAM_SINKS": "hands the sink of a stream row by row, which is slower",
    "LIMITS_MICRO_BATCHES": "tells a stream no limits, so that a micro-batch takes all there is",
}


def record_run() -> None:
    """Write down that this Python has run this Spark."""
    runs = _runs()
    run = runs.setdefault(pyspark.__version__, {"python": []})
    python = ".".join(platform.python_version_tuple()[:2])
    run["python"] = sorted({*run["python"], python})
    run["lacks"] = [name for name in _LACKS if not getattr(versions, name)]
    _RUNS.write_text(json.dumps(dict(sorted(runs.items())), indent=2) + "\n")


def versions_that_ran() -> list[tuple[str, str, str]]:
    """List Spark's versions, the Pythons that ran each, and what each lacks in words."""
    return [
        (
            version,
            ", ".join(run["python"]),
            "; ".join(_LACKS[name] for name in run["lacks"]) or "nothing",
        )
        for version, run in _runs().items()
    ]


def lacks_of(version: str) -> list[str]:
    """List what a version that ran was found to lack, by the names in `spark.versions`."""
    return list(_runs()[version]["lacks"])


def _runs() -> dict[str, Any]:
    return dict(json.loads(_RUNS.read_text()))


if __name__ == "__main__":
    record_run()
