"""A torch module as a network to attack; tensors stay on its device. The only file here that imports torch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from ..array_api import Array
from ..errors import InvalidModel
from .classifier import part_size


class TorchNetwork:
    """Logits and input gradients of a torch module, whose parameters, gradients and modes stay as they were."""

    framework = "torch"

    def __init__(self, module: torch.nn.Module) -> None:
        self._module = module
        first = next(module.parameters(), None)
        self._device = torch.device("cpu") if first is None else first.device
        convolves = any(isinstance(inner, torch.nn.modules.conv._ConvNd) for inner in module.modules())
        self._in_parts = convolves and self._device.type == "cpu"

    def native(self, x: Array) -> Array:
        """Convert `x` to a detached tensor on the module's device; the dtype stays."""
        if isinstance(x, np.ndarray):
            x = np.require(x, requirements=["C", "W"])  # torch takes no negative strides and warns of read-only memory
        return torch.as_tensor(x, device=self._device).detach()

    def logits(self, x: Array) -> Array:
        """Return what the module returns for `x`, outside autograd."""
        with torch.no_grad():
            return self._check_output(self._module(x))

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return the logits and the gradient to `x` alone: no parameter's `grad` is touched."""
        logits, (gradient,) = self.pullbacks(x, lambda values: [cotangent(values)])
        return logits, gradient

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        """Return the logits, and one gradient for each cotangent."""
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            logits = self._forward(leaf)
        detached = logits.detach()
        weights = cotangents(detached)
        found = []
        for number, weight in enumerate(weights):
            gradient = None
            if logits.requires_grad:
                keep = number + 1 < len(weights)
                (gradient,) = torch.autograd.grad(logits, leaf, weight, retain_graph=keep, allow_unused=True)
            if gradient is None:
                raise InvalidModel(
                    "the logits do not depend on x by differentiable operations; do not detach the input"
                )
            found.append(gradient)
        return detached, found

    def training_modules(self) -> int:
        """Count the modules in training mode."""
        return sum(module.training for module in self._module.modules())

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Switch every module to evaluation mode within the block, and back to its own mode afterwards."""
        switched = [module for module in self._module.modules() if module.training]
        for module in switched:
            module.training = False
        try:
            yield
        finally:
            for module in switched:
                module.training = True

    def _forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self._in_parts or len(x) <= part_size(len(x)):
            return self._check_output(self._module(x))
        return torch.cat([self._check_output(self._module(part)) for part in x.split(part_size(len(x)))])

    @staticmethod
    def _check_output(output: object) -> torch.Tensor:
        if not isinstance(output, torch.Tensor):
            raise InvalidModel(
                f"the model must return one tensor of logits, got {type(output).__name__}; "
                "wrap a module that returns the logits alone"
            )
        return output
