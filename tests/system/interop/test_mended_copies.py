"""A broker started on a mended copy serves the rows that verification called good.

Single faults of a real log are applied to a copy, which is recovered; then a broker starts on it.
``SEGMENTLOG_SEED`` repeats a run.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from spark_segmentlog import read_arrow
from spark_segmentlog.log.findings import FindingKind
from spark_segmentlog.log.upkeep.recovery import recover
from spark_segmentlog.log.upkeep.verification import verify
from tests.support.broker import Broker, ConsumedRecord
from tests.support.broker_data import unpack
from tests.support.fault_oracle import unknowable
from tests.support.kafka_jars import KafkaJars
from tests.support.single_faults import Fault, FaultSource, Original, open_original

pytestmark = pytest.mark.interop

PRODUCER = "kafka-4.3.1-java-transactions"
FAULTS = 20


@pytest.fixture(scope="module", params=["clean", "crashed"])
def originals(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> list[Original]:
    log = unpack(PRODUCER, request.param, tmp_path_factory.mktemp("original"))
    return [
        open_original(request.param, directory, path.name)
        for directory in map(Path, log.log_directories)
        for path in sorted(directory.glob("bank-*"))
    ]


def drawn(originals: list[Original], seed: int) -> list[tuple[Original, Fault]]:
    """Draw faults of a partition that recovery mends and a broker bears; one names its file."""
    found = []
    for original, fault in FaultSource(random.Random(seed), originals).faults():
        is_of_partition = fault.path.startswith(original.partition)
        is_index = fault.path.endswith((".index", ".timeindex", ".txnindex", ".log"))
        # No checksum covers a batch's leader epoch: recovery leaves it, and verify goes on telling.
        is_left = "foreign" in fault.kind or fault.kind == "flip leader epoch"
        is_mended = is_of_partition and is_index and not is_left
        if is_mended and not unknowable(original, fault):
            found.append((original, fault))
        if len(found) == FAULTS // 2:
            return found
    raise AssertionError("no end")


def read_rows(log_directories: list[str]) -> list[ConsumedRecord]:
    """Read what the library gives, in the terms of a consumer."""
    reader = read_arrow(
        log_directories,
        subscribe="bank",
        include_headers=True,
        mode="DROPMALFORMED",
        fail_on_data_loss=False,
    )
    return sorted(
        ConsumedRecord(
            row["topic"],
            row["partition"],
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["timestampType"],
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"])
            if row["headers"]
            else None,
        )
        for row in reader.read_all().to_pylist()
    )


@pytest.mark.timeout(1800)
def test_a_broker_serves_what_was_good_of_a_mended_copy(
    originals: list[Original], jars: KafkaJars, tmp_path: Path
) -> None:
    seed = int(os.environ.get("SEGMENTLOG_SEED", random.randrange(2**32)))
    print(f"SEGMENTLOG_SEED={seed}")
    for number, (original, fault) in enumerate(drawn(originals, seed)):
        folder = tmp_path / str(number)
        source = os.fspath(original.log_directory.parent)
        subprocess.run(["cp", "-a", "--sparse=always", source, os.fspath(folder)], check=True)
        fault.apply(folder / original.log_directory.name)
        copies = sorted(str(path) for path in folder.iterdir())
        recover(copies, truncate=True, delete_later=True, dry_run=False)
        context = f"seed {seed}, {original.name}, {fault}"
        # What is lost stays lost, and is told of.
        wrong = [
            finding
            for finding in verify(copies, deep=True)
            if not finding.is_harmless and finding.kind is not FindingKind.LOST_OFFSETS
        ]
        assert wrong == [], context
        good = read_rows(copies)
        with Broker(
            folder, jars, log_directory_names=[Path(path).name for path in copies]
        ) as broker:
            assert broker.consume(["bank"]) == good, context
        shutil.rmtree(folder)
