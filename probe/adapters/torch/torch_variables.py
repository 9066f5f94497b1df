"""The functions of a script that are running, and the variables that they see."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Final

import torch

from ....storage.code_places import OUR_FILES
from ...frame_variables import variables_of_function

#: The folder of torch.
TORCH: Final = f"{Path(torch.__file__).parent}{os.sep}"


def variables_in_sight(is_wanted: Callable[[str], bool]) -> dict[str, object]:
    """Return the variables of the script's functions that are running, where any of a function has a wanted name.

    Of variables of one name, that of the innermost function is returned. Of the other functions none is read.
    """
    found: dict[str, object] = {}
    for frame in script_frames():
        code = frame.f_code
        own = (*code.co_varnames, *code.co_cellvars, *code.co_freevars)
        if any(map(is_wanted, list(frame.f_globals) if code.co_name == "<module>" else own)):
            found.update(variables_of(frame))
    return found


def script_frames() -> list[FrameType]:
    """Return the frames of the script, the outermost first."""
    frames: list[FrameType] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(OUR_FILES) and frame.f_code.co_name == "run_to_end":
            break
        if not name.startswith((*OUR_FILES, TORCH, "<frozen")):
            frames.append(frame)
        frame = frame.f_back
    return frames[::-1]


def variables_of(frame: FrameType) -> dict[str, object]:
    """Return the variables of the script that the frame sees: of its module, and its own."""
    scope = frame.f_globals if frame.f_code.co_filename == frame.f_globals.get("__file__") else {}
    own = variables_of_function(frame)
    return {**scope, **own} if is_the_scripts(frame) else own


def is_the_scripts(frame: FrameType) -> bool:
    """Return whether a frame runs what a person has written, and no installed package."""
    return "site-packages" not in frame.f_code.co_filename
