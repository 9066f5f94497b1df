"""A torch module in training; the only file of the folder that imports torch."""

from collections.abc import Sequence
from typing import Any

import torch

from ..arrays import Array
from ..errors import InvalidModel
from .trainee import Loss, Optimizer


class TorchTrainee:
    """Passes and steps of a torch module with its optimizer."""

    def __init__(self, module: torch.nn.Module, optimizer: Optimizer) -> None:
        self._module, self._optimizer = module, optimizer
        self._parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not self._parameters:
            raise InvalidModel(f"{type(module).__name__} has no trainable parameter; there is nothing to defend")

    def learn(self, x: Array, loss: Loss) -> tuple[float, Array]:
        """The loss and the logits at `x`; parameters hold the gradients of the loss."""
        return self._pass(x.detach(), loss)

    def learn_through(self, x: Array, loss: Loss) -> tuple[float, Array, Array]:
        """The same, and the gradient to `x`."""
        leaf = x.detach().requires_grad_()
        value, logits = self._pass(leaf, loss)
        return value, logits, torch.zeros_like(x) if leaf.grad is None else leaf.grad

    def _pass(self, x: Any, loss: Loss) -> tuple[float, Array]:
        self._optimizer.zero_grad()
        with torch.enable_grad():
            logits = self._module(x)
        value, slope = loss(logits.detach())
        logits.backward(slope)
        return value, logits.detach()

    def step(self) -> None:
        """Moves the parameters by the gradients that they hold."""
        self._optimizer.step()

    def weights(self) -> list[Array]:
        """Copies of the trainable parameters."""
        return [parameter.detach().clone() for parameter in self._parameters]

    def gradients(self) -> list[Array | None]:
        """What each of them holds as its gradient."""
        return [None if parameter.grad is None else parameter.grad.detach().clone() for parameter in self._parameters]

    def set_weights(self, values: Sequence[Array]) -> None:
        """Nothing; the trainable parameters have these values."""
        with torch.no_grad():
            for parameter, value in zip(self._parameters, values, strict=True):
                parameter.copy_(value)
