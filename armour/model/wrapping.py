"""Anything that classifies, wrapped as a model to attack: cells, torch modules, and predictors without gradients."""

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from ...framework import Tensor, gradients, no_grad, ops, recording
from ...framework.dtype import is_inexact
from ...framework.nn import Cell, Conv1d, Conv2d, Conv3d
from ..array_api import Array
from ..errors import InvalidInput, InvalidModel
from .classifier import NO_GRADIENT, Network, Normalization, WrappedModel, part_size
from .features import Features
from .output_field import OutputField
from .outputs import Classes, Returns, checked_classes, checked_returns
from .predictor import PredictorNetwork, predictor_network
from .query_budget import QueryBudget
from .task import Task

if TYPE_CHECKING:
    from .token_model import TokenModel


class EngineNetwork:
    """Outputs and input gradients of a cell, whose parameters, gradients and modes stay as they were.

    Args:
        field: Which part of the output is taken.
    """

    framework = "engine"
    has_gradients = True

    def __init__(self, cell: Cell, field: OutputField) -> None:
        self._cell, self._field = cell, field
        self._dtype = next((weights.dtype for weights in cell.get_parameters() if is_inexact(weights.dtype)), None)
        self._in_parts = any(isinstance(inner, Conv1d | Conv2d | Conv3d) for _, inner in cell.cells_and_names())

    @property
    def dtype(self) -> str | None:
        """Name of the element type of the first weights, None without any."""
        return None if self._dtype is None else str(self._dtype)

    def native(self, x: Array) -> Array:
        """Convert `x` to a NumPy array; the dtype stays."""
        return x.numpy() if isinstance(x, Tensor) else np.asarray(x)

    def logits(self, x: Array) -> Array:
        """Return the cell's output for `x`, without recording a tape."""
        with no_grad():
            return self._join([self._output(Tensor(part)) for part in self._parts(x)]).numpy()

    def pullback(self, x: Array, cotangent: Callable[[Array], Array]) -> tuple[Array, Array]:
        """Return the output and the gradient to `x` alone: no parameter's `grad` is touched."""
        output, (gradient,) = self.pullbacks(x, lambda values: [cotangent(values)])
        return output, gradient

    def pullbacks(self, x: Array, cotangents: Callable[[Array], Sequence[Array]]) -> tuple[Array, list[Array]]:
        """Return the output, and one gradient for each cotangent."""
        leaves = [Tensor(part, requires_grad=True) for part in self._parts(x)]
        with recording():
            output = self._join([self._output(leaf) for leaf in leaves])
        weights = cotangents(output.numpy())
        found = []
        for number, weight in enumerate(weights):
            pulled: Sequence[Tensor | None] = [None]
            if output.requires_grad:
                keep = number + 1 < len(weights)
                pulled = gradients(output, leaves, [Tensor(weight)], retain_graph=keep)
            parts = [gradient.numpy() for gradient in pulled if gradient is not None]
            if len(parts) < len(leaves):
                raise InvalidModel(NO_GRADIENT)
            gradient = parts[0] if len(parts) == 1 else np.concatenate(parts)
            found.append(gradient.astype(x.dtype, copy=False))
        return output.numpy(), found

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
        x = x if self._dtype is None else x.astype(self._dtype, copy=False)
        size = part_size(len(x)) if self._in_parts else len(x)
        return [x] if len(x) <= size else [x[start : start + size] for start in range(0, len(x), size)]

    @staticmethod
    def _join(parts: list[Tensor]) -> Tensor:
        return parts[0] if len(parts) == 1 else ops.concat(parts)

    def _output(self, x: Tensor) -> Tensor:
        output = self._field.of(self._cell(x), len(x))
        if not isinstance(output, Tensor):
            raise InvalidModel(
                f"the model must return a tensor, or a structure with one in it, got {type(output).__name__}; "
                "wrap a cell that returns the logits"
            )
        return output


