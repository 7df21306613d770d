from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_logs.broker_data import BrokerLog, unpack


@pytest.fixture(scope="session")
def broker_log(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], BrokerLog]:
    """Unpacked log of a producer in a state, made once a session."""
    unpacked: dict[tuple[str, str], BrokerLog] = {}

    def get(producer: str, state: str) -> BrokerLog:
        if (producer, state) not in unpacked:
            target = tmp_path_factory.mktemp(f"{producer}-{state}")
            unpacked[producer, state] = unpack(producer, state, target)
        return unpacked[producer, state]

    return get
