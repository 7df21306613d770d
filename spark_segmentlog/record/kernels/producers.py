"""Compiled loops that follow producers and their transactions through tables of headers.

The rules of `kernels` hold. `follow_producers` is a state machine that comes back where its arrays
are full or an entry needs a look by plain code, and is called again from there. What its states
mean is told in `spark_segmentlog.log.transactions.producer_tracker`.
"""

from __future__ import annotations

from spark_segmentlog.record.header_fields import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    LAST_OFFSET,
    MAGIC,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORDS_COUNT,
    SIZE_BYTES,
)
from spark_segmentlog.record.jit import inlined, int64, kernel, load_be32, uint64
from spark_segmentlog.record.kernels.checksum import entry_crc_is_good
from spark_segmentlog.record.layout import (
    CONTROL_MASK,
    RECORDS_OFFSET,
    SEQUENCES,
    TRANSACTIONAL_MASK,
)
from spark_segmentlog.record.plain.control import ControlRecordType
from spark_segmentlog.record.types import Bools, Bytes, Int64s

# One producer, a row of a hash table: its state, and its transaction, where one is open.

(
    IS_USED,
    IS_KNOWN,
    ID,
    EPOCH,
    LAST_SEQUENCE,
    LAST_DATA_OFFSET,
    OFFSET_DELTA,
    LAST_TIMESTAMP,
    COORDINATOR_EPOCH,
    FIRST_OPEN_OFFSET,
    LAST_OPEN_OFFSET,
    OPEN_EPOCH,
    OPEN_RECORDS,
) = range(13)
PRODUCER_FIELDS = 13

# One transaction that has ended.

(
    ENDED_ID,
    ENDED_EPOCH,
    ENDED_FIRST_OFFSET,
    ENDED_LAST_OFFSET,
    ENDED_RECORDS,
    ENDED_TYPE,
    ENDED_COORDINATOR_EPOCH,
    ENDED_MARKER_OFFSET,
    ENDED_STABLE_OFFSET,
) = range(9)
ENDED_FIELDS = 9

# Where a follower is, kept between calls; the type of a marker is NOT_READ where nobody read it.

(
    NEXT_ROW,
    ENDED_COUNT,
    PRODUCERS_COUNT,
    BEGUN_FIRST,
    BEGUN_COUNT,
    HAS_TRANSACTIONS,
    MARKER_TYPE,
    MARKER_EPOCH,
) = range(8)
STATE_FIELDS = 8
NOT_READ = -1

# What a follower is to do, one flag each.

CHECK_CRCS, SKIP_CORRUPT, TRANSACTIONS_ONLY, ABORTED_ONLY = range(4)
SETTINGS = 4

# Why a follower came back.

FOLLOWED, PRODUCERS_FULL, BEGUN_FULL, ENDED_FULL, ODD_MARKER, BAD_ENTRY, NOT_INSIDE = range(7)

# Types of the markers that end transactions; any larger one ends none.

ABORT, COMMIT = int(ControlRecordType.ABORT), int(ControlRecordType.COMMIT)
OTHER_MARKER = COMMIT + 1

# A marker as brokers write it: one record, its key a version and a type, its value a version and
# an epoch. Lengths are zigzag varints.

_MARKER_BYTES = 17
_KEY_LENGTH_OFFSET = 4
_KEY_LENGTH = 2 * 4
_TYPE_OFFSET = 7
_VALUE_LENGTH_OFFSET = 9
_VALUE_LENGTH = 2 * 6
_MARKER_EPOCH_OFFSET = 12

NO_OFFSET = -1


@inlined
def _slot_of(producer_id: int) -> int:
    mixed = uint64(producer_id) * uint64(0x9E3779B97F4A7C15)
    return int64(mixed >> uint64(33))


@inlined
def _find(producers: Int64s, producer_id: int) -> int:
    """Give the slot of a producer, or the empty one where it may be put."""
    mask = len(producers) - 1
    at = _slot_of(producer_id) & mask
    for _ in range(len(producers)):
        if producers[at, IS_USED] == 0 or producers[at, ID] == producer_id:
            break
        at = (at + 1) & mask
    return at


@kernel
def put_producers(rows: Int64s, producers: Int64s) -> None:
    """Put rows of other producers into an empty table, a power of two and more than they are."""
    for i in range(min(len(rows), len(producers))):
        producer = producers[_find(producers, rows[i, ID])]
        for field in range(PRODUCER_FIELDS):
            producer[field] = rows[i, field]


