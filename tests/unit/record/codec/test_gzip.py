"""Gzip members."""

from __future__ import annotations

import gzip

from spark_segmentlog.record.layout import MAGIC_V2
from spark_segmentlog.testing.builder import CODECS
from tests.support.blocks import decompress

TEXT = b"".join(b"value-%06d;" % number for number in range(30_000))  # 390 KB: many blocks


def test_several_gzip_members_are_one_block() -> None:
    block = gzip.compress(TEXT[:10]) + gzip.compress(TEXT[10:20])
    assert decompress(CODECS["gzip"], block, magic=MAGIC_V2) == TEXT[:20]
