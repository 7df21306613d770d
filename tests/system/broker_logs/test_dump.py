"""Every batch header of the clean logs equals what ``kafka-dump-log`` printed for it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import PurePath
from typing import Any

import pytest

from spark_segmentlog import read_arrow
from tests.support.broker_data import BrokerLog

BATCH = re.compile(
    r"baseOffset: (?P<base_offset>\d+) lastOffset: (?P<last_offset>\d+) count: (?P<count>\d+) "
    r"baseSequence: (?P<base_sequence>-?\d+) lastSequence: -?\d+ "
    r"producerId: (?P<producer_id>-?\d+) producerEpoch: (?P<producer_epoch>-?\d+) "
    r"partitionLeaderEpoch: (?P<leader_epoch>-?\d+) isTransactional: (?P<transactional>\w+) "
    r"isControl: (?P<control>\w+) (?:deleteHorizonMs: \S+ )?position: (?P<position>\d+) "
    r"(?P<type>\w+): (?P<timestamp>-?\d+) size: (?P<size>\d+) magic: (?P<magic>\d+) "
    r"compresscodec: (?P<codec>\w+) crc: (?P<crc>\d+) isvalid: true"
)
PRODUCERS = ("kafka-4.3.1", "kafka-4.3.1-java-transactions")


def _dumped(dump: str) -> dict[tuple[str, str, int], tuple[Any, ...]]:
    batches = {}
    for line in dump.splitlines():
        if line.startswith("Dumping "):
            path = PurePath(line.removeprefix("Dumping "))
        elif match := BATCH.match(line):
            numbers = {k: int(v) for k, v in match.groupdict().items() if v.lstrip("-").isdigit()}
            batches[path.parent.name, path.name, numbers["position"]] = (
                numbers["base_offset"],
                numbers["last_offset"],
                numbers["count"],
                numbers["size"],
                numbers["magic"],
                match["codec"].lower(),
                numbers["timestamp"],
                numbers["producer_id"],
                numbers["producer_epoch"],
                numbers["base_sequence"],
                numbers["leader_epoch"],
                match["transactional"] == "true",
                match["control"] == "true",
                numbers["crc"],
            )
    return batches


def _read(paths: tuple[str, ...], topics: set[str]) -> dict[tuple[str, str, int], tuple[Any, ...]]:
    batches = {}
    table = read_arrow(list(paths), view="batches", subscribe=sorted(topics)).read_all()
    for row in table.to_pylist():
        path = PurePath(row["path"])
        batches[path.parent.name, path.name, row["position"]] = (
            row["baseOffset"],
            row["lastOffset"],
            row["recordCount"],
            row["sizeBytes"],
            row["magic"],
            row["codec"],
            row["maxTimestampMs"],
            row["producerId"],
            row["producerEpoch"],
            row["baseSequence"],
            row["partitionLeaderEpoch"],
            row["isTransactional"],
            row["isControl"],
            row["crc"],
        )
    return batches


@pytest.mark.parametrize("producer", PRODUCERS)
def test_every_batch_header_from_the_log_start_on_equals_the_dump(
    broker_log: Callable[[str, str], BrokerLog], producer: str
) -> None:
    log = broker_log(producer, "clean")
    dumped = _dumped(log.dump())
    watermarks = log.watermarks("read_uncommitted")
    topics = {partition.rpartition("-")[0] for partition, _, _ in dumped}
    starts = {f"{topic}-{partition}": low for (topic, partition), (low, _) in watermarks.items()}
    live = {place: batch for place, batch in dumped.items() if batch[1] >= starts.get(place[0], 0)}
    assert len(live) > 100
    assert _read(log.log_directories, topics) == live
