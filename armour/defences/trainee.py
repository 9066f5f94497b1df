"""A model in training: a pass whose loss is a function of its logits, and the optimizer's step, in any framework."""

import sys
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from ...framework import Tensor, recording
from ...framework.nn import Cell
from ..array_api import Array
from ..errors import InvalidModel

#: Of `(n, classes)` logits: the loss, and its gradient to the logits.
Loss = Callable[[Array], tuple[float, Array]]


class TrainingOptimizer(Protocol):
    """An optimizer, of the engine or of torch, that applies the gradients of its parameters."""

    def zero_grad(self) -> None:
        """Clear the gradients of all parameters."""

    def step(self) -> object:
        """Apply the gradients; torch's optimizers return a loss, which is ignored."""


class Trainee(Protocol):
    """The interface of a framework for defences; arrays are native, as those of `WrappedModel`."""

    def learn(self, x: Array, loss: Loss) -> tuple[float, Array]:
        """Return the loss and the logits at `x` in the model's own mode; leave gradients on the parameters."""

    def learn_through(self, x: Array, loss: Loss) -> tuple[float, Array, Array]:
        """Return the same, and the gradient to `x`."""

    def step(self) -> None:
        """Update the parameters by the gradients that they hold."""

    def weights(self) -> list[Array]:
        """Copy the trainable parameters."""

    def gradients(self) -> list[Array | None]:
        """Return the gradient that each of them holds."""

    def set_weights(self, values: Sequence[Array]) -> None:
        """Set the trainable parameters to these values."""


class EngineTrainee:
    """Passes and steps of a cell with its optimizer."""

    def __init__(self, cell: Cell, optimizer: TrainingOptimizer) -> None:
        self._cell, self._optimizer = cell, optimizer
        self._parameters = cell.trainable_params()
        if not self._parameters:
            raise InvalidModel(f"{type(cell).__name__} has no trainable parameter; there is nothing to defend")

    def learn(self, x: Array, loss: Loss) -> tuple[float, Array]:
        """Return the loss and the logits at `x`; leave the loss's gradients on the parameters."""
        return self._pass(Tensor(x), loss)

    def learn_through(self, x: Array, loss: Loss) -> tuple[float, Array, Array]:
        """Return the same, and the gradient to `x`."""
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
        """Update the parameters by the gradients that they hold."""
        self._optimizer.step()

    def weights(self) -> list[Array]:
        """Copy the trainable parameters."""
        return [np.array(parameter.numpy()) for parameter in self._parameters]

    def gradients(self) -> list[Array | None]:
        """Return the gradient that each of them holds."""
        return [None if parameter.grad is None else parameter.grad.numpy() for parameter in self._parameters]

    def set_weights(self, values: Sequence[Array]) -> None:
        """Set the trainable parameters to these values."""
        for parameter, value in zip(self._parameters, values, strict=True):
            parameter.copy_(Tensor(value))


def trainee(model: object, optimizer: TrainingOptimizer) -> Trainee:
    """Return the model with the optimizer that moves it.

    Raises:
        InvalidModel: It is neither an engine `Cell` nor a torch `Module`, or has nothing to train.
    """
    if isinstance(model, Cell):
        return EngineTrainee(model, optimizer)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from .torch_trainee import TorchTrainee  # noqa: PLC0415  optional extra

        return TorchTrainee(model, optimizer)
    raise InvalidModel(f"a defence trains an engine Cell or a torch Module, got {type(model).__qualname__}")
