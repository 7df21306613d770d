"""What of a partition is dumped, and what an entry of a dump is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from spark_segmentlog.log.names import MAX_OFFSET, TopicPartition
from spark_segmentlog.record.layout import TimestampType
from spark_segmentlog.record.plain.batch import Record
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.read.record_filter import RecordFilter
from spark_segmentlog.record.types import Bools

Entry = dict[str, Any]


class BytesAs(StrEnum):
    """How keys and values are written."""

    TEXT = "text"
    HEX = "hex"
    BASE64 = "base64"


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpOptions:
    """What of a segment is given.

    Attributes
    ----------
    min_timestamp_ms, max_timestamp_ms : int or None
        Both inclusive: of records, or of batches as far as their headers tell.
    producer_ids : tuple of int
        Batches of these producers alone; of all where empty.
    records, include_control : bool
        Whether records are given, and those of control batches.
    decode : bool
        Whether it is told what the records of Kafka's own topics say.
    """

    start_offset: int = 0
    end_offset: int = MAX_OFFSET
    min_timestamp_ms: int | None = None
    max_timestamp_ms: int | None = None
    key: bytes | None = None
    producer_ids: tuple[int, ...] = ()
    records: bool = False
    decode: bool = False
    include_control: bool = False
    bytes_as: BytesAs = BytesAs.TEXT

    @property
    def record_filter(self) -> RecordFilter:
        """What is asked of a record, but for its key."""
        return RecordFilter(
            start_offset=self.start_offset,
            end_offset=self.end_offset,
            min_timestamp_ms=self.min_timestamp_ms,
            max_timestamp_ms=self.max_timestamp_ms,
        )

    @property
    def is_of_records(self) -> bool:
        """Whether a batch is given for its records alone, that is where one of them is wanted."""
        is_timed = self.min_timestamp_ms is not None or self.max_timestamp_ms is not None
        return self.records and (self.key is not None or is_timed)

    def chosen(self, table: HeaderTable) -> Bools:
        """Choose batches by their headers."""
        chosen: Bools = table.last_offset >= self.start_offset
        chosen &= table.base_offset < self.end_offset
        if self.producer_ids:
            chosen &= np.isin(table.producer_id, self.producer_ids)
        if self.min_timestamp_ms is not None:
            chosen &= table.max_timestamp >= self.min_timestamp_ms
        if self.max_timestamp_ms is not None:
            is_append_time = table.timestamp_type == TimestampType.LOG_APPEND_TIME
            is_first = is_append_time | (~table.has_delete_horizon & (not self.records))
            first = np.where(is_append_time, table.max_timestamp, table.base_timestamp)
            chosen &= ~is_first | (first <= self.max_timestamp_ms)
        return chosen

    def wants(self, record: Record) -> bool:
        """Tell whether a record is one that is asked for."""
        low, high = self.min_timestamp_ms, self.max_timestamp_ms
        return (
            self.start_offset <= record.offset < self.end_offset
            and (low is None or record.timestamp_ms >= low)
            and (high is None or record.timestamp_ms <= high)
            and (self.key is None or record.key == self.key)
        )


def place_of(topic_partition: TopicPartition, path: str) -> Entry:
    """Say of an entry where it is from."""
    return {
        "topic": topic_partition.topic,
        "partition": topic_partition.partition,
        "path": path,
    }
