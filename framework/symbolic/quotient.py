"""A length divided by a number: a float that is known when the function runs."""

from typing import Any

__all__ = ["Quotient"]


class Quotient:
    """A number that depends on lengths: `1.0 / n`, as a mean has it; it can be multiplied by numbers."""

    __slots__ = ("above", "below")

    def __init__(self, above: Any, below: Any) -> None:
        self.above, self.below = above, below

    def __mul__(self, number: Any) -> "Quotient":
        return Quotient(self.above * number, self.below)

    __rmul__ = __mul__

    def __truediv__(self, number: Any) -> "Quotient":
        return Quotient(self.above, self.below * number)

    def __rtruediv__(self, number: Any) -> "Quotient":
        return Quotient(number * self.below, self.above)

    def __neg__(self) -> "Quotient":
        return Quotient(-self.above, self.below)

    def conjugate(self) -> "Quotient":
        """Itself: lengths are real."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quotient) and (self.above, self.below) == (other.above, other.below)

    def __hash__(self) -> int:
        return hash((Quotient, self.above, self.below))

    def __repr__(self) -> str:
        return f"{self.above!r} / ({self.below})"
