"""Momentum made orthogonal, matrix by matrix: Muon, with AdamW for what is no matrix."""

from math import prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .adaptive import below_one, not_negative
from .groups import Group, Params, Rate
from .optimizer import Optimizer
from .rule import Rule, load_kernels

Array = NDArray[Any]
Coefficients = tuple[float, float, float]

#: Of the polynomial `a x + b x**3 + c x**5`, chosen by Jordan for the steepest rise at 0.
_COEFFICIENTS: Coefficients = (3.4445, -4.7750, 2.0315)
_ADJUSTMENTS = ("match_rms_adamw", "original", "none")


class Muon(Optimizer):
    """The momentum of a matrix with all its singular values brought near 1; vectors and scalars take AdamW's step.

    A tensor of more than two axes counts as a matrix with one row for each index of its first axis, as a convolution
    is computed. Embeddings and output layers do better with AdamW: put them into a group with `orthogonal=False`.

    Args:
        params: Parameters or groups.
        learning_rate: Number, schedule, or a list with a rate for each step. One made for AdamW
            fits at `match_rms_adamw`.
        momentum: Decay of the momentum, in [0, 1).
        nesterov: Whether the step looks ahead.
        weight_decay: Share of the rate by which the weights shrink in each step.
        ns_steps: Newton-Schulz iterations.
        ns_coefficients: Their polynomial.
        eps: The least length that a matrix is divided by.
        adjust: How the rate depends on the shape: `original` takes `sqrt(max(1, rows / columns))`, `match_rms_adamw`
            `0.2 * sqrt(max(rows, columns))`, `none` 1.
        betas: Of AdamW.
        adam_eps: Of AdamW.
        orthogonal: Whether matrices of the group are treated as such.

    Reference:
        Jordan et al. 2024, "Muon: an optimizer for hidden layers in neural networks"; Liu et al. 2025,
        arXiv:2502.16982, eq. 4 (the adjusted rate).
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate = 1e-3,
        momentum: float = 0.95,
        nesterov: bool = True,
        weight_decay: float = 0.1,
        ns_steps: int = 5,
        ns_coefficients: Coefficients = _COEFFICIENTS,
        eps: float = 1e-7,
        adjust: str = "match_rms_adamw",
        betas: tuple[float, float] = (0.9, 0.95),
        adam_eps: float = 1e-8,
        orthogonal: bool = True,
    ) -> None:
        super().__init__(
            params,
            learning_rate,
            slots=("exp_avg", "exp_avg_sq"),
            momentum=momentum,
            nesterov=nesterov,
            weight_decay=weight_decay,
            ns_steps=ns_steps,
            ns_coefficients=tuple(ns_coefficients),
            eps=eps,
            adjust=adjust,
            betas=betas,
            adam_eps=adam_eps,
            orthogonal=orthogonal,
        )

    def _check_options(self, group: Group) -> None:
        below_one(self, group, "momentum")
        not_negative(self, group, "weight_decay", "eps", "adam_eps")
        if not 1 <= group["ns_steps"] < 100:
            raise ValueError(f"Muon expects ns_steps from 1 to 99, got {group['ns_steps']}")
        if group["adjust"] not in _ADJUSTMENTS:
            raise ValueError(f"Muon expects adjust to be one of {', '.join(_ADJUSTMENTS)}, got {group['adjust']!r}")
        if not all(0.0 <= beta < 1.0 for beta in group["betas"]):
            raise ValueError(f"Muon expects both betas in [0, 1), got {group['betas']}")

    def _slot_shape(self, name: str, shape: tuple[int, ...], group: int) -> tuple[int, ...]:
        is_matrix = len(shape) >= 2 and self.param_groups[group]["orthogonal"]
        return (0,) if is_matrix and name == "exp_avg_sq" else shape

    def _rule(self, group: Group, step: int) -> Rule:
        return Rule(_move, (group, step), scope="tensor")


def orthogonalized(
    matrix: Array, steps: int = 5, coefficients: Coefficients = _COEFFICIENTS, eps: float = 1e-7
) -> Array:
    """A matrix of the same singular vectors, its singular values between 0.7 and 1.2 where they were not tiny.

    Args:
        matrix: `(rows, columns)`.
        steps: Newton-Schulz iterations.
        coefficients: `a, b, c` of `a x + b x**3 + c x**5`.
        eps: The least length that the matrix is divided by.

    Reference:
        Jordan et al. 2024.
    """
    a, b, c = coefficients
    x = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    x = x / max(float(np.linalg.norm(x)), eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x if matrix.shape[0] <= matrix.shape[1] else x.T


def _move(weight: Array, gradient: Array, exp_avg: Array, exp_avg_sq: Array, group: Group, step: int) -> None:
    rate = group["lr"]
    keep = 1.0 - rate * group["weight_decay"]
    if weight.ndim < 2 or not group["orthogonal"]:
        _move_by_adam(weight, gradient, exp_avg, exp_avg_sq, group, step)
        return
    mu = group["momentum"]
    exp_avg += (1.0 - mu) * (gradient - exp_avg)
    ahead = gradient + mu * (exp_avg - gradient) if group["nesterov"] else exp_avg
    rows = weight.shape[0]
    matrix = ahead.reshape(rows, -1) if weight.size else ahead.reshape(rows, 0)
    update = orthogonalized(matrix, group["ns_steps"], group["ns_coefficients"], group["eps"])
    weight *= keep
    weight -= (rate * _adjusted(group["adjust"], rows, prod(weight.shape[1:]))) * update.reshape(weight.shape)


def _move_by_adam(weight: Array, gradient: Array, exp_avg: Array, exp_avg_sq: Array, group: Group, step: int) -> None:
    beta1, beta2 = group["betas"]
    load_kernels().adam(
        weight.reshape(-1),
        gradient.reshape(-1),
        exp_avg.reshape(-1),
        exp_avg_sq.reshape(-1),
        group["lr"] / (1.0 - beta1**step),
        sqrt(1.0 - beta2**step),
        1.0 - beta1,
        beta2,
        1.0 - beta2,
        group["adam_eps"],
        0.0,
        1.0 - group["lr"] * group["weight_decay"],
    )


def _adjusted(adjust: str, rows: int, columns: int) -> float:
    if adjust == "original":
        return sqrt(max(1.0, rows / columns))
    return 0.2 * sqrt(max(rows, columns)) if adjust == "match_rms_adamw" else 1.0
