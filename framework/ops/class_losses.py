"""Losses of classes and probabilities: negative log-likelihood, cross entropy, divergence, CTC."""

import math
from typing import Literal

import numpy as np

from .. import kernels
from ..context import quiet
from ..dtype import float32, float64, is_floating
from ..errors import DtypeError, ShapeError
from ..primitive import Primitive
from ..specs import Spec, normalize_axis
from ..tensor import Array, Tensor, wrap
from .activation_ops import log_softmax, softmax
from .arithmetic_ops import add, divide, maximum, multiply, negative
from .create import full
from .gather_scatter import gather, gather_elements
from .indexing_ops import narrow
from .layout import concat, moveaxis, stack
from .logic_ops import equal, logical_and, not_equal, where
from .operands import as_real, as_tensor, cast_to
from .rectifier import softplus
from .reduce import broadcast_to
from .rounding_ops import clip
from .special_functions import logaddexp, xlogy
from .transcendental import exp, log

Reduction = Literal["mean", "sum", "none"]


def reduced(losses: Tensor, reduction: Reduction, weight: Tensor | None = None) -> Tensor:
    """Return the losses, their sum, or their mean: the weighted one where they carry weights that add up to
    `weight`."""
    if reduction == "mean":
        return losses.mean() if weight is None else losses.sum() / weight
    if reduction == "sum":
        return losses.sum()
    if reduction == "none":
        return losses
    raise ValueError(f"no reduction {reduction!r}; use 'mean', 'sum' or 'none'")


def last_axis(x: Tensor, axis: int) -> Tensor:
    """Return the tensor with that axis moved to the end."""
    place = normalize_axis(axis, x.ndim)
    return x if place == x.ndim - 1 else moveaxis(x, place, -1)


def nll(
    log_probabilities: Tensor,
    labels: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    reduction: Reduction = "mean",
    axis: int = -1,
) -> Tensor:
    """Return the negative of the log-probabilities at the labels.

    Args:
        log_probabilities: `(*batch, classes)`.
        labels: `(*batch)`, integers.
        weight: `(classes)`: what an example of a class counts; the mean is then a weighted one.
        ignore_index: A label that counts nothing; the mean is over the others.
        reduction: Over the batch.
        axis: Where the classes lie; 1 for PyTorch's images.
    """
    log_p, labels = last_axis(log_probabilities, axis), as_tensor(labels)
    if log_p.shape[:-1] != labels.shape:
        raise ShapeError(
            f"nll expects log-probabilities (*batch, classes) and labels (*batch), got {log_p.shape} and {labels.shape}"
        )
    is_known = not_equal(labels, ignore_index)
    known = where(is_known, labels, 0)
    counted = cast_to(is_known, log_p.dtype)
    if weight is not None:
        counted = multiply(counted, gather(cast_to(weight, log_p.dtype), known))
    picked = gather_elements(log_p, known.reshape(*labels.shape, 1), -1).reshape(labels.shape)
    # A multiplication would make 0 times minus infinity of an ignored one.
    return reduced(where(is_known, -multiply(counted, picked), 0.0), reduction, counted.sum())


def _check_same(name: str, prediction: Tensor, target: Tensor) -> None:
    if prediction.shape != target.shape:
        raise ShapeError(f"{name} expects equal shapes, got {prediction.shape} and {target.shape}")


