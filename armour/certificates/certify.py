"""Predictions that provably do not change within a budget: a lower bound of robust accuracy."""

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...framework import Tensor
from ...framework.nn import Cell
from ...storage import Json, Outcome
from ..array_api import Floats
from ..errors import InvalidInput, InvalidModel
from .interval import Interval, interval_bounds
from .linear_bounds import bound_below, crown_bounds, least_from_intervals
from .network_program import NetworkProgram, record

Method = Literal["ibp", "crown"]
BallNorm = Literal["linf", "l2"]


@dataclass(frozen=True, slots=True, eq=False)
class Certificate:
    """Proven margins of N samples at K budgets.

    Args:
        epsilons: The K budgets.
        margins: `(K, N)` the true class's logit is ahead of every other by at least this, everywhere in the budget.
        method, norm: How it was proven, and in which norm.
    """

    epsilons: tuple[float, ...]
    margins: Floats
    method: Method
    norm: BallNorm

    @property
    def is_certified(self) -> NDArray[np.bool_]:
        """`(K, N)` bool, True where the sample is classified as labelled everywhere in the budget."""
        return self.margins > 0

    @property
    def accuracy(self) -> Floats:
        """`(K,)` share of certified samples: robust accuracy is at least this."""
        return np.asarray(self.is_certified.mean(axis=1), np.float64)


def certify(
    model: object,
    x: ArrayLike,
    y: ArrayLike,
    epsilons: float | Iterable[float],
    *,
    norm: BallNorm = "linf",
    method: Method = "crown",
    bounds: tuple[float, float] = (0.0, 1.0),
) -> Certificate:
    """Compute margins that hold everywhere in the budgets, in float64.

    Args:
        model: Engine cell or torch module in evaluation mode, of dense, convolution, batch normalization, relu and
            pooling layers in any arrangement of one input, residual branches included.
        x: `(n, ...)` inputs within `bounds`.
        y: `(n,)` integer labels.
        epsilons: Budgets, 0 or more.
        norm: What they are measured in.
        method: `ibp`, fast and loose, or `crown`, tighter; in L2 the layers between are bounded in the box around.
        bounds: Inputs outside of them are excluded.

    Raises:
        InvalidInput: Inputs, labels, budgets or names are not valid.
        InvalidModel: A primitive or module through which no bounds are known; the message names it.
    """
    inputs, labels, budgets = _check_arguments(x, y, epsilons, bounds)
    for name, value, known in (("norm", norm, ("linf", "l2")), ("method", method, ("ibp", "crown"))):
        if value not in known:
            raise InvalidInput(f"{name} expects one of {', '.join(known)}, got {value!r}")
    program = record(as_cell(model), inputs[0])
    classes = program.shape_of(len(program.steps))[-1]
    if labels.min() < 0 or labels.max() >= classes:
        raise InvalidInput(f"y expects classes 0 to {classes - 1}, got {labels.min()} to {labels.max()}")
    margins = np.array(
        [
            [
                _margin(program, sample, int(label), epsilon, norm=norm, method=method, bounds=bounds)
                for sample, label in zip(inputs, labels, strict=True)
            ]
            for epsilon in budgets
        ]
    )
    return Certificate(budgets, margins, method, norm)


def as_cell(model: object) -> Cell:
    """Return the model as a cell of the engine: a torch module is translated, a cell is returned as it is.

    Raises:
        InvalidModel: It is neither, or the module has parts without bounds; the message names them.
    """
    if isinstance(model, Cell):
        return model
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(model, torch.nn.Module):
        from .torch_cell import TorchCell  # noqa: PLC0415  optional extra

        return TorchCell(model)
    raise InvalidModel(
        f"certificates by bounds expect an engine Cell or a torch Module, got {type(model).__name__}; "
        "hand over the network itself, or use smoothing"
    )