@inlined
def _usual_marker_type(buffer: Bytes, start: int, end: int) -> int:
    """Give the type of the marker in buffer[start:end]; NOT_READ where it is not the usual one."""
    record = start + RECORDS_OFFSET
    if (
        end - record != _MARKER_BYTES
        or buffer[record + 2] != 0
        or buffer[record + 3] != 0
        or buffer[record + _KEY_LENGTH_OFFSET] != _KEY_LENGTH
        or buffer[record + _VALUE_LENGTH_OFFSET] != _VALUE_LENGTH
    ):
        return NOT_READ
    marker_type = int64(buffer[record + _TYPE_OFFSET]) << 8 | buffer[record + _TYPE_OFFSET + 1]
    return marker_type if marker_type <= COMMIT else NOT_READ


@kernel
def read_usual_markers(
    buffer: Bytes, table: Int64s, rows: Int64s, file_position: int, types: Int64s, epochs: Int64s
) -> None:
    """Read the markers at rows of a table that lie in the buffer; NOT_READ where one is unusual."""
    for i in range(min(len(rows), len(types), len(epochs))):
        start = table[rows[i], POSITION] - file_position
        types[i] = _usual_marker_type(buffer, start, start + table[rows[i], SIZE_BYTES])
        if types[i] != NOT_READ:
            epochs[i] = load_be32(buffer, start + RECORDS_OFFSET + _MARKER_EPOCH_OFFSET)


@inlined
def _note(producer: Int64s, epoch: int, timestamp: int) -> None:
    """Note that a producer wrote; with a new epoch its sequences begin again."""
    if producer[IS_KNOWN] == 0 or producer[EPOCH] != epoch:
        if producer[IS_KNOWN] == 0:
            producer[COORDINATOR_EPOCH] = -1
        producer[IS_KNOWN] = 1
        producer[EPOCH] = epoch
        producer[LAST_SEQUENCE] = -1
        producer[LAST_DATA_OFFSET] = NO_OFFSET
        producer[OFFSET_DELTA] = 0
    producer[LAST_TIMESTAMP] = timestamp


@inlined
def _note_data(producer: Int64s, row: Int64s) -> None:
    _note(producer, row[PRODUCER_EPOCH], row[MAX_TIMESTAMP])
    delta = row[LAST_OFFSET] - row[BASE_OFFSET]
    producer[LAST_DATA_OFFSET] = row[LAST_OFFSET]
    producer[OFFSET_DELTA] = delta
    sequence = row[BASE_SEQUENCE]
    # Sequences wrap around to 0 after the largest 31-bit number.
    producer[LAST_SEQUENCE] = (sequence + delta) & (SEQUENCES - 1) if sequence >= 0 else sequence


@inlined
def _is_open(producers: Int64s, begun: Int64s) -> bool:
    found = producers[_find(producers, begun[0])]
    is_open: bool = found[IS_USED] != 0 and found[FIRST_OPEN_OFFSET] == begun[1]
    return is_open


@inlined
def _stable_offset(producers: Int64s, begun: Int64s, state: Int64s, marker_offset: int) -> int:
    """Give the first offset of the oldest transaction that is open after a marker."""
    while state[BEGUN_FIRST] < state[BEGUN_COUNT]:
        if _is_open(producers, begun[state[BEGUN_FIRST]]):
            oldest: int = begun[state[BEGUN_FIRST], 1]
            return oldest
        state[BEGUN_FIRST] += 1
    return marker_offset + 1


@kernel
def keep_open(producers: Int64s, begun: Int64s, first: int, count: int) -> int:
    """Move those of begun[first:count] that are open to the front; gives their number."""
    kept = 0
    for i in range(first, min(count, len(begun))):
        if _is_open(producers, begun[i]):
            begun[kept, 0] = begun[i, 0]
            begun[kept, 1] = begun[i, 1]
            kept += 1
    return kept


@inlined
def _may_be_marker(row: Int64s, is_chosen: bool, has_transactions: bool) -> bool:
    """Whether one flipped bit may have made this entry of a marker.

    Data of a transaction has sequences, a marker is part of one, and entries of older formats do
    not follow transactions.
    """
    if row[MAGIC] != 2:
        return has_transactions
    if row[ATTRIBUTES] & CONTROL_MASK != 0:
        return True
    is_transactional = row[ATTRIBUTES] & TRANSACTIONAL_MASK != 0
    return is_chosen and is_transactional and row[BASE_SEQUENCE] < 0


