"""Scalars that a device has yet to compute: functions that return them when they have come."""

from collections.abc import Callable
from typing import TypeAlias

#: Returns a scalar when it has come; None where there turns out to be none.
LateScalar: TypeAlias = Callable[[], float | None]


def late_quotient(value: float | LateScalar | None, by: float | LateScalar | None) -> float | LateScalar | None:
    """Return the quotient, late if one of the two is; None if one is not known, or the divisor is 0."""
    if not callable(value) and not callable(by):
        return None if value is None or not by else value / by

    def quotient() -> float | None:
        known = [one() if callable(one) else one for one in (value, by)]
        return None if known[0] is None or not known[1] else known[0] / known[1]

    return None if value is None or by is None else quotient


def late_sum(one: "float | LateScalar | None", other: "float | LateScalar") -> "float | LateScalar":
    """Return the sum of two values, late if one of them is."""
    if one is None:
        return other
    if not callable(one) and not callable(other):
        return one + other

    def total() -> float | None:
        first, second = _now(one), _now(other)
        return None if first is None or second is None else first + second

    return total


def _now(value: "float | LateScalar") -> float | None:
    return value() if callable(value) else value
