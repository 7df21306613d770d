from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.broker import Broker, running_broker
from tests.interop.kafka_jars import KafkaJars, kafka_jars


@pytest.fixture(scope="session")
def jars() -> KafkaJars:
    return kafka_jars()


@pytest.fixture(scope="module")
def broker(jars: KafkaJars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One running broker a module, with two log directories."""
    directory: Path = tmp_path_factory.mktemp("broker")
    with running_broker(directory, jars) as running:
        yield running
