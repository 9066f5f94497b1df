"""The variables of a function that is running, read so that neither the function nor its memory notices."""

import sys
from types import FrameType
from typing import Final

#: The flag of code whose variables are not its namespace: that of functions, not of modules and classes.
_OPTIMIZED: Final = 0x1


def variables_of_function(frame: FrameType) -> dict[str, object]:
    """Return the variables of a function, empty for modules and classes, and where reading them would be noticed.

    Before Python 3.13 the interpreter keeps what was read until the function returns, tensors too; so it is emptied.
    """
    if not frame.f_code.co_flags & _OPTIMIZED or keeps_locals(frame):
        return {}
    found = dict(frame.f_locals)
    if sys.version_info < (3, 13):
        frame.f_locals.clear()  # reads them once more into the same dictionary, and empties that
    return found


def keeps_locals(frame: FrameType) -> bool:
    """Return whether the function may keep what `locals()` gave it, a dictionary that reading would fill anew."""
    return sys.version_info < (3, 13) and not {"locals", "vars"}.isdisjoint(frame.f_code.co_names)