def wrap(
    model: object,
    bounds: tuple[ArrayLike, ArrayLike] = (0.0, 1.0),
    preprocessing: Normalization | None = None,
    *,
    output: str | int | None = None,
    returns: Returns | None = None,
    classes: int | Sequence[object] | None = None,
    queries: int | None = None,
    features: Features | None = None,
    task: Task | None = None,
) -> WrappedModel:
    """Wrap a model so that it can be attacked.

    Args:
        model: An engine `Cell`, a torch `Module`, a scikit-learn estimator or pipeline, an ONNX Runtime session, or a
            function of NumPy inputs. It takes `(n, ...)` inputs and returns `(n, classes)` logits or probabilities, one
            logit a sample for two classes, or labels, `(n,)`. Only cells and modules have gradients.
        bounds: Smallest and largest value that an input element may have: two numbers, or two arrays with one for each
            column, or for each channel of images, or of a sample's shape. With arrays, budgets and distances are shares
            of each element's range.
        preprocessing: Normalization that the model expects and does not do itself.
        output: Key, attribute or index of the logits where the model returns several things; found by itself where only
            one fits.
        returns: `logits`, `probabilities` or `labels`; None finds out from the first inputs.
        classes: How many classes there are, or their labels in the order of the columns; needed where a model returns
            labels and does not say. Estimators say it themselves.
        queries: Rows that the model may be asked for in all; an attack then ends with what it has found.
        features: What must stay, and what holds whole numbers or categories.
        task: `MultiLabel`, `Regression`, `Segmentation`, `Tokens` or `Detection`, where an input has more
            or other than one class.

    Raises:
        InvalidModel: It is none of these, or torch is missing.
        InvalidInput: An option is not valid.
    """
    if isinstance(model, WrappedModel):
        raise InvalidModel("wrap expects a model, got one that is wrapped already")
    if preprocessing is not None and not isinstance(preprocessing, Normalization):
        raise InvalidInput(
            f"preprocessing expects a Normalization(mean, std), got {type(preprocessing).__name__}; "
            "put any other preprocessing into the model, so that gradients pass through it"
        )
    means, labels = checked_returns(returns), checked_classes(classes)
    network = network_of(model, output, means, labels, task)
    if isinstance(network, PredictorNetwork):
        means, labels = network.returns, network.classes
    found = WrappedModel(
        network,
        bounds,
        preprocessing,
        getattr(model, "__name__", type(model).__name__),
        returns=means,
        classes=labels,
        queries=None if queries is None else QueryBudget(queries),
        features=features,
        task=task,
    )
    _warn_of_training(found, model)
    return found


def wrap_tokens(
    model: object,
    *,
    embedding: str | None = None,
    sides: Sequence[str] | None = None,
    bounds: tuple[float, float] | None = None,
    output: str | int | None = None,
    returns: Returns | None = None,
    classes: int | Sequence[object] | None = None,
    queries: int | None = None,
    task: Task | None = None,
) -> "TokenModel":
    """Wrap a text model of torch, as those of transformers, so that its embeddings can be attacked.

    Attacks and `evaluate` take for `x` what its tokenizer returned, `input_ids` and `attention_mask` in one mapping, or
    what `embed` makes of it. Budgets are in the unit of embeddings; no token outside the mask changes.

    Args:
        model: A module that takes `(n, tokens)` ids, under the name `input_ids` or as its first argument.
        embedding: Dotted name of the layer that turns ids into embeddings; None finds it.
        sides: Names of the other inputs of a token; None takes `attention_mask` and `token_type_ids`, where the model
            does.
        bounds: Smallest and largest value of an embedding's element; None takes those of the whole table.
        output, returns, classes, queries: As those of `wrap`.
        task: `Tokens` where each token has a class.

    Raises:
        InvalidModel: It is no torch module, or its embedding is not found.
        InvalidInput: An option is not valid.

    Reference:
        Miyato, Dai and Goodfellow 2017, arXiv:1605.07725: perturbations of embeddings, where words have no small ones.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(model, torch.nn.Module):
        raise InvalidModel(f"wrap_tokens expects a torch Module that takes token ids, got {_named(model)}")
    from .token_model import TokenModel, embedding_of, layout_of  # noqa: PLC0415  optional extra

    layer = embedding_of(model, embedding)
    found = TokenModel(
        model,
        layer,
        layout_of(model, layer, sides, bounds),
        output=output,
        returns=checked_returns(returns),
        classes=checked_classes(classes),
        queries=None if queries is None else QueryBudget(queries),
        task=task,
    )
    _warn_of_training(found, model)
    return found


def wrapped_for(model: object, x: object) -> WrappedModel:
    """Return the model, wrapped in the way that its inputs need if it is not wrapped yet: arrays, or a tokenizer's."""
    if isinstance(model, WrappedModel):
        return model
    return wrap_tokens(model) if isinstance(x, Mapping) else wrap(model)


def _warn_of_training(wrapped: WrappedModel, model: object) -> None:
    if count := wrapped.training_modules():
        warnings.warn(
            f"{type(model).__name__} has {count} modules in training mode; attacks switch them to evaluation mode and "
            "restore them afterwards. Call eval() (torch) or set_train(False) (engine) first to say that you mean it",
            stacklevel=3,
        )


def network_of(
    model: object,
    output: str | int | None = None,
    returns: Returns | None = None,
    classes: Classes | None = None,
    task: Task | None = None,
) -> Network:
    """Return the network adapter of a model that `wrap` takes; raise `InvalidModel` for anything else."""
    field = OutputField(output) if task is None else task.field(output)
    if isinstance(model, Cell):
        return EngineNetwork(model, field)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from .torch_network import TorchNetwork  # noqa: PLC0415  optional extra

        return TorchNetwork(model, field)
    if (found := predictor_network(model, field, returns, classes, classifies=task is None)) is not None:
        return found
    raise InvalidModel(
        "wrap expects an engine Cell, a torch Module, a scikit-learn estimator, an ONNX Runtime session or a function "
        f"of inputs, got {_named(model)}"
    )


def _named(model: object) -> str:
    if isinstance(model, type):
        return f"the class {model.__module__}.{model.__qualname__}; make one of it"
    return f"{type(model).__module__}.{type(model).__qualname__}"
