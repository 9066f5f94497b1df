"""A cell of the engine in training."""

from collections.abc import Sequence

import numpy as np

from ...framework import Tensor, recording
from ...framework.nn import Cell
from ..arrays import Array
from ..errors import InvalidModel
from .trainee import Loss, Optimizer


class EngineTrainee:
    """Passes and steps of a cell with its optimizer."""

    def __init__(self, cell: Cell, optimizer: Optimizer) -> None:
        self._cell, self._optimizer = cell, optimizer
        self._parameters = cell.trainable_params()
        if not self._parameters:
            raise InvalidModel(f"{type(cell).__name__} has no trainable parameter; there is nothing to defend")

    def learn(self, x: Array, loss: Loss) -> tuple[float, Array]:
        """The loss and the logits at `x`; parameters hold the gradients of the loss."""
        return self._pass(Tensor(x), loss)

    def learn_through(self, x: Array, loss: Loss) -> tuple[float, Array, Array]:
        """The same, and the gradient to `x`."""
        leaf = Tensor(x, requires_grad=True)
        value, logits = self._pass(leaf, loss)
        return value, logits, np.zeros_like(x) if leaf.grad is None else leaf.grad.numpy()

    def _pass(self, x: Tensor, loss: Loss) -> tuple[float, Array]:
        self._optimizer.zero_grad()
        with recording():
            logits: Tensor = self._cell(x)
            value, slope = loss(logits.numpy())
            logits.backward(Tensor(slope))
        return value, logits.numpy()

    def step(self) -> None:
        """Moves the parameters by the gradients that they hold."""
        self._optimizer.step()

    def weights(self) -> list[Array]:
        """Copies of the trainable parameters."""
        return [np.array(parameter.numpy()) for parameter in self._parameters]

    def gradients(self) -> list[Array | None]:
        """What each of them holds as its gradient."""
        return [None if parameter.grad is None else parameter.grad.numpy() for parameter in self._parameters]

    def set_weights(self, values: Sequence[Array]) -> None:
        """Nothing; the trainable parameters have these values."""
        for parameter, value in zip(self._parameters, values, strict=True):
            parameter.copy_(Tensor(value))
