"""A model in training: a pass whose loss is a function of its logits, and the optimizer's step, in any framework."""

import sys
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from ...framework import Tensor, recording
from ...framework.nn import Cell
from ..arrays import Array
from ..errors import InvalidModel

#: Of `(n, classes)` logits: the loss, and its gradient to the logits.
Loss = Callable[[Array], tuple[float, Array]]


class Optimizer(Protocol):
    """Any optimizer, of the engine or of torch, that applies the gradients which its parameters hold."""

    def zero_grad(self) -> None:
        """No parameter holds a gradient."""

    def step(self) -> Any:
        """Applies them; Any: torch returns a loss."""


class Trainee(Protocol):
    """What a framework offers a defence; arrays are native, as those of `Model`."""

    def learn(self, x: Array, loss: Loss) -> tuple[float, Array]:
        """The loss and the logits at `x`, in the model's own mode; parameters hold the gradients of the loss."""

    def learn_through(self, x: Array, loss: Loss) -> tuple[float, Array, Array]:
        """The same, and the gradient to `x`."""

    def step(self) -> None:
        """Moves the parameters by the gradients that they hold."""

    def weights(self) -> list[Array]:
        """Copies of the trainable parameters."""

    def gradients(self) -> list[Array | None]:
        """What each of them holds as its gradient."""

    def set_weights(self, values: Sequence[Array]) -> None:
        """Nothing; the trainable parameters have these values."""


def trainee(model: object, optimizer: Optimizer) -> Trainee:
    """The model with the optimizer that moves it.

    Raises:
        InvalidModel: It is neither an engine `Cell` nor a torch `Module`, or has nothing to train.
    """
    if isinstance(model, Cell):
        return _EngineTrainee(model, optimizer)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from .torch_trainee import TorchTrainee  # noqa: PLC0415  optional extra

        return TorchTrainee(model, optimizer)
    raise InvalidModel(f"a defence trains an engine Cell or a torch Module, got {type(model).__qualname__}")


class _EngineTrainee:
    def __init__(self, cell: Cell, optimizer: Optimizer) -> None:
        self._cell, self._optimizer = cell, optimizer
        self._parameters = cell.trainable_params()
        if not self._parameters:
            raise InvalidModel(f"{type(cell).__name__} has no trainable parameter; there is nothing to defend")

    def learn(self, x: Array, loss: Loss) -> tuple[float, Array]:
        return self._pass(Tensor(x), loss)

    def learn_through(self, x: Array, loss: Loss) -> tuple[float, Array, Array]:
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
        self._optimizer.step()

    def weights(self) -> list[Array]:
        return [np.array(parameter.numpy()) for parameter in self._parameters]

    def gradients(self) -> list[Array | None]:
        return [None if parameter.grad is None else parameter.grad.numpy() for parameter in self._parameters]

    def set_weights(self, values: Sequence[Array]) -> None:
        for parameter, value in zip(self._parameters, values, strict=True):
            parameter.copy_(Tensor(value))
