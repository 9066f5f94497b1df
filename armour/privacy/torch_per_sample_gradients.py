"""Gradients for each sample of a torch module, by torch.func; the only file of the folder that imports torch."""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch.func import functional_call, grad_and_value, vmap

from ..errors import InvalidModel

#: Of `(1, classes)` outputs and `(1, ...)` labels.
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class TorchPerSample:
    """`vmap(grad_and_value)` of the module as a function of its parameters."""

    def __init__(self, module: torch.nn.Module, loss: Loss | None) -> None:
        self._trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not self._trained:
            raise InvalidModel(f"{type(module).__name__} has no trainable parameter; nothing can be trained privately")
        fixed = {name: p for name, p in module.named_parameters() if not p.requires_grad}
        fixed |= dict(module.named_buffers())
        judge = loss or torch.nn.functional.cross_entropy

        def of_one(trained: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return judge(functional_call(module, {**fixed, **trained}, (x[None],)), y[None])

        self._of_all = vmap(grad_and_value(of_one), in_dims=(None, 0, 0), randomness="different")

    def gradients(
        self, x: NDArray[np.generic], y: NDArray[np.generic]
    ) -> tuple[NDArray[np.floating], list[NDArray[np.floating]]]:
        """Return `(n,)` losses and, for each trainable parameter, its gradients `(n, *parameter)`."""
        device = next(iter(self._trained.values())).device
        values = {name: p.detach() for name, p in self._trained.items()}
        inputs, labels = (torch.as_tensor(np.require(a, requirements=["C", "W"]), device=device) for a in (x, y))
        gradients, losses = self._of_all(values, inputs, labels)
        return losses.detach().cpu().numpy(), [gradients[name].detach().cpu().numpy() for name in self._trained]

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of the trainable parameters."""
        return [tuple(p.shape) for p in self._trained.values()]

    def set_gradients(self, values: list[NDArray[np.float64]]) -> None:
        """Set the parameters' gradients."""
        for parameter, value in zip(self._trained.values(), values, strict=True):
            parameter.grad = torch.as_tensor(value, dtype=parameter.dtype, device=parameter.device)
