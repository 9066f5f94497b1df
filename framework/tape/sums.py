"""Gradients collected so far, and which of their arrays nobody else holds: those are added to in place."""

import numpy as np

from ..primitive import PRIMITIVES
from ..tensor import Tensor
from .places import Place

__all__ = ["Sums"]


class Sums:
    """The gradients of one pass by place.

    Args:
        is_recorded: Whether the pass itself is recorded: then every addition is a primitive.
    """

    __slots__ = ("_is_recorded", "_owned", "totals")

    def __init__(self, is_recorded: bool) -> None:
        self.totals: dict[Place, Tensor] = {}
        self._owned: set[Place] = set()
        self._is_recorded = is_recorded

    def add(self, place: Place, gradient: Tensor, is_fresh: bool) -> None:
        """Nothing; the gradient is added to what is collected at the place. A fresh one is in nobody else's hands."""
        total = self.totals.get(place)
        if total is None:
            self.totals[place] = gradient
            if is_fresh:
                self._owned.add(place)
        elif self._is_recorded:
            self.totals[place] = PRIMITIVES["add"](total, gradient)
        elif place in self._owned and gradient.__fallback__ is None:
            np.add(total._data, gradient._data, out=total._data)
        else:
            self.totals[place] = PRIMITIVES["add"](total, gradient)
            if self.totals[place].__fallback__ is None:
                self._owned.add(place)

    def is_owned(self, place: Place, gradient: Tensor) -> bool:
        """Whether the finished gradient is an array of its own, in C order."""
        return place in self._owned and gradient is self.totals[place] and gradient._data.flags.c_contiguous