@inlined
def _find_or_put(producers: Int64s, state: Int64s, producer_id: int) -> Int64s:
    """Give the row of a producer; the table has room for a new one."""
    producer: Int64s = producers[_find(producers, producer_id)]
    if producer[IS_USED] == 0:
        producer[IS_USED] = 1
        producer[IS_KNOWN] = 0
        producer[ID] = producer_id
        producer[FIRST_OPEN_OFFSET] = NO_OFFSET
        state[PRODUCERS_COUNT] += 1
    return producer


@inlined
def _begin(producer: Int64s, row: Int64s) -> None:
    producer[FIRST_OPEN_OFFSET] = row[BASE_OFFSET]
    producer[OPEN_EPOCH] = row[PRODUCER_EPOCH]
    producer[OPEN_RECORDS] = 0


@inlined
def _put_ended(
    transaction: Int64s, producer: Int64s, marker_type: int, marker_epoch: int, marker_offset: int
) -> None:
    transaction[ENDED_ID] = producer[ID]
    transaction[ENDED_EPOCH] = producer[OPEN_EPOCH]
    transaction[ENDED_FIRST_OFFSET] = producer[FIRST_OPEN_OFFSET]
    transaction[ENDED_LAST_OFFSET] = producer[LAST_OPEN_OFFSET]
    transaction[ENDED_RECORDS] = producer[OPEN_RECORDS]
    transaction[ENDED_TYPE] = marker_type
    transaction[ENDED_COORDINATOR_EPOCH] = marker_epoch
    transaction[ENDED_MARKER_OFFSET] = marker_offset


@kernel
def follow_producers(
    table: Int64s,
    buffer: Bytes,
    file_position: int,
    floor: int,
    from_offset: int,
    settings: Bools,
    state: Int64s,
    producers: Int64s,
    begun: Int64s,
    ended: Int64s,
) -> int:
    """Follow the rows of a header table from state[NEXT_ROW] on; says why it came back.

    Rows that end below `floor` or begin below `from_offset` are left out. `producers` is a power of
    two, never more than half full. `begun` holds the producer and first offset of transactions in
    the order in which they began, those that are open among them; only without ABORTED_ONLY.
    """
    for i in range(state[NEXT_ROW], len(table)):
        state[NEXT_ROW] = i
        row = table[i]
        if row[LAST_OFFSET] < floor or row[BASE_OFFSET] < from_offset:
            continue
        flags = row[ATTRIBUTES] if row[MAGIC] == 2 else 0
        is_transactional = flags & TRANSACTIONAL_MASK != 0
        is_control = flags & CONTROL_MASK != 0
        is_chosen = row[MAGIC] == 2 and row[PRODUCER_ID] >= 0
        if settings[TRANSACTIONS_ONLY]:
            is_chosen = is_transactional
        start = row[POSITION] - file_position
        end = start + row[SIZE_BYTES]
        is_looked_at = _may_be_marker(row, is_chosen, state[HAS_TRANSACTIONS] != 0)
        if (is_looked_at or (settings[SKIP_CORRUPT] and is_chosen)) and (
            state[MARKER_TYPE] == NOT_READ
        ):
            if start < 0 or end > len(buffer):
                return NOT_INSIDE
            if settings[CHECK_CRCS] and not entry_crc_is_good(buffer, start, end):
                if settings[SKIP_CORRUPT]:
                    continue
                return BAD_ENTRY
        is_emptied_marker = is_control and row[RECORDS_COUNT] == 0
        if not is_chosen or (is_emptied_marker and settings[TRANSACTIONS_ONLY]):
            continue
        if 2 * state[PRODUCERS_COUNT] >= len(producers):
            return PRODUCERS_FULL
        if is_emptied_marker:
            producer = _find_or_put(producers, state, row[PRODUCER_ID])
            _note(producer, row[PRODUCER_EPOCH], row[MAX_TIMESTAMP])
            continue
        if is_control and state[ENDED_COUNT] == len(ended):
            return ENDED_FULL
        if not settings[ABORTED_ONLY] and state[BEGUN_COUNT] == len(begun):
            return BEGUN_FULL
        marker_type = state[MARKER_TYPE]
        marker_epoch = state[MARKER_EPOCH]
        state[MARKER_TYPE] = NOT_READ
        if is_control and marker_type == NOT_READ:
            marker_type = _usual_marker_type(buffer, start, end)
            if marker_type == NOT_READ:
                return ODD_MARKER
            marker_epoch = load_be32(buffer, start + RECORDS_OFFSET + _MARKER_EPOCH_OFFSET)
        if is_control and marker_type > COMMIT:
            continue
        producer = _find_or_put(producers, state, row[PRODUCER_ID])
        if is_control:
            if not settings[TRANSACTIONS_ONLY]:
                _note(producer, row[PRODUCER_EPOCH], row[MAX_TIMESTAMP])
                producer[COORDINATOR_EPOCH] = marker_epoch
            if producer[FIRST_OPEN_OFFSET] == NO_OFFSET:
                continue
            transaction = ended[state[ENDED_COUNT]]
            _put_ended(transaction, producer, marker_type, marker_epoch, row[BASE_OFFSET])
            producer[FIRST_OPEN_OFFSET] = NO_OFFSET
            if marker_type == ABORT or not settings[ABORTED_ONLY]:
                state[ENDED_COUNT] += 1
                transaction[ENDED_STABLE_OFFSET] = _stable_offset(
                    producers, begun, state, row[BASE_OFFSET]
                )
            continue
        if not settings[TRANSACTIONS_ONLY]:
            _note_data(producer, row)
        if is_transactional:
            state[HAS_TRANSACTIONS] = 1
            if producer[FIRST_OPEN_OFFSET] == NO_OFFSET:
                _begin(producer, row)
                if not settings[ABORTED_ONLY]:
                    begun[state[BEGUN_COUNT], 0] = row[PRODUCER_ID]
                    begun[state[BEGUN_COUNT], 1] = row[BASE_OFFSET]
                    state[BEGUN_COUNT] += 1
            producer[LAST_OPEN_OFFSET] = row[LAST_OFFSET]
            producer[OPEN_RECORDS] += row[RECORDS_COUNT]
    state[NEXT_ROW] = len(table)
    return FOLLOWED


