"""The pages a user reads, and the fenced blocks in them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.support.project import PROJECT

DOCS: Final = PROJECT / "docs"
README: Final = PROJECT / "README.md"
CONTRIBUTING: Final = PROJECT / "CONTRIBUTING.md"
FORMS: Final = tuple(sorted(DOCS.rglob("*_TEMPLATE*/*.md"))) + tuple(DOCS.glob("*_TEMPLATE.md"))

_FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.DOTALL | re.MULTILINE)
_EXIT_CODE = re.compile(r"<!-- exit code (\d) -->\n\Z")


@dataclass(frozen=True, slots=True)
class Block:
    """One fenced block.

    Attributes
    ----------
    output : str or None
        What the block prints: the text of a ``text`` block that stands right below it.
    exit_code : int
        Of its commands, by a comment ``<!-- exit code 1 -->`` right above it.
    """

    kind: str
    text: str
    output: str | None
    exit_code: int


def site_pages() -> list[Path]:
    """List the pages of the site: all in docs/ but the forms of reports and changes."""
    return sorted(set(DOCS.glob("*.md")) - set(FORMS))


def pages() -> list[Path]:
    """List every page."""
    return [README, CONTRIBUTING, *site_pages()]


def blocks(text: str) -> list[Block]:
    """Take the fenced blocks out of a page, but for those that show the output of another."""
    fences = list(_FENCE.finditer(text))
    found: list[Block] = []
    is_output = False
    for place, fence in enumerate(fences):
        if is_output:
            is_output = False
            continue
        after = fences[place + 1] if place + 1 < len(fences) else None
        is_output = (
            fence["kind"] != "text"
            and after is not None
            and after["kind"] == "text"
            and not text[fence.end() : after.start()].strip()
        )
        exit_code = _EXIT_CODE.search(text[: fence.start()])
        found.append(
            Block(
                kind=fence["kind"],
                text=fence["text"],
                output=after["text"] if is_output and after is not None else None,
                exit_code=int(exit_code[1]) if exit_code else 0,
            )
        )
    return found


def sections(text: str, level: int) -> dict[str, str]:
    """Give what stands below each heading of a level, by the heading."""
    marks = "#" * level
    parts = re.split(rf"^{marks} (.+)$", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))
