"""A cell of the engine as a network to attack; searches work on plain NumPy arrays."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ...framework import Tensor, gradients, no_grad, ops, recording
from ...framework.nn import Cell, Conv1d, Conv2d, Conv3d
from ..arrays import Array
from ..errors import InvalidModel
from .parts import part_size


class EngineNetwork:
    """Logits and input gradients of a cell, whose parameters, gradients and modes stay as they were."""

    framework = "engine"

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._in_parts = any(isinstance(inner, Conv1d | Conv2d | Conv3d) for _, inner in cell.cells_and_names())

    def native(self, x: Array) -> Array:
        """`x` as a NumPy array, its dtype kept."""
        return x.numpy() if isinstance(x, Tensor) else np.asarray(x)

    def logits(self, x: Array) -> Array:
        """What the cell returns for `x`; nothing is recorded."""
        with no_grad():
            return self._joined([self._checked(self._cell(Tensor(part))) for part in self._parts(x)]).numpy()

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        """The logits and the gradient to `x` alone: no parameter's `grad` is touched."""
        logits, (gradient,) = self.pullbacks(x, lambda values: [cotangent(values)])
        return logits, gradient

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        """The logits, and one gradient for each cotangent."""
        leaves = [Tensor(part, requires_grad=True) for part in self._parts(x)]
        with recording():
            logits = self._joined([self._checked(self._cell(leaf)) for leaf in leaves])
        weights = cotangents(logits.numpy())
        found = []
        for number, weight in enumerate(weights):
            pulled: Sequence[Tensor | None] = [None]
            if logits.requires_grad:
                keep = number + 1 < len(weights)
                pulled = gradients(logits, leaves, [Tensor(weight)], retain_graph=keep)
            parts = [gradient.numpy() for gradient in pulled if gradient is not None]
            if len(parts) < len(leaves):
                raise InvalidModel(
                    "the logits do not depend on x by differentiable operations; do not detach the input"
                )
            found.append(parts[0] if len(parts) == 1 else np.concatenate(parts))
        return logits.numpy(), found

    def training_modules(self) -> int:
        """How many cells are in training mode."""
        return sum(cell.training for _, cell in self._cell.cells_and_names())

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Every cell in evaluation mode, each back in its own mode afterwards."""
        switched = [cell for _, cell in self._cell.cells_and_names() if cell.training]
        for cell in switched:
            cell.training = False
        try:
            yield
        finally:
            for cell in switched:
                cell.training = True

    def _parts(self, x: Array) -> list[Array]:
        size = part_size(len(x)) if self._in_parts else len(x)
        return [x] if len(x) <= size else [x[start : start + size] for start in range(0, len(x), size)]

    @staticmethod
    def _joined(parts: list[Tensor]) -> Tensor:
        return parts[0] if len(parts) == 1 else ops.concat(parts)

    @staticmethod
    def _checked(output: object) -> Tensor:
        if not isinstance(output, Tensor):
            raise InvalidModel(
                f"the model must return one tensor of logits, got {type(output).__name__}; "
                "wrap a cell that returns the logits alone"
            )
        return output
