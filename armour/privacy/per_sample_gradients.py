"""Gradients for each sample, all at once: `vmap` of `grad`, of the engine or of torch."""

import sys
from collections.abc import Callable, Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ...framework import Tensor, ops, value_and_grad, vmap
from ...framework.nn import Cell, CrossEntropyLoss
from ..errors import InvalidModel

#: Of `(1, classes)` outputs and `(1, ...)` labels, in the model's framework.
Loss = Callable[[Any, Any], Any]  # Any: tensors of the engine or of torch


class PerSampleGradients(Protocol):
    """The gradients of a model for each sample, and a setter for the gradient of a step."""

    def gradients(
        self, x: NDArray[np.generic], y: NDArray[np.generic]
    ) -> tuple[NDArray[np.floating], list[NDArray[np.floating]]]:
        """Return `(n,)` losses and, for each trainable parameter, its gradients `(n, *parameter)`."""

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of the trainable parameters, in the order of their gradients."""

    def set_gradients(self, values: list[NDArray[np.float64]]) -> None:
        """Set the parameters' gradients for the optimizer."""


def per_sample(model: object, loss: Loss | None = None) -> PerSampleGradients:
    """Return gradients for each sample of an engine `Cell` or a torch `Module`.

    Args:
        model: Called with one sample `(1, ...)` at a time, all of them vectorised; it may not mix samples (as batch
            normalization in training mode does), which no clipping of single gradients could bound.
        loss: Cross entropy by default.

    Raises:
        InvalidModel: It is neither, has nothing to train, or mixes samples.
    """
    if isinstance(model, Cell):
        _check_layers(type(cell).__name__ for _, cell in model.cells_and_names())
        return _EnginePerSample(model, loss or CrossEntropyLoss())
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from .torch_per_sample_gradients import TorchPerSample  # noqa: PLC0415  optional extra

        _check_layers(type(module).__name__ for module in model.modules())
        return TorchPerSample(model, loss)
    raise InvalidModel(
        f"private training expects an engine Cell or a torch Module, got {type(model).__module__}."
        f"{type(model).__qualname__}"
    )


class _EnginePerSample:
    def __init__(self, cell: Cell, loss: Loss) -> None:
        self._parameters = cell.trainable_params()
        if not self._parameters:
            raise InvalidModel(f"{type(cell).__name__} has no trainable parameter; nothing can be trained privately")

        def of_one(x: Tensor, y: Tensor) -> Tensor:
            result: Tensor = loss(cell(ops.reshape(x, (1, *x.shape))), ops.reshape(y, (1, *y.shape)))
            return result

        self._of_all = vmap(value_and_grad(of_one, None, self._parameters), randomness="different")

    def gradients(
        self, x: NDArray[np.generic], y: NDArray[np.generic]
    ) -> tuple[NDArray[np.floating], list[NDArray[np.floating]]]:
        """Return `(n,)` losses and, for each trainable parameter, its gradients `(n, *parameter)`."""
        losses, gradients = self._of_all(Tensor(x), Tensor(y))
        return losses.numpy(), [gradient.numpy() for gradient in gradients]

    def shapes(self) -> list[tuple[int, ...]]:
        """Return the shapes of the trainable parameters."""
        return [parameter.shape for parameter in self._parameters]

    def set_gradients(self, values: list[NDArray[np.float64]]) -> None:
        """Set the parameters' gradients."""
        for parameter, value in zip(self._parameters, values, strict=True):
            parameter.grad = Tensor(np.asarray(value, parameter.dtype))


def _check_layers(names: Iterable[str]) -> None:
    for name in names:
        if "BatchNorm" in name or "SyncBatch" in name:
            raise InvalidModel(
                f"private training expects a model whose samples do not mix, got a {name}; "
                f"replace it by GroupNorm or LayerNorm"
            )
