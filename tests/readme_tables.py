"""README's tables of options, between ``<!-- options: read -->`` and ``<!-- /options -->``.

``python -m tests.readme_tables`` writes them; a test compares.
"""

from __future__ import annotations

import re
from pathlib import Path

from spark_segmentlog.query.options import reading_options_markdown, writing_options_markdown

README = Path(__file__).parents[1] / "README.md"
TABLES = {"read": reading_options_markdown, "write": writing_options_markdown}
_PLACE = re.compile(r"(<!-- options: (\w+) -->\n).*?(<!-- /options -->)", re.DOTALL)


def with_tables(text: str) -> str:
    """Give README's text with its tables as the code has them."""
    return _PLACE.sub(lambda place: place[1] + TABLES[place[2]]() + place[3], text)


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text()))
