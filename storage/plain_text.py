"""Text of others on one line of a terminal: without escape codes, and not too long."""

import re
from typing import Final

__all__ = ["one_line", "printable", "without_escapes"]

#: Control sequences of a terminal (ECMA-48): colours and cursor movements, titles, and other two-character ones.
_ESCAPES: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS: Final = re.compile(r"[\x00-\x08\x0e-\x1f\x7f]")


def printable(text: str) -> str:
    r"""Return the text as terminals and JSON take it: half a surrogate pair, which damaged bytes give, as `\udcce`."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def without_escapes(text: str) -> str:
    """Return the text without escape codes and control characters; line breaks and tabs stay."""
    return _CONTROLS.sub("", _ESCAPES.sub("", text))


def one_line(text: str, longest: int) -> str:
    """Return the text as one line without escape codes, cut behind `longest` characters."""
    words = " ".join(without_escapes(text).split())
    return words if len(words) <= longest else f"{words[:longest].rstrip()} ..."
