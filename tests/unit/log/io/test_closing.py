"""What closes at the end of a ``with`` block."""

from __future__ import annotations

import pytest

from spark_segmentlog.log.io.closing import Closing


class Noted(Closing):
    """Counts how often it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_a_block_closes_what_it_opened_and_lets_errors_through() -> None:
    thing = Noted()
    with thing as opened:
        assert opened is thing
        assert thing.closed == 0
    assert thing.closed == 1
    with pytest.raises(ValueError, match="x"), thing:
        raise ValueError("x")
    assert thing.closed == 2
