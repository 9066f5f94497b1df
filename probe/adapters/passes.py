"""Backward passes that an optimizer's step sums, and gradients of earlier steps that are among them.

What counts is what is there when the optimizer steps. A pass whose gradients are cleared before another one adds to
them counts for nothing, as in sharpness-aware minimisation or where another network is trained through this one; so do
gradients left over from the step before, if they are cleared in time.
"""

from typing import Any, Protocol

import numpy as np

from ..kernels import Arrays


class HoldsGradients(Protocol):
    """What a view tells of its gradients; an optimizer of None is all of them."""

    optimizers: list[Any]
    stepping: Any

    @property
    def is_away(self) -> bool:
        """Whether any parameter lies on a device that measures by itself."""

    def gradients(self) -> Arrays:
        """Where they lie."""

    def has_gradients(self) -> bool:
        """Whether any parameter holds one that is not zero."""

    def rows_held(self) -> frozenset[int]:
        """The parameters that hold one that is not zero; none of those on a device."""

    def rows_of(self, optimizer: Any) -> frozenset[int]:
        """The parameters that the optimizer steps."""

    def is_cleared(self, optimizer: Any) -> bool:
        """Whether none of its parameters holds one that is not zero; False where it lies on a device."""


class Passes:
    """Counts the passes of every optimizer since its gradients were last cleared or used."""

    def __init__(self, view: HoldsGradients) -> None:
        self._view = view
        self._counts: dict[int, int] = {}
        self._left: dict[int, float] = {}
        self._used = 0

    def backward_begins(self, *, begins_step: bool) -> bool:
        """A pass is about to add to the gradients; whether those before it in the step count for nothing.

        Args:
            begins_step: The first since a step, and none is declared to be summed.
        """
        if begins_step:
            self._left = self._held() if self._view.has_gradients() else {}
        elif self._left:
            held = self._view.rows_held()
            self._left = {row: norm for row, norm in self._left.items() if row in held}
        is_anew = True
        for optimizer in self._view.optimizers or (None,):
            count = self._counts.get(id(optimizer), 0)
            is_fresh = count > 0 and self._view.is_cleared(optimizer)
            is_anew = is_anew and is_fresh
            self._counts[id(optimizer)] = 1 if is_fresh else count + 1
        return is_anew

    def stepped(self, optimizer: Any) -> None:
        """The optimizer, None where there is none, has used its gradients."""
        self._used = max(self._used, self._counts.pop(id(optimizer), 0))

    def take(self, stepped: tuple[Any, ...]) -> tuple[int, int, float]:
        """Passes in the step that ends; how many parameters of the optimizers that stepped were moved by gradients of
        earlier steps as well, and the norm of those."""
        used, self._used = self._used, 0
        left, self._left = self._left, {}
        if not left:
            return used, 0, 0.0
        if stepped:
            mine = frozenset[int]().union(*(self._view.rows_of(one) for one in stepped))
            left = {row: norm for row, norm in left.items() if row in mine}
        return used, len(left), float(np.sqrt(sum(norm * norm for norm in left.values())))

    def _held(self) -> dict[int, float]:
        self._view.stepping = None
        norms = self._view.gradients().statistics()[:, 0]
        return {int(row): float(norms[row]) for row in np.flatnonzero(norms > 0.0)}
