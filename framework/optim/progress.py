"""How many steps each parameter has made, and a step that a compiled function makes later."""

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from ..tensor import Tensor

if TYPE_CHECKING:
    from .optimizer import Optimizer


class LaterStep:
    """A step that a compiled function makes at the end of each of its runs.

    Args:
        optimizer: Whose step.
        places: Which of its parameters have a gradient.
    """

    __slots__ = ("_optimizer", "_places")

    def __init__(self, optimizer: "Optimizer", places: tuple[bool, ...]) -> None:
        self._optimizer, self._places = optimizer, places

    def __call__(self, *gradients: Tensor) -> None:
        """Nothing; the step is made."""
        rest = iter(gradients)
        self._optimizer([next(rest) if is_there else None for is_there in self._places])

    def destinations(self) -> tuple[NDArray[Any], ...]:
        """Where the gradients are wanted: a graph that writes them there saves the step a pass over them."""
        views = self._optimizer.gradient_arena().views
        return tuple(view for view, is_there in zip(views, self._places, strict=True) if is_there)


class StepCounts:
    """How many steps each parameter has made: one number as long as none was left out."""

    __slots__ = ("_each", "common")

    def __init__(self, count: int) -> None:
        self.common: int | None = 0
        self._each = [0] * count

    def each(self) -> list[int]:
        """The steps of each parameter, a new list."""
        return list(self._each) if self.common is None else [self.common] * len(self._each)

    def set(self, each: list[int]) -> None:
        """Nothing; these are the steps of each parameter."""
        self._each = each
        self.common = each[0] if len(set(each)) == 1 else None
