"""Calls that are noted on their way to what is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


def note_calls(
    patch: pytest.MonkeyPatch, owner: object, name: str, note: Callable[..., object]
) -> None:
    """Give the arguments of every call of ``owner.name`` to `note` first."""
    real = getattr(owner, name)

    def noted(*arguments: Any, **keywords: Any) -> Any:
        note(*arguments, **keywords)
        return real(*arguments, **keywords)

    patch.setattr(owner, name, noted)
