"""The layouts agree with Kafka's own numbers."""

from __future__ import annotations

from spark_segmentlog.record import layout
from spark_segmentlog.record.plain.batch import RecordBatchHeader
from spark_segmentlog.testing.builder import RecordSpec, legacy_message, v2_batch


def test_header_fields_lie_where_kafka_has_them() -> None:
    # Constants of DefaultRecordBatch and LegacyRecord in Kafka's source.
    assert layout.MAGIC_OFFSET == 16
    assert layout.CRC_OFFSET == 17
    assert layout.ATTRIBUTES_OFFSET == 21
    assert layout.LAST_OFFSET_DELTA_OFFSET == 23
    assert layout.BASE_TIMESTAMP_OFFSET == 27
    assert layout.MAX_TIMESTAMP_OFFSET == 35
    assert layout.PRODUCER_ID_OFFSET == 43
    assert layout.PRODUCER_EPOCH_OFFSET == 51
    assert layout.BASE_SEQUENCE_OFFSET == 53
    assert layout.RECORDS_COUNT_OFFSET == 57
    assert layout.RECORDS_OFFSET == 61
    assert layout.LEGACY_KEY_OFFSET_V0 == 18
    assert layout.LEGACY_KEY_OFFSET_V1 == 26


def test_every_field_of_a_batch_header_is_read_from_its_place() -> None:
    data = v2_batch(
        [RecordSpec(value=b"v")],
        base_offset=1,
        attributes=0x0010,
        last_offset_delta=2,
        base_timestamp=3,
        max_timestamp=4,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        partition_leader_epoch=8,
        crc=9,
    )
    assert RecordBatchHeader.unpack(data) == RecordBatchHeader(
        base_offset=1,
        batch_length=len(data) - 12,
        partition_leader_epoch=8,
        magic=2,
        crc=9,
        attributes=0x10,
        last_offset_delta=2,
        base_timestamp=3,
        max_timestamp=4,
        producer_id=5,
        producer_epoch=6,
        base_sequence=7,
        records_count=1,
    )


def test_smallest_messages_have_the_sizes_that_are_allowed() -> None:
    assert len(legacy_message(0, offset=0)) - 12 == layout.MIN_MESSAGE_SIZE_V0
    assert len(legacy_message(1, offset=0)) - 12 == layout.MIN_MESSAGE_SIZE_V1
