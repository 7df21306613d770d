"""Where the project and the data of its tests lie."""

from __future__ import annotations

from pathlib import Path
from typing import Final

PROJECT: Final = Path(__file__).parents[2]
DATA: Final = PROJECT / "tests" / "data"
