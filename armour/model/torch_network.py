"""A torch module as a network to attack; tensors stay on its device. The only file here that imports torch."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from ..array_api import Array
from ..errors import InvalidModel
from .classifier import NO_GRADIENT, part_size
from .output_field import OutputField


class TorchNetwork:
    """Outputs and input gradients of a torch module, whose parameters, gradients and modes stay as they were.

    Args:
        field: Which part of the output is taken.
    """

    framework = "torch"
    has_gradients = True

    def __init__(self, module: torch.nn.Module, field: OutputField) -> None:
        self._module, self._field = module, field
        first = next(module.parameters(), None)
        self._device = torch.device("cpu") if first is None else first.device
        self._dtype = next((values.dtype for values in module.parameters() if values.is_floating_point()), None)
        convolves = any(isinstance(inner, torch.nn.modules.conv._ConvNd) for inner in module.modules())
        self._in_parts = convolves and self._device.type == "cpu"

    @property
    def dtype(self) -> str | None:
        """Name of the element type of the first weights, None without any."""
        return None if self._dtype is None else str(self._dtype).removeprefix("torch.")

    def native(self, x: Array) -> Array:
        """Convert `x` to a detached tensor on the module's device; the dtype stays."""
        if isinstance(x, np.ndarray):
            x = np.require(x, requirements=["C", "W"])  # torch takes no negative strides and warns of read-only memory
        return torch.as_tensor(x, device=self._device).detach()

    def logits(self, x: Array) -> Array:
        """Return what the module returns for `x`, outside autograd."""
        with torch.no_grad():
            return self._output(x)

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return the output and the gradient to `x` alone: no parameter's `grad` is touched."""
        output, (gradient,) = self.pullbacks(x, lambda values: [cotangent(values)])
        return output, gradient

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        """Return the output, and one gradient for each cotangent."""
        leaf = x.detach().requires_grad_()
        with torch.enable_grad():
            output = self._forward(leaf)
        detached = output.detach()
        weights = cotangents(detached)
        found = []
        for number, weight in enumerate(weights):
            gradient = None
            if output.requires_grad:
                keep = number + 1 < len(weights)
                (gradient,) = torch.autograd.grad(output, leaf, weight, retain_graph=keep, allow_unused=True)
            if gradient is None and not self._field.is_empty(detached):
                raise InvalidModel(NO_GRADIENT)
            found.append(torch.zeros_like(leaf) if gradient is None else gradient)
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
            return self._output(x)
        return torch.cat([self._output(part) for part in x.split(part_size(len(x)))])

    def _output(self, x: torch.Tensor) -> torch.Tensor:
        inputs = x if self._dtype is None else x.to(self._dtype)
        return self._checked(self._field.of(self._module(inputs), len(x)))

    @staticmethod
    def _checked(output: object) -> torch.Tensor:
        if not isinstance(output, torch.Tensor):
            raise InvalidModel(
                f"the model must return a tensor, or a structure with one in it, got {type(output).__name__}; "
                "wrap a module that returns the logits"
            )
        return output
