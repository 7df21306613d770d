"""Messages of ordinary wrappers of formats 0 and 1, listed for the kernel that decodes them."""

from __future__ import annotations

from spark_segmentlog.record.header_fields import (
    ATTRIBUTES,
    BASE_OFFSET,
    LAST_OFFSET,
    MAGIC,
    MAX_TIMESTAMP,
    POSITION,
    SIZE_BYTES,
)
from spark_segmentlog.record.jit import kernel
from spark_segmentlog.record.kernels.decode import (
    MESSAGE_END,
    MESSAGE_OFFSET,
    MESSAGE_ROW,
    MESSAGE_START,
    MESSAGE_TIMESTAMP,
    MESSAGE_TIMESTAMP_TYPE,
)
from spark_segmentlog.record.kernels.headers import SCAN_END, scan_entries
from spark_segmentlog.record.kernels.messages import inner_entries_are_good
from spark_segmentlog.record.layout import TIMESTAMP_TYPE_MASK
from spark_segmentlog.record.types import Bytes, Int64s


@kernel
def list_wrapped(
    data: Bytes,
    spans: Int64s,
    table: Int64s,
    rows: Int64s,
    check_crcs: bool,
    inner: Int64s,
    messages: Int64s,
) -> tuple[int, int]:
    """List the messages of wrappers, up to the first wrapper that is not ordinary.

    An ordinary one is good, its messages are in order, fit into what is left of `messages`, and
    have the offsets that the header makes one expect.

    Parameters
    ----------
    data, spans
        The decompressed blocks, and the start and end of each.
    table, rows
        Header table of the wrappers, and the row of each.
    inner
        Memory for the headers of one wrapper's messages.
    messages
        Written, as `decode.decode_messages` takes them.

    Returns
    -------
    tuple of (int, int)
        Number of wrappers, and of messages.
    """
    total = 0
    for index in range(len(spans)):
        header = table[rows[index]]
        count, _, stop, _, unordered = scan_entries(
            data, spans[index, 0], spans[index, 1], 0, 0, inner
        )
        if stop != SCAN_END or count == 0 or unordered >= 0 or total + count > len(messages):
            return index, total
        entries = inner[:count]
        # Offsets of format 1 count from the last message, which has the wrapper's; those of format
        # 0 are the messages' own.
        base_offset = header[LAST_OFFSET] - entries[count - 1, LAST_OFFSET]
        if (
            base_offset < 0
            or (base_offset > 0 and header[MAGIC] == 0)
            or base_offset + entries[0, BASE_OFFSET] != header[BASE_OFFSET]
            or not inner_entries_are_good(data, entries, header[MAGIC], check_crcs)
        ):
            return index, total
        is_append_time = header[ATTRIBUTES] & TIMESTAMP_TYPE_MASK != 0
        timestamp_type = is_append_time if header[MAGIC] == 1 else -1
        for i in range(count):
            message = messages[total + i]
            message[MESSAGE_ROW] = rows[index]
            message[MESSAGE_START] = entries[i, POSITION]
            message[MESSAGE_END] = entries[i, POSITION] + entries[i, SIZE_BYTES]
            message[MESSAGE_OFFSET] = base_offset + entries[i, LAST_OFFSET]
            message[MESSAGE_TIMESTAMP] = entries[i, MAX_TIMESTAMP]
            if timestamp_type == 1:
                message[MESSAGE_TIMESTAMP] = header[MAX_TIMESTAMP]
            message[MESSAGE_TIMESTAMP_TYPE] = timestamp_type
        total += count
    return len(spans), total
