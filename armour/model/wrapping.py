"""An engine cell or a torch module, wrapped as a model to attack; attacks on cells work on NumPy arrays."""

import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ...framework import Tensor, gradients, no_grad, ops, recording
from ...framework.nn import Cell, Conv1d, Conv2d, Conv3d
from ..array_api import Array
from ..errors import InvalidInput, InvalidModel
from .classifier import Network, Normalization, WrappedModel, part_size


class EngineNetwork:
    """Logits and input gradients of a cell, whose parameters, gradients and modes stay as they were."""

    framework = "engine"

    def __init__(self, cell: Cell) -> None:
        self._cell = cell
        self._in_parts = any(isinstance(inner, Conv1d | Conv2d | Conv3d) for _, inner in cell.cells_and_names())

    def native(self, x: Array) -> Array:
        """Convert `x` to a NumPy array; the dtype stays."""
        return x.numpy() if isinstance(x, Tensor) else np.asarray(x)

    def logits(self, x: Array) -> Array:
        """Return the cell's output for `x`, without recording a tape."""
        with no_grad():
            return self._join([self._check_output(self._cell(Tensor(part))) for part in self._parts(x)]).numpy()

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return the logits and the gradient to `x` alone: no parameter's `grad` is touched."""
        logits, (gradient,) = self.pullbacks(x, lambda values: [cotangent(values)])
        return logits, gradient

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        """Return the logits, and one gradient for each cotangent."""
        leaves = [Tensor(part, requires_grad=True) for part in self._parts(x)]
        with recording():
            logits = self._join([self._check_output(self._cell(leaf)) for leaf in leaves])
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
        """Count the cells in training mode."""
        return sum(cell.training for _, cell in self._cell.cells_and_names())

    @contextmanager
    def evaluating(self) -> Iterator[None]:
        """Switch every cell to evaluation mode within the block, and back to its own mode afterwards."""
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
    def _join(parts: list[Tensor]) -> Tensor:
        return parts[0] if len(parts) == 1 else ops.concat(parts)

    @staticmethod
    def _check_output(output: object) -> Tensor:
        if not isinstance(output, Tensor):
            raise InvalidModel(
                f"the model must return one tensor of logits, got {type(output).__name__}; "
                "wrap a cell that returns the logits alone"
            )
        return output


def wrap(
    model: object, bounds: tuple[float, float] = (0.0, 1.0), preprocessing: Normalization | None = None
) -> WrappedModel:
    """Wrap a model so that it can be attacked.

    Args:
        model: An engine `Cell` or a torch `Module` that takes `(n, ...)` inputs and returns `(n, classes)` logits.
        bounds: Smallest and largest value that an input element may have.
        preprocessing: Normalization that the model expects and does not do itself.

    Raises:
        InvalidModel: It is neither, or torch is missing.
    """
    if isinstance(model, WrappedModel):
        raise InvalidModel("wrap expects an engine Cell or a torch Module, got a model that is wrapped already")
    if preprocessing is not None and not isinstance(preprocessing, Normalization):
        raise InvalidInput(
            f"preprocessing expects a Normalization(mean, std), got {type(preprocessing).__name__}; "
            "put any other preprocessing into the model, so that gradients pass through it"
        )
    network = network_of(model)
    if count := network.training_modules():
        warnings.warn(
            f"{type(model).__name__} has {count} modules in training mode; attacks switch them to evaluation mode and "
            "restore them afterwards. Call eval() (torch) or set_train(False) (engine) first to say that you mean it",
            stacklevel=2,
        )
    return WrappedModel(network, bounds, preprocessing, type(model).__name__)


def network_of(model: object) -> Network:
    """Return the network adapter of an engine `Cell` or a torch `Module`; raise `InvalidModel` for anything else."""
    if isinstance(model, Cell):
        return EngineNetwork(model)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from .torch_network import TorchNetwork  # noqa: PLC0415  optional extra

        return TorchNetwork(model)
    raise InvalidModel(
        f"wrap expects an engine Cell or a torch Module, got {type(model).__module__}.{type(model).__qualname__}"
    )
