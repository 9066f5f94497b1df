"""The line of the user's code that is running."""

import sys
from types import FrameType
from typing import Final

from ..storage.code_places import OUR_FILES, is_library

__all__ = ["program_lines", "user_line"]

#: Lines of a stack that tell one call from another (our choice).
_MOST_LINES: Final = 12


def user_line(*foreign: str) -> tuple[str, int]:
    """Return file and line of the innermost frame that is neither ours nor in a `foreign` folder, else ("", 0)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((*OUR_FILES, *foreign, "<")):
            return name, frame.f_lineno
        frame = frame.f_back
    return "", 0


def program_lines() -> tuple[tuple[str, int], ...]:
    """Return file and line of the frames that are the program's own, innermost first, at most twelve."""
    found: list[tuple[str, int]] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and len(found) < _MOST_LINES:
        name = frame.f_code.co_filename
        if not name.startswith((*OUR_FILES, "<")) and not is_library(name):
            found.append((name, frame.f_lineno or 0))
        frame = frame.f_back
    return tuple(found)
