"""Cross entropy: the negative log-probability of the labels, or of probabilities."""

import numpy as np

from .. import kernels
from ..context import quiet
from ..dtype import float32, float64, is_floating
from ..errors import DtypeError, ShapeError
from ..primitive import Primitive
from ..shape import Spec
from ..tensor import Array, Tensor
from .activation import log_softmax, softmax
from .arithmetic import multiply
from .choose import where
from .compare import not_equal
from .create import full
from .elements import gather_elements
from .loss_reduction import Reduction, last_axis, reduced
from .operands import as_real, as_tensor, cast_to
from .rows import gather


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
    wrong = kernels.softmax.cross_entropy(rows, np.ascontiguousarray(labels), out, ignore, float(smoothing))
    if wrong >= 0:
        raise ShapeError(
            f"label {labels[wrong]} at row {wrong} names no class; "
            f"expected 0..{logits.shape[1] - 1}, or {ignore} to ignore"
        )
    return out.astype(logits.dtype, copy=False)


def _cross_entropy_gradient_of(g: Array, logits: Array, labels: Array, *, ignore: int, smoothing: float) -> Array:
    rows = _rows(logits)
    out = np.empty_like(rows)
    kernels.softmax.cross_entropy_gradient(_rows(g), rows, np.ascontiguousarray(labels), out, ignore, float(smoothing))
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
    """The negative log-probability of the labels under `softmax(logits)`.

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
    """The losses of rows whose class has a weight, `counted`, 0 for those that are ignored."""
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
