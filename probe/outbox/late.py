"""Values that may come late, added up."""

from .promises import LateScalar


def sum_of(one: "float | LateScalar | None", other: "float | LateScalar") -> "float | LateScalar":
    """The sum of two values, late if one of them is."""
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
