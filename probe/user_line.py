"""The line of the user's code that is running."""

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Final

__all__ = ["user_line"]

#: Folders of this package; examples and tests count as user code.
_ROOT: Final = Path(__file__).parents[1]  # not resolved: frames hold the same unresolved path
_OURS: Final = tuple(
    f"{_ROOT / folder}{os.sep}" for folder in ("framework", "probe", "storage", "insight", "armour", "cli")
)


def user_line(*foreign: str) -> tuple[str, int]:
    """Return file and line of the innermost frame that is neither ours nor in a `foreign` folder, else ("", 0)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((*_OURS, *foreign, "<")):
            return name, frame.f_lineno
        frame = frame.f_back
    return "", 0