def certified_radius(
    model: object,
    x: ArrayLike,
    y: ArrayLike,
    *,
    norm: BallNorm = "linf",
    method: Method = "crown",
    bounds: tuple[float, float] = (0.0, 1.0),
    most: float = 1.0,
    tolerance: float = 1e-3,
) -> Floats:
    """Return `(n,)` proven budgets, found by halving an interval to `tolerance` of `most`; 0 where none is proven."""
    cell, inputs, labels = as_cell(model), np.asarray(x, np.float64), np.asarray(y)
    low, high = np.zeros(len(inputs)), np.full(len(inputs), float(most))
    for _ in range(max(1, int(np.ceil(-np.log2(tolerance))))):
        middle = (low + high) / 2
        proven = np.array(
            [
                certify(cell, inputs[i : i + 1], labels[i : i + 1], e, norm=norm, method=method, bounds=bounds).accuracy
                for i, e in enumerate(middle)
            ]
        )[:, 0]
        low, high = np.where(proven > 0, middle, low), np.where(proven > 0, high, middle)
    return low


def _margin(
    program: NetworkProgram,
    sample: Floats,
    label: int,
    epsilon: float,
    *,
    norm: BallNorm,
    method: Method,
    bounds: tuple[float, float],
) -> float:
    region = Interval(*(np.clip(sample[None] + side * epsilon, *bounds) for side in (-1, 1)))
    output = len(program.steps)
    classes = program.shape_of(output)[-1]
    others = [c for c in range(classes) if c != label]
    wanted = np.zeros((len(others), 1, classes))
    wanted[:, 0, label] = 1.0
    wanted[np.arange(len(others)), 0, others] = -1.0
    if method == "ibp":
        return float(np.min(least_from_intervals(program, interval_bounds(program, region), output, wanted)))
    known = crown_bounds(program, region)
    below = bound_below(program, known, output, wanted)
    # Both hold; where most units are unsure the tightened intervals are the better ones.
    least = np.maximum(below.least(region), least_from_intervals(program, known, output, wanted))
    if norm == "l2":
        least = np.maximum(least, below.least_in_ball(sample, epsilon))
    return float(np.min(least))


def _check_arguments(
    x: ArrayLike, y: ArrayLike, epsilons: float | Iterable[float], bounds: tuple[float, float]
) -> tuple[Floats, NDArray[np.int64], tuple[float, ...]]:
    inputs = np.asarray(x.numpy() if isinstance(x, Tensor) else x, np.float64)
    labels = np.asarray(y.numpy() if isinstance(y, Tensor) else y)
    budgets = (float(epsilons),) if isinstance(epsilons, int | float) else tuple(float(e) for e in epsilons)
    if inputs.ndim < 2 or not inputs.size or not np.isfinite(inputs).all():
        raise InvalidInput(f"x expects finite samples (n, ...), one or more, got shape {inputs.shape}")
    if inputs.min() < bounds[0] or inputs.max() > bounds[1]:
        raise InvalidInput(f"x expects values within bounds {bounds}, got {inputs.min():g} to {inputs.max():g}")
    if labels.shape != inputs.shape[:1] or labels.dtype.kind not in "iu":
        raise InvalidInput(f"y expects {len(inputs)} integer classes, got {labels.dtype} of shape {labels.shape}")
    if not budgets or not all(np.isfinite(e) and e >= 0 for e in budgets):
        raise InvalidInput(f"epsilons expects finite budgets of 0 or more, got {budgets}")
    return inputs, labels.astype(np.int64), budgets


def certificate_outcomes(certificate: Certificate) -> list[Outcome]:
    """Return one outcome for each budget, `certified ibp` or `certified crown`: a lower bound of the accuracy."""
    details: dict[str, Json] = {"kind": "certificate", "method": certificate.method}
    return [
        Outcome(
            f"certified {certificate.method}", certificate.norm, budget, float(share), certificate.margins.shape[1],
            details=details,
        )
        for budget, share in zip(certificate.epsilons, certificate.accuracy, strict=True)
    ]  # fmt: skip
