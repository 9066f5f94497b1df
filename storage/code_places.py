"""Tells by its path whose code a file holds: this package's, a library's, or the user's."""

import os
import re
import sysconfig
from pathlib import Path
from typing import Final

__all__ = ["OUR_FILES", "is_library"]

_ROOT: Final = Path(__file__).parents[1]  # not resolved: frames hold the same unresolved path
#: How the paths of this package's code begin; in a checkout, examples, tests and benchmarks beside it are user code.
OUR_FILES: Final = (
    *(
        f"{_ROOT / folder}{os.sep}"
        for folder in ("framework", "probe", "storage", "insight", "armour", "cli", "callbacks", "dashboard")
    ),
    *(str(_ROOT / name) for name in ("__init__.py", "__main__.py", "spawned_process.py", "watching.py")),
)
_FOLDERS: Final = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
#: The separator at the end keeps `/opt/lib` from holding `/opt/library/train.py`.
_LIBRARIES: Final = tuple(f"{path}{os.sep}" for folder in _FOLDERS for path in {folder, str(Path(folder).resolve())})
#: Where packages are installed, also those of another environment that has joined this one.
_INSTALLED: Final = re.compile(r"[/\\](?:site|dist)-packages[/\\]")


def is_library(path: str) -> bool:
    """Return whether the file belongs to Python or to an installed package."""
    return path.startswith(_LIBRARIES) or _INSTALLED.search(path) is not None
