"""A torch module in training; the only file of the folder that imports torch."""

from collections.abc import Callable, Sequence

import torch

from ..array_api import Array
from ..errors import InvalidModel

#: Of `(n, classes)` logits: the loss, and its gradient to the logits.
Loss = Callable[[Array], tuple[float, Array]]


class TorchTrainee:
    """Passes and steps of a torch module with its optimizer."""

    def __init__(self, module: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._module, self._optimizer = module, optimizer
        self._parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
        if not self._parameters:
            raise InvalidModel(f"{type(module).__name__} has no trainable parameter; there is nothing to defend")

    def learn(self, x: Array, loss: Loss) -> tuple[float, Array]:
        """Return the loss and the logits at `x`; leave the loss's gradients on the parameters."""
        return self._pass(x.detach(), loss)

    def learn_through(self, x: Array, loss: Loss) -> tuple[float, Array, Array]:
        """Return the same, and the gradient to `x`."""
        leaf = x.detach().requires_grad_()
        value, logits = self._pass(leaf, loss)
        return value, logits, torch.zeros_like(x) if leaf.grad is None else leaf.grad

    def _pass(self, x: torch.Tensor, loss: Loss) -> tuple[float, Array]:
        self._optimizer.zero_grad()
        with torch.enable_grad():
            logits = self._module(x)
        value, slope = loss(logits.detach())
        logits.backward(slope)
        return value, logits.detach()

    def step(self) -> None:
        """Update the parameters by the gradients that they hold."""
        self._optimizer.step()

    def weights(self) -> list[Array]:
        """Copy the trainable parameters."""
        return [parameter.detach().clone() for parameter in self._parameters]

    def gradients(self) -> list[Array | None]:
        """Return the gradient that each of them holds."""
        return [None if parameter.grad is None else parameter.grad.detach().clone() for parameter in self._parameters]

    def set_weights(self, values: Sequence[Array]) -> None:
        """Set the trainable parameters to these values."""
        with torch.no_grad():
            for parameter, value in zip(self._parameters, values, strict=True):
                parameter.copy_(value)
