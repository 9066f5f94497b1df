"""Passwords of addresses, which no message shows."""

import re
from typing import Final

_OF_A_USER: Final = re.compile(r"(?<=://)([^/@\s:]*):\S*@")
_IN_A_QUERY: Final = re.compile(r"([?&]\w*passw\w*=)[^&\s'\"]*", re.IGNORECASE)


def without_passwords(text: str) -> str:
    """A URL, or a sentence with URLs in it, with `***` where they have a password, well formed or not."""
    return _IN_A_QUERY.sub(r"\1***", _OF_A_USER.sub(r"\1:***@", text))
