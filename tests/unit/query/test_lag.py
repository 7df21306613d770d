"""One name for how far queries and groups are behind."""

from __future__ import annotations

import pytest

from spark_segmentlog import lag
from spark_segmentlog.query.progress import Lag, stream_lag


def test_progress_of_a_query_that_has_none_is_refused() -> None:
    with pytest.raises(TypeError, match="lastProgress is None"):
        stream_lag(None)


def test_the_progress_of_a_stream_is_told_from_a_path() -> None:
    progress = '{"sources": [{"endOffset": {"t": {"0": 3}}, "latestOffset": {"t": {"0": 5}}}]}'
    found = lag(progress)
    assert isinstance(found, Lag)
    assert found.partitions == {"t": {0: 2}}
    with pytest.raises(TypeError):
        lag(None)  # type: ignore[call-overload]