@inlined
def _last_below(table: Int64s, start: int, end: int, offset: int) -> int:
    """Give the last of the rows [start, end) that begins below an offset, as the first one does."""
    low, high = start, end
    while high - low > 1:
        middle = (low + high) // 2
        if table[middle, BASE_OFFSET] < offset:
            low = middle
        else:
            high = middle
    return low


@kernel
def mark_uncommitted(
    table: Int64s,
    producer_ids: Int64s,
    first_offsets: Int64s,
    end_offsets: Int64s,
    slots: Int64s,
    marked: Bools,
) -> None:
    """Mark the rows of a table, in the order of their offsets, whose batches are not committed.

    Transactions that are not committed come in the order of their first offsets. `slots` are zeros,
    a power of two of them, more than twice the transactions. `marked` is cleared first.
    """
    mask = len(slots) - 1
    following = 0
    begun_end = 0
    count = min(len(table), len(marked))
    marked[:count] = False
    i = -1
    while i + 1 < count:
        i += 1
        row = table[i]
        if row[BASE_OFFSET] >= begun_end:
            # None has begun that has not ended: the next one begins farther on.
            if following == len(first_offsets):
                return
            if row[BASE_OFFSET] < first_offsets[following]:
                i = _last_below(table, i, count, first_offsets[following])
                continue
        if row[MAGIC] != 2 or row[ATTRIBUTES] & TRANSACTIONAL_MASK == 0:
            continue
        while following < len(first_offsets) and first_offsets[following] <= row[BASE_OFFSET]:
            at = _slot_of(producer_ids[following]) & mask
            while slots[at] != 0 and producer_ids[slots[at] - 1] != producer_ids[following]:
                at = (at + 1) & mask
            begun_end = max(begun_end, end_offsets[following])
            following += 1
            slots[at] = following
        at = _slot_of(row[PRODUCER_ID]) & mask
        while slots[at] != 0 and producer_ids[slots[at] - 1] != row[PRODUCER_ID]:
            at = (at + 1) & mask
        marked[i] = slots[at] != 0 and row[BASE_OFFSET] < end_offsets[slots[at] - 1]
