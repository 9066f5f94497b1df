"""A note beside a run's file that says which signal ended its process, and where; the process cannot write more.

The process opens the file when the run begins and removes it when the run ends. Only the handler of a fatal signal
writes into it, by `faulthandler`: the stack of the thread, innermost frame first.
"""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from .code_places import OUR_FILES, is_library

__all__ = ["note_path", "read_note"]

_FRAME: Final = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<function>.*)$')
_FATAL: Final = "Fatal Python error: "
#: The file of torch's collectives, and the function that runs a backward pass, in which DDP calls them.
_COLLECTIVES: Final = "distributed_c10d.py"
_BACKWARD: Final = "_engine_run_backward"
#: The only signal whose handler writes no word of its own.
_ASKED: Final = "SIGTERM"


def note_path(url: str, run: str, rank: int) -> Path | None:
    """Return where the note of a rank lies; None for a store that is no folder."""
    return None if "://" in url or url == "memory:" else Path(url).expanduser() / f"{run}.rank{rank}.end"


def read_note(path: Path) -> str:
    """Return the signal, what of torch ran, and the script's line; empty without a note.

    As `SIGTERM at /home/me/train.py, line 7`, or `Aborted in all_reduce at /home/me/train.py, line 7`.
    """
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    if not lines:
        return ""
    signal = next((line.removeprefix(_FATAL) for line in lines if line.startswith(_FATAL)), _ASKED)
    return f"{signal}{_place(lines)}"


def _place(lines: Iterable[str]) -> str:
    """Return the innermost frame of the script in the first stack that has one, or the innermost that is not ours."""
    found = [(match["file"], match["line"], match["function"]) for line in lines if (match := _FRAME.match(line))]
    others = [frame for frame in found if not frame[0].startswith((*OUR_FILES, "<"))]
    own = [frame for frame in others if not is_library(frame[0])]
    for file, line, _ in own or others:
        above = found[: found.index(own[0])] if own else []
        return f"{_operation(above)} at {file}, line {line}"
    return ""


def _operation(frames: Sequence[tuple[str, str, str]]) -> str:
    """Return which collective, or that the backward pass, ran in the innermost of these frames; empty if neither."""
    for file, _, function in frames:
        if Path(file).name == _COLLECTIVES:
            return f" in {function}"
        if function == _BACKWARD:
            return " in backward"
    return ""
