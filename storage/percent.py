"""How a share is written: never as all or nothing where it is neither."""

from typing import Final

#: Decimals up to which a share is written that is nearly all or nearly nothing.
_MOST_DECIMALS: Final = 3


def percent(share: float, *, decimals: int = 0) -> str:
    """Return a share in percent, `37%`; `99.6%` or `0.04%` where a whole number would be 100 or 0 and the share is not.

    What rounds to all or nothing with three decimals too is `over 99.999%` or `under 0.001%`.

    Args:
        decimals: Those that are written in any case, three at most.
    """
    if not 0.0 < share < 1.0:
        return f"{share:.{decimals}%}"
    for places in range(decimals, _MOST_DECIMALS + 1):
        written = f"{share:.{places}%}"
        if 0.0 < float(written[:-1]) < 100.0:
            return written
    return "over 99.999%" if share > 0.5 else "under 0.001%"
