"""Byte layouts of Kafka's record formats 0, 1 and 2, each written once.

All numbers are big-endian. Every entry of a `.log` file, of whatever format, starts with an offset
(8 bytes) and a length (4 bytes, counting what follows it), and has its format number, the magic, in
byte 16: a file that holds several formats can be walked without knowing which.

Formats: https://kafka.apache.org/documentation/#recordbatch (2) and #messageset (0 and 1).
"""

from __future__ import annotations

import struct
from enum import IntEnum

# Common to all formats

OFFSET_OFFSET = 0
OFFSET_LENGTH = 8
SIZE_OFFSET = OFFSET_OFFSET + OFFSET_LENGTH
SIZE_LENGTH = 4
LOG_OVERHEAD = SIZE_OFFSET + SIZE_LENGTH
MAGIC_OFFSET = LOG_OVERHEAD + 4
MAGIC_LENGTH = 1
HEADER_SIZE_UP_TO_MAGIC = MAGIC_OFFSET + MAGIC_LENGTH

LOG_PREFIX = struct.Struct(">qi")

MAGIC_V0 = 0
MAGIC_V1 = 1
MAGIC_V2 = 2

assert LOG_PREFIX.size == LOG_OVERHEAD == 12
assert HEADER_SIZE_UP_TO_MAGIC == 17

# Sentinels

INT64_MAX = 2**63 - 1
NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
# After the largest int32 a producer counts on at 0.
SEQUENCES = 2**31
NO_PARTITION_LEADER_EPOCH = -1
NULL_LENGTH = -1

# Attributes: bits 0-2 codec, 3 timestamp type; of format 2 also 4 transactional, 5 control, 6
# delete horizon. Format 0 has no timestamp, so bit 3 means nothing there.

COMPRESSION_CODEC_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40


class TimestampType(IntEnum):
    """Who set a record's timestamp, numbered as Spark's Kafka source does."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1


# Format 2: a record batch
#
#   BaseOffset               int64
#   BatchLength              int32   bytes after this field
#   PartitionLeaderEpoch     int32   not covered by the CRC, as a broker stamps it (KAFKA-1449)
#   Magic                    int8    2
#   CRC                      uint32  CRC-32C over everything after this field
#   Attributes               int16
#   LastOffsetDelta          int32   stays when compaction removes the last record
#   BaseTimestamp            int64   with the delete-horizon bit it is that horizon
#   MaxTimestamp             int64
#   ProducerId               int64
#   ProducerEpoch            int16
#   BaseSequence             int32
#   RecordsCount             int32
#   Records                          compressed as one block where a codec is set

BATCH_LENGTH_OFFSET = SIZE_OFFSET
PARTITION_LEADER_EPOCH_OFFSET = LOG_OVERHEAD
PARTITION_LEADER_EPOCH_LENGTH = 4
CRC_OFFSET = MAGIC_OFFSET + MAGIC_LENGTH
CRC_LENGTH = 4
ATTRIBUTES_OFFSET = CRC_OFFSET + CRC_LENGTH
ATTRIBUTES_LENGTH = 2
LAST_OFFSET_DELTA_OFFSET = ATTRIBUTES_OFFSET + ATTRIBUTES_LENGTH
LAST_OFFSET_DELTA_LENGTH = 4
BASE_TIMESTAMP_OFFSET = LAST_OFFSET_DELTA_OFFSET + LAST_OFFSET_DELTA_LENGTH
BASE_TIMESTAMP_LENGTH = 8
MAX_TIMESTAMP_OFFSET = BASE_TIMESTAMP_OFFSET + BASE_TIMESTAMP_LENGTH
MAX_TIMESTAMP_LENGTH = 8
PRODUCER_ID_OFFSET = MAX_TIMESTAMP_OFFSET + MAX_TIMESTAMP_LENGTH
PRODUCER_ID_LENGTH = 8
PRODUCER_EPOCH_OFFSET = PRODUCER_ID_OFFSET + PRODUCER_ID_LENGTH
PRODUCER_EPOCH_LENGTH = 2
BASE_SEQUENCE_OFFSET = PRODUCER_EPOCH_OFFSET + PRODUCER_EPOCH_LENGTH
BASE_SEQUENCE_LENGTH = 4
RECORDS_COUNT_OFFSET = BASE_SEQUENCE_OFFSET + BASE_SEQUENCE_LENGTH
RECORDS_COUNT_LENGTH = 4
RECORDS_OFFSET = RECORDS_COUNT_OFFSET + RECORDS_COUNT_LENGTH

RECORD_BATCH_HEADER = struct.Struct(
    ">"
    "q"  # base offset
    "i"  # batch length
    "i"  # partition leader epoch
    "b"  # magic
    "I"  # crc
    "h"  # attributes
    "i"  # last offset delta
    "q"  # base timestamp
    "q"  # max timestamp
    "q"  # producer id
    "h"  # producer epoch
    "i"  # base sequence
    "i"  # records count
)

RECORD_BATCH_OVERHEAD = RECORDS_OFFSET
MIN_BATCH_LENGTH = RECORDS_OFFSET - LOG_OVERHEAD
# length, attributes, timestamp delta, offset delta, key length, value length, header count
MIN_RECORD_SIZE_BYTES = 7

assert CRC_OFFSET == 17
assert ATTRIBUTES_OFFSET == 21
assert RECORD_BATCH_HEADER.size == RECORDS_OFFSET == 61

# Formats 0 and 1: a message. A compressed one, the wrapper, holds messages of its own format in its
# value: their offsets are absolute in format 0, relative in format 1, and the wrapper's own offset
# is that of its last message.
#
#   Offset                   int64
#   MessageSize              int32   bytes after this field
#   CRC                      uint32  CRC-32 over everything after this field
#   Magic                    int8    0 or 1
#   Attributes               int8
#   Timestamp                int64   format 1 alone
#   Key                      int32 length, bytes
#   Value                    int32 length, bytes

LEGACY_CRC_OFFSET = LOG_OVERHEAD
LEGACY_ATTRIBUTES_OFFSET = MAGIC_OFFSET + MAGIC_LENGTH
LEGACY_ATTRIBUTES_LENGTH = 1
LEGACY_TIMESTAMP_OFFSET = LEGACY_ATTRIBUTES_OFFSET + LEGACY_ATTRIBUTES_LENGTH
LEGACY_TIMESTAMP_LENGTH = 8
LEGACY_KEY_OFFSET_V0 = LEGACY_TIMESTAMP_OFFSET
LEGACY_KEY_OFFSET_V1 = LEGACY_TIMESTAMP_OFFSET + LEGACY_TIMESTAMP_LENGTH

LEGACY_HEADER = struct.Struct(
    ">"
    "q"  # offset
    "i"  # message size
    "I"  # crc
    "b"  # magic
    "b"  # attributes
)
LEGACY_TIMESTAMP = struct.Struct(">q")
LEGACY_FIELD_LENGTH = struct.Struct(">i")

MIN_MESSAGE_SIZE_V0 = LEGACY_KEY_OFFSET_V0 - LOG_OVERHEAD + 2 * LEGACY_FIELD_LENGTH.size
MIN_MESSAGE_SIZE_V1 = LEGACY_KEY_OFFSET_V1 - LOG_OVERHEAD + 2 * LEGACY_FIELD_LENGTH.size

assert LEGACY_CRC_OFFSET + CRC_LENGTH == MAGIC_OFFSET
assert LEGACY_HEADER.size == LEGACY_TIMESTAMP_OFFSET == 18
assert (MIN_MESSAGE_SIZE_V0, MIN_MESSAGE_SIZE_V1) == (14, 22)
