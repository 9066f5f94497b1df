"""Spans of time as people write them: `30d`, `2w`, `12h`, `45m`."""

import re
from typing import Final

__all__ = ["seconds_of"]

_SPAN: Final = re.compile(r"(?P<count>\d{1,9}(\.\d+)?)\s*(?P<unit>[wdhm])")
_SECONDS: Final = {"w": 7 * 86400.0, "d": 86400.0, "h": 3600.0, "m": 60.0}


def seconds_of(text: str) -> float:
    """Return the seconds of a span of time.

    Raises:
        ValueError: It is none, or zero.
    """
    match = _SPAN.fullmatch(text.strip())
    if match is None or not float(match["count"]):
        raise ValueError(f"expects a time above zero such as 30d, 2w, 12h or 45m, got {text!r}")
    return float(match["count"]) * _SECONDS[match["unit"]]
