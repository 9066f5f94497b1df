"""Does a clamp inside a model leave anything of what it is given?"""

from collections.abc import Sequence
from typing import Final

from ...storage.percent import percent
from .check_result import CheckResult, broken, held
from .copy_tape import Noted

CLAMPED = "clamps_leave_values_free"
CLAMPS: Final = frozenset({"clamp", "clip", "clamp_min", "clamp_max"})
_CLAIM = "some of what a clamp is given lies between its limits"
#: Elements below which nothing is said, and the share of them that must lie between the limits. Our choice.
_FEWEST, _FREE = 32, 0.005


def clamps_leave_values_free(calls: Sequence[Noted]) -> CheckResult | None:
    """Return whether a clamp of values that have a gradient gives nearly all of them its limit, and none a gradient.

    Returns None where nothing is clamped.
    """
    clamped = [call for call in calls if call.given.requires_grad and call.given.numel() >= _FEWEST]
    for call in clamped:
        free = float((call.result == call.given).double().mean())
        if free < _FREE:
            limits = ", ".join(
                f"{value:.4g}" if isinstance(name, int) else f"{name}={value:.4g}"
                for name, value in call.options.items()
                if isinstance(value, int | float)
            )
            words = (
                f"{percent(1 - free, decimals=1)} of the {call.given.numel()} values of a tensor "
                f"{tuple(call.given.shape)} that {call.name}({limits}) is given lie beyond its limit; their mean "
                f"is {float(call.given.mean()):.4g}"
            )
            return broken(CLAMPED, _CLAIM, words, subject=call.name, free=free)
    return held(CLAMPED, _CLAIM) if clamped else None