def mse(prediction: Tensor, target: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """Return the squared difference."""
    _check_same("mse", prediction, as_tensor(target))
    difference = prediction - target
    return reduced(multiply(difference, difference), reduction)


def bce_with_logits(
    logits: Tensor,
    target: Tensor,
    *,
    weight: Tensor | None = None,
    pos_weight: Tensor | None = None,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return binary cross entropy of `sigmoid(logits)` and a target in [0, 1], without overflow.

    Args:
        logits: Real.
        target: Of the same shape.
        weight: Factor of each loss; broadcast.
        pos_weight: Factor of the part of the target; broadcast, usually one for each class.
        reduction: Over all elements.
    """
    _check_same("bce_with_logits", logits, as_tensor(target))
    if pos_weight is None:
        losses = softplus(logits) - logits * target
    else:
        losses = softplus(logits) * (1.0 - target) + softplus(-logits) * (target * pos_weight)
    return reduced(losses if weight is None else losses * weight, reduction)


def bce(prediction: Tensor, target: Tensor, *, weight: Tensor | None = None, reduction: Reduction = "mean") -> Tensor:
    """Return binary cross entropy of probabilities and a target in [0, 1]; logarithms are cut at -100, as in
    PyTorch."""
    _check_same("bce", prediction, as_tensor(target))
    first, second = (where(p > 0.0, log(where(p > 0.0, p, 1.0)), -100.0) for p in (prediction, 1.0 - prediction))
    losses = -(target * clip(first, -100.0) + (1.0 - target) * clip(second, -100.0))
    return reduced(losses if weight is None else losses * weight, reduction)


def kl_divergence(logits: Tensor, target_logits: Tensor, *, reduction: Reduction = "mean") -> Tensor:
    """`sum(p (log p - log q))` along the last axis, q of `logits`, p of `target_logits`."""
    log_q, log_p = log_softmax(logits), log_softmax(target_logits)
    return reduced((exp(log_p) * (log_p - log_q)).sum(-1), reduction)


def kl_div(
    log_prediction: Tensor, target: Tensor, *, is_log_target: bool = False, reduction: Reduction = "mean"
) -> Tensor:
    """Return `p (log p - log q)` element by element, q given by its logarithm, p as it is or by its logarithm."""
    given = exp(target) * target if is_log_target else xlogy(target, target)
    losses = given - (exp(target) if is_log_target else target) * log_prediction
    return reduced(losses, reduction)


def _rows(x: Array) -> Array:
    return np.ascontiguousarray(x if x.dtype in (float32, float64) else x.astype(float32))


def _check(logits: Spec, labels: Spec) -> None:
    if len(logits.shape) != 2 or labels.shape != logits.shape[:1]:
        raise ShapeError(
            f"cross entropy expects logits (rows, classes) and labels (rows), got {logits.shape} and {labels.shape}"
        )


def _infer(logits: Spec, labels: Spec, **_: object) -> Spec:
    _check(logits, labels)
    return Spec(labels.shape, logits.dtype)


def _cross_entropy_of(logits: Array, labels: Array, *, ignore: int, smoothing: float) -> Array:
    _check(Spec(logits.shape, logits.dtype), Spec(labels.shape, labels.dtype))
    rows = _rows(logits)
    out = np.empty(len(rows), rows.dtype)
    wrong = kernels.softmax_kernels.cross_entropy(rows, np.ascontiguousarray(labels), out, ignore, float(smoothing))
    if wrong >= 0:
        raise ShapeError(
            f"label {labels[wrong]} at row {wrong} names no class; "
            f"expected 0..{logits.shape[1] - 1}, or {ignore} to ignore"
        )
    return out.astype(logits.dtype, copy=False)


def _cross_entropy_gradient_of(g: Array, logits: Array, labels: Array, *, ignore: int, smoothing: float) -> Array:
    rows = _rows(logits)
    out = np.empty_like(rows)
    kernels.softmax_kernels.cross_entropy_gradient(
        _rows(g), rows, np.ascontiguousarray(labels), out, ignore, float(smoothing)
    )
    return out.astype(logits.dtype, copy=False)


def _bend_of_weight(
    gg: Tensor, _: None, g: Tensor, logits: Tensor, labels: Tensor, *, ignore: int, smoothing: float
) -> Tensor:
    one = full(g.shape, 1, g.dtype)
    unit = _cross_entropy_gradient(one, logits, labels, ignore=ignore, smoothing=smoothing)
    return (gg * unit).sum(-1)


def _bend_of_logits(
    gg: Tensor, _: None, g: Tensor, logits: Tensor, labels: Tensor, *, ignore: int, smoothing: float
) -> Tensor:
    counted = cast_to(not_equal(labels, ignore), logits.dtype)
    y = softmax(logits)
    weighted = gg * (g * counted).reshape(-1, 1)
    return y * (weighted - (weighted * y).sum(-1, keepdims=True))


_cross_entropy: Primitive = Primitive(
    "cross_entropy",
    _cross_entropy_of,
    _infer,
    (lambda g, _, logits, labels, **how: _cross_entropy_gradient(g, logits, labels, **how), None),
    eager_vjp=lambda needs, g, _, *at, **how: (_cross_entropy_gradient.evaluate(g, *at, **how), None),
)


_cross_entropy_gradient: Primitive = Primitive(
    "cross_entropy_gradient",
    _cross_entropy_gradient_of,
    lambda g, logits, labels, **_: logits,
    (_bend_of_weight, _bend_of_logits, None),
)


@quiet()
def cross_entropy(
    logits: Tensor,
    labels: Tensor,
    *,
    weight: Tensor | None = None,
    ignore_index: int = -100,
    label_smoothing: float = 0.0,
    reduction: Reduction = "mean",
    axis: int = -1,
) -> Tensor:
    """Return the negative log-probability of the labels under `softmax(logits)`.

    Args:
        logits: `(*batch, classes)`, unnormalized.
        labels: `(*batch)`, integers; or probabilities of the shape of the logits.
        weight: `(classes)`: what an example of a class counts; the mean is then a weighted one (not for probabilities).
        ignore_index: A label that counts nothing; the mean is over the others (NaN if there are none).
        label_smoothing: Share of the target spread evenly over all classes.
        reduction: Over the batch.
        axis: Where the classes lie in the logits; 1 for PyTorch's images.
    """
    logits, labels = last_axis(as_real(logits, "cross_entropy"), axis), as_tensor(labels)
    if labels.dtype.kind not in "iu":
        if not is_floating(labels.dtype):
            raise DtypeError(f"cross entropy expects integer labels or probabilities, got {labels.dtype}")
        return reduced(_soft_losses(logits, last_axis(labels, axis), weight, label_smoothing), reduction)
    if logits.shape[:-1] != labels.shape:
        raise ShapeError(
            f"'cross_entropy' cannot take logits {logits.shape} and labels {labels.shape}: "
            f"it expects (*batch, classes) and (*batch)"
        )
    rows, flat = logits, labels
    if labels.ndim != 1:
        rows, flat = logits.reshape(-1, logits.shape[-1]), labels.reshape(-1)
    is_known = not_equal(flat, ignore_index)
    if weight is None:
        losses: Tensor = _cross_entropy(rows, flat, ignore=ignore_index, smoothing=label_smoothing)
        total = cast_to(cast_to(is_known, float32).sum(), logits.dtype) if reduction == "mean" else None
    else:
        known = where(is_known, flat, 0)
        counted = multiply(cast_to(is_known, logits.dtype), gather(cast_to(weight, logits.dtype), known))
        losses, total = _weighted_losses(rows, known, counted, weight, label_smoothing), counted.sum()
    if reduction == "none":
        return losses if labels.ndim == 1 else losses.reshape(labels.shape)
    return reduced(losses, reduction, total)


def _weighted_losses(rows: Tensor, labels: Tensor, counted: Tensor, weight: Tensor, smoothing: float) -> Tensor:
    """Return the losses of rows whose class has a weight, `counted`, 0 for those that are ignored."""
    log_p = log_softmax(rows)
    hard = -multiply(counted, gather_elements(log_p, labels.reshape(-1, 1), 1).reshape(-1))
    if smoothing == 0.0:
        return hard
    spread = -multiply(log_p, cast_to(weight, rows.dtype)).sum(-1)
    even = where(counted == 0.0, 0.0, spread)
    return hard * (1.0 - smoothing) + even * (smoothing / rows.shape[-1])


def _soft_losses(logits: Tensor, target: Tensor, weight: Tensor | None, smoothing: float) -> Tensor:
    if target.shape != logits.shape:
        raise ShapeError(f"probabilities expect the shape of the logits {logits.shape}, got {target.shape}")
    if smoothing:
        target = target * (1.0 - smoothing) + smoothing / logits.shape[-1]
    if weight is not None:
        target = multiply(target, weight)
    return -multiply(target, log_softmax(logits)).sum(-1)


def _moved(alpha: Tensor, by: int) -> Tensor:
    """Return every state's value at the state `by` places later; minus infinity comes in."""
    if by >= alpha.shape[1]:
        return full(alpha.shape, -math.inf, alpha.dtype)
    nothing = full((alpha.shape[0], by), -math.inf, alpha.dtype)
    return concat([nothing, narrow(alpha, 1, 0, alpha.shape[1] - by)], 1)


def ctc_loss(
    log_probabilities: Tensor,
    targets: Tensor,
    input_lengths: Tensor,
    target_lengths: Tensor,
    *,
    blank: int = 0,
    zero_infinity: bool = False,
    reduction: Reduction = "mean",
) -> Tensor:
    """Return the negative logarithm of the probability of label sequences, summed over all their alignments.

    Made of basic primitives, a few for each step, so that derivatives of any order exist.

    Args:
        log_probabilities: `(steps, batch, classes)`.
        targets: `(batch, labels)`, integers; what lies behind a sequence's length is ignored.
        input_lengths: `(batch)`.
        target_lengths: `(batch)`.
        blank: The class that stands for no label.
        zero_infinity: Count sequences that cannot be aligned as 0 instead of infinity.
        reduction: Over the batch; the mean is of each loss divided by its number of labels (1 for none).

    Reference:
        Graves et al. 2006, "Connectionist temporal classification", eqs. 5-8.
    """
    log_p, targets = as_real(log_probabilities, "ctc_loss"), as_tensor(targets)
    inputs, lengths = as_tensor(input_lengths), as_tensor(target_lengths)
    if log_p.ndim != 3 or targets.ndim != 2 or targets.shape[0] != log_p.shape[1]:
        raise ShapeError(
            f"ctc_loss expects log-probabilities (steps, batch, classes) and targets (batch, labels), "
            f"got {log_p.shape} and {targets.shape}"
        )
    steps, batch, _ = log_p.shape
    blanks = full(targets.shape, blank, targets.dtype)
    first = full((batch, 1), blank, targets.dtype)
    states = concat([stack([blanks, targets], 2).reshape(batch, -1), first], 1)
    count = states.shape[1]
    emitted = gather_elements(log_p, broadcast_to(states.reshape(1, batch, count), (steps, batch, count)), 2)
    jumps = logical_and(not_equal(states, blank), not_equal(states, concat([first, first, states], 1)[:, :count]))
    start = wrap(np.arange(count).reshape(1, -1) < 2)
    alpha = where(start, emitted[0], -math.inf)
    for step in range(1, steps):
        stay = logaddexp(alpha, _moved(alpha, 1))
        reached = add(logaddexp(stay, where(jumps, _moved(alpha, 2), -math.inf)), emitted[step])
        alpha = where((inputs > step).reshape(-1, 1), reached, alpha)
    losses = _read(alpha, lengths)
    if zero_infinity:
        losses = where(equal(losses, math.inf), 0.0, losses)
    if reduction == "mean":
        losses = divide(losses, cast_to(maximum(lengths, 1), losses.dtype))
    return reduced(losses, reduction)


def _read(alpha: Tensor, lengths: Tensor) -> Tensor:
    """Return minus the logarithm of the probability to end in the last label or in the blank behind it."""
    place = lengths.reshape(-1, 1) * 2
    end = gather_elements(alpha, place, 1)
    before = where(place > 0, gather_elements(alpha, maximum(place - 1, 0), 1), -math.inf)
    return negative(logaddexp(end, before)).reshape(-1)
