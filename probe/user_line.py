"""The line of the user's code that is running."""

import sys
from types import FrameType

from ..storage.code_places import OUR_FILES

__all__ = ["user_line"]


def user_line(*foreign: str) -> tuple[str, int]:
    """Return file and line of the innermost frame that is neither ours nor in a `foreign` folder, else ("", 0)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((*OUR_FILES, *foreign, "<")):
            return name, frame.f_lineno
        frame = frame.f_back
    return "", 0
