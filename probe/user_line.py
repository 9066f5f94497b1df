"""The line of the user's code that is running."""

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Final

__all__ = ["OUR_FILES", "user_line"]

_ROOT: Final = Path(__file__).parents[1]  # not resolved: frames hold the same unresolved path
#: How the paths of this package's code begin; in a checkout, examples, tests and benchmarks beside it are user code.
OUR_FILES: Final = (
    *(
        f"{_ROOT / folder}{os.sep}"
        for folder in ("framework", "probe", "storage", "insight", "armour", "cli", "callbacks", "dashboard")
    ),
    *(str(_ROOT / name) for name in ("__init__.py", "__main__.py", "spawned_process.py", "watching.py")),
)


def user_line(*foreign: str) -> tuple[str, int]:
    """Return file and line of the innermost frame that is neither ours nor in a `foreign` folder, else ("", 0)."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith((*OUR_FILES, *foreign, "<")):
            return name, frame.f_lineno
        frame = frame.f_back
    return "", 0
