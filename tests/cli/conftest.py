from __future__ import annotations

from tests.broker_logs.conftest import broker_log

__all__ = ["broker_log"]
