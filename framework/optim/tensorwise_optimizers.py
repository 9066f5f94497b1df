"""Optimizers whose update looks at a whole parameter: Lars, Lamb, Adafactor, Muon."""

from math import prod, sqrt

import numpy as np

from ..dtype import Array
from .elementwise_optimizers import below_one, not_negative
from .optimizer import Optimizer
from .parameter_groups import Group, Params, Rate
from .parameter_update import UpdateRule, load_kernels


class Lars(Optimizer):
    """Momentum whose rate is scaled, tensor by tensor, to the length of the weights over that of the gradient.

    Args:
        params: Parameters or groups; biases and norms go into a group with `coefficient=0`, whose rate is not scaled.
        learning_rate: Number, schedule, or a list with a rate for each step.
        momentum: Share of the previous update, in [0, 1).
        weight_decay: L2 penalty, added to the gradient and to its length.
        coefficient: How far a step goes, as a share of the length of the weights; 0 turns the scaling off.
        eps: Added to the length of the gradient.

    Reference:
        You et al. 2017, arXiv:1708.03888, algorithm 1.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        coefficient: float = 1e-3,
        eps: float = 1e-5,
    ) -> None:
        options = {"momentum": momentum, "weight_decay": weight_decay, "coefficient": coefficient, "eps": eps}
        super().__init__(params, learning_rate, slots=("momentum_buffer",), **options)

    def _check_options(self, group: Group) -> None:
        below_one(self, group, "momentum")
        not_negative(self, group, "weight_decay", "coefficient", "eps")

    def _rule(self, group: Group, step: int) -> UpdateRule:
        del step
        names = ("lr", "momentum", "weight_decay", "coefficient", "eps")
        return UpdateRule(load_kernels().lars, tuple(float(group[name]) for name in names), scope="vector")


class Lamb(Optimizer):
    """Adam's step, scaled tensor by tensor to the length of the weights: `w -= lr * |w| / |r| * r`.

    Where the weights or the step are zero the scale is 1.

    Args:
        params: Parameters or groups.
        learning_rate: Number, schedule, or a list with a rate for each step.
        beta1: Decay of the first moment, in [0, 1).
        beta2: Decay of the second moment, in [0, 1).
        eps: Added to the root, after its correction.
        weight_decay: Share of the weights in the step, before it is scaled.

    Reference:
        You et al. 2020, arXiv:1904.00962, algorithm 2.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        options = {"beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, learning_rate, slots=("exp_avg", "exp_avg_sq"), **options)

    def _check_options(self, group: Group) -> None:
        below_one(self, group, "beta1", "beta2")
        not_negative(self, group, "weight_decay")
        if not group["eps"] > 0.0:
            raise ValueError(f"Lamb expects eps above 0, got {group['eps']}")

    def _rule(self, group: Group, step: int) -> UpdateRule:
        beta1, beta2 = group["beta1"], group["beta2"]
        corrections = (1.0 - beta1**step, sqrt(1.0 - beta2**step))
        scalars = (group["lr"], *corrections, beta1, beta2, group["eps"], group["weight_decay"])
        return UpdateRule(load_kernels().lamb, scalars, scope="vector")


#: MindSpore's name; its own wraps another optimizer instead.
LARS = Lars


class Adafactor(Optimizer):
    """Steps relative to the size of the weights, with memory for two vectors instead of a matrix.

    A tensor of two axes or more keeps the mean squares of its rows (`row_var`) and of its columns (`col_var`), over
    its last two axes; a vector keeps all of them (`variance`). There is no first moment.

    Args:
        params: Parameters or groups.
        learning_rate: The most that the relative step may be: `min(learning_rate, 1 / sqrt(step))`.
        decay_rate: The second moments keep `1 - step ** -decay_rate`.
        eps: The least root mean square of an update's denominator (None: the dtype's own epsilon), and the least root
            mean square that weights are taken to have.
        clip_threshold: Updates of a larger root mean square are shortened to it.
        weight_decay: Share of the rate by which the weights shrink in each step.

    Reference:
        Shazeer and Stern 2018, arXiv:1804.04235, algorithms 4 and 5.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate = 1e-2,
        decay_rate: float = 0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        clip_threshold: float = 1.0,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(
            params,
            learning_rate,
            slots=("row_var", "col_var", "variance"),
            decay_rate=decay_rate,
            eps=eps,
            clip_threshold=clip_threshold,
            weight_decay=weight_decay,
        )

    def _check_options(self, group: Group) -> None:
        not_negative(self, group, "decay_rate", "weight_decay")
        if not group["clip_threshold"] > 0.0:
            raise ValueError(f"Adafactor expects clip_threshold above 0, got {group['clip_threshold']}")
        if len(group["eps"]) != 2 or any(value is not None and not value >= 0.0 for value in group["eps"]):
            raise ValueError(f"Adafactor expects eps to be two numbers of 0 or more, got {group['eps']}")

    def _slot_shape(self, name: str, shape: tuple[int, ...], group: int) -> tuple[int, ...]:
        del group
        if len(shape) < 2:
            return shape if name == "variance" else (0,)
        return {"row_var": shape[:-1], "col_var": (*shape[:-2], shape[-1]), "variance": (0,)}[name]

    def _rule(self, group: Group, step: int) -> UpdateRule:
        fresh = step ** -group["decay_rate"]
        relative = min(group["lr"], 1.0 / sqrt(step))
        keep = 1.0 - group["lr"] * group["weight_decay"]
        return UpdateRule(
            _move_factored, (relative, fresh, keep, *group["eps"], group["clip_threshold"]), scope="tensor"
        )


def _move_factored(
    weight: Array,
    gradient: Array,
    rows: Array,
    columns: Array,
    variance: Array,
    relative: float,
    fresh: float,
    keep: float,
    least_root: float | None,
    least_weight: float,
    threshold: float,
) -> None:
    least = float(np.finfo(weight.dtype).eps) if least_root is None else least_root
    rate = max(least_weight, _root_mean_square(weight)) * relative
    squares = gradient * gradient
    if weight.ndim < 2:
        variance += fresh * (squares - variance)
        estimate = variance
    else:
        rows += fresh * (squares.mean(-1) - rows)
        columns += fresh * (squares.mean(-2) - columns)
        total = np.maximum(rows.mean(-1), least)[..., None, None]
        estimate = rows[..., :, None] * columns[..., None, :] / total
    update = gradient / np.sqrt(np.maximum(estimate, least * least))
    rate /= max(1.0, _root_mean_square(update) / threshold)
    weight *= keep
    weight -= update * weight.dtype.type(rate)


def _root_mean_square(array: Array) -> float:
    if not array.size:
        return 0.0
    return sqrt(float(np.square(array, dtype=np.float64).mean()))


#: MindSpore's name.
AdaFactor = Adafactor


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

    def _rule(self, group: Group, step: int) -> UpdateRule:
        return UpdateRule(_move_orthogonalized, (group, step), scope="tensor")


def orthogonalized(
    matrix: Array, steps: int = 5, coefficients: Coefficients = _COEFFICIENTS, eps: float = 1e-7
) -> Array:
    """Return a matrix of the same singular vectors, its singular values between 0.7 and 1.2 where they were not tiny.

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


def _move_orthogonalized(
    weight: Array, gradient: Array, exp_avg: Array, exp_avg_sq: Array, group: Group, step: int
) -> None:
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
