"""The logs that the pages' commands and code read, at the paths that they name."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from spark_segmentlog.testing.builder import (
    ABORT,
    COMMIT,
    LogBuilder,
    RecordSpec,
    control_batch,
    segment_file_name,
    v2_batch,
)
from spark_segmentlog.testing.system_records import offset_commit
from tests.support.broker_data import unpack as unpack_log
from tests.support.store_data import unpack

START_MS: Final = 1_739_260_800_000
DATA: Final = "/var/lib/kafka/data"
BACKUP: Final = "/backup/kafka"
TIERED: Final = "/srv/tiered"
SALVAGED: Final = ("/srv/salvaged", "/srv/rescued")
SCRATCH: Final = ("/data/kafka-logs", "/data/checkpoint", "/data/restored")
BROKER: Final = "/srv/kafka"
PATHS: Final = (BROKER, DATA, BACKUP, TIERED, *SALVAGED, *SCRATCH)


def make_logs(root: Path) -> None:
    """Make a broker's log directory below `root`, and a copy of it with bytes that went bad."""
    log = LogBuilder(f"{root}{DATA}")
    for partition in range(3):
        segments = [_orders(partition, first, 3) for first in (0, 3)]
        log.partition("orders", partition, segments)
    log.partition("payments", 0, [_payments()])
    log.partition("__consumer_offsets", 0, [_commits()])
    shutil.copytree(log.path, f"{root}{BACKUP}")
    log.partition("refunds", 0, [_orders(0, 0, 3)], directory_suffix=".5f0c7a-delete")
    bad = Path(f"{root}{BACKUP}", "orders-1", segment_file_name(0))
    data = bytearray(bad.read_bytes())
    data[-1] ^= 0xFF
    bad.write_bytes(data)
    unpack("local", Path(f"{root}{TIERED}"))


def make_broker(root: Path) -> None:
    """Put the log directories of a broker that was stopped below `root`."""
    log = unpack_log("kafka-4.3.1", "clean", root / "unpacked")
    Path(log.log_directories[0]).parent.rename(f"{root}{BROKER}")


def _orders(partition: int, first: int, count: int) -> list[bytes]:
    records = [
        RecordSpec(
            key=f"customer-{1 + (3 * offset + partition) % 4}".encode(),
            value=f'{{"order":{3 * offset + partition},"cents":{1990 + 250 * offset}}}'.encode(),
            timestamp_ms=START_MS + 60_000 * (3 * offset + partition),
            headers=[("source", b"web")] if offset % 2 else (),
        )
        for offset in range(first, first + count)
    ]
    return [v2_batch(records, base_offset=first)]


def _commits() -> list[bytes]:
    records = [
        offset_commit("billing", "orders", partition, offset, timestamp_ms=START_MS)
        for partition, offset in ((0, 1), (0, 4), (1, 6))
    ]
    return [v2_batch(records)]


def _payments() -> list[bytes]:
    def transaction(producer_id: int, base_offset: int, marker: int) -> list[bytes]:
        record = RecordSpec(value=b"paid", timestamp_ms=START_MS)
        data = v2_batch(
            [record],
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            transactional=True,
        )
        end = control_batch(
            marker,
            base_offset=base_offset + 1,
            producer_id=producer_id,
            producer_epoch=0,
            timestamp_ms=START_MS,
        )
        return [data, end]

    return [*transaction(1, 0, COMMIT), *transaction(2, 2, ABORT)]
