"""Whether the records of batches can be read: every one is looked at, and nothing made of it."""

from __future__ import annotations

from functools import cached_property

from spark_segmentlog.errors import CorruptRecordError
from spark_segmentlog.record.layout import MAGIC_V2
from spark_segmentlog.record.read.decoder import CheckWrapper, RecordDecoder
from spark_segmentlog.record.read.header_table import HeaderTable
from spark_segmentlog.record.read.record_filter import RecordFilter
from spark_segmentlog.record.types import Bytes

_NO_RECORD = RecordFilter(end_offset=0)


class RecordCheck:
    """Checks records of batches whose checksums were compared; for one thread at a time."""

    @cached_property
    def _batches(self) -> RecordDecoder:
        return _make_decoder(check_crcs=False)

    @cached_property
    def _messages(self) -> RecordDecoder:
        """The messages in a wrapper have checksums of their own."""
        return _make_decoder(check_crcs=True)

    def is_good(
        self,
        buffer: Bytes,
        table: HeaderTable,
        *,
        file_position: int,
        check_wrapper: CheckWrapper | None = None,
    ) -> bool:
        """Tell whether all records of a table can be read, those of markers left out.

        Parameters are those of `RecordDecoder.decode`, which tells what is wrong, and where.
        """
        decoder = self._batches if (table.magic == MAGIC_V2).all() else self._messages
        try:
            for _ in decoder.decode(
                buffer, table, file_position=file_position, check_wrapper=check_wrapper
            ):
                raise AssertionError("a record below offset 0")
        except CorruptRecordError:
            return False
        return True


def _make_decoder(*, check_crcs: bool) -> RecordDecoder:
    return RecordDecoder(
        (),
        topic="",
        partition=0,
        source="",
        record_filter=_NO_RECORD,
        check_crcs=check_crcs,
        validate_first=True,
    )
