"""Losses, and the steps of optimizers from the domain ai.onnx.preview.training."""

from collections.abc import Callable

import numpy as np

from ... import ops
from ...tensor import Tensor, wrap
from ..operator_call import Elements, OperatorCall, array_of, operator


def _reduced(call: OperatorCall, log_p: Tensor, target: Tensor, weight: Tensor | None) -> Tensor:
    """Return minus the logarithms at the targets, weighted, and summed up as asked for."""
    ignored = call.get("ignore_index")
    classes = log_p.shape[1]
    labels = ops.cast(target, "int64")
    counted = ops.not_equal(labels, ignored) if ignored is not None else wrap(np.ones(target.shape, np.bool_))
    safe = ops.where(counted, labels, ops.zeros_like(labels))
    safe = ops.where(ops.less(safe, 0), safe + classes, safe)
    last = log_p.transpose(0, *range(2, log_p.ndim), 1).reshape(-1, classes)
    rows = wrap(np.arange(last.shape[0]))
    flat = safe.reshape(-1)
    each = wrap(np.ones(flat.shape, log_p.dtype)) if weight is None else weight[flat]
    each = ops.where(counted.reshape(-1), each, 0.0)
    loss = -(last[rows, flat] * each)
    how = call.get("reduction", "mean")
    if how == "none":
        return loss.reshape(target.shape)
    return loss.sum() if how == "sum" else loss.sum() / each.sum()


@operator("NegativeLogLikelihoodLoss")
def nll(call: OperatorCall, log_p: Tensor, target: Tensor, weight: Tensor | None = None) -> Tensor:
    """Return minus the logarithm of the probability of the right class."""
    return _reduced(call, log_p, target, weight)


@operator("SoftmaxCrossEntropyLoss")
def cross_entropy(
    call: OperatorCall, scores: Tensor, target: Tensor, weight: Tensor | None = None
) -> tuple[Tensor, ...]:
    """Return the loss of scores, and the logarithms of the probabilities."""
    log_p = ops.log_softmax(scores, 1)
    return _reduced(call, log_p, target, weight), log_p


_DOMAIN = "ai.onnx.preview.training"


def _each(
    call: OperatorCall, inputs: tuple[Tensor, ...], groups: int, step: Callable[..., tuple[Tensor, ...]]
) -> tuple[Tensor, ...]:
    """Return the step taken for every tensor: `inputs` are its groups one after the other, so are the outputs."""
    count = len(inputs) // groups
    results = [step(*inputs[i::count]) for i in range(count)]
    return tuple([part for column in zip(*results, strict=True) for part in column])


@operator("Adam", domain=_DOMAIN)
def adam(call: OperatorCall, rate: Elements, step: Elements, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Update by Kingma and Ba 2014, arXiv:1412.6980; `r` is corrected for the start where the step is above 0."""
    alpha, beta, epsilon = call.get("alpha", 0.9), call.get("beta", 0.999), call.get("epsilon", 1e-6)
    before, after = call.get("norm_coefficient", 0.0), call.get("norm_coefficient_post", 0.0)
    t, r = int(array_of(step)), float(array_of(rate))
    if t > 0:
        r *= float(np.sqrt(1 - beta**t)) / (1 - alpha**t)

    def one(x: Tensor, g: Tensor, v: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        g = x * before + g
        v = v * alpha + g * (1 - alpha)
        h = h * beta + g * g * (1 - beta)
        return (x - v / (ops.sqrt(h) + epsilon) * r) * (1 - after), v, h

    return _each(call, inputs, 4, one)


@operator("Momentum", domain=_DOMAIN)
def momentum(call: OperatorCall, rate: Elements, step: Elements, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Return gradient descent with momentum, or Nesterov's."""
    alpha, norm = call.get("alpha"), call.get("norm_coefficient", 0.0)
    r, share = float(array_of(rate)), call.get("beta") if int(array_of(step)) > 0 else 1.0

    def one(x: Tensor, g: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        g = x * norm + g
        v = v * alpha + g * share
        return x - (v if call.get("mode") == "standard" else g + v * alpha) * r, v

    return _each(call, inputs, 3, one)


@operator("Adagrad", domain=_DOMAIN)
def adagrad(call: OperatorCall, rate: Elements, step: Elements, *inputs: Tensor) -> tuple[Tensor, ...]:
    """Update by Duchi et al. 2011, "Adaptive subgradient methods"."""
    norm, epsilon = call.get("norm_coefficient", 0.0), call.get("epsilon", 1e-6)
    r = float(array_of(rate)) / (1 + int(array_of(step)) * call.get("decay_factor", 0.0))

    def one(x: Tensor, g: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        g = x * norm + g
        h = h + g * g
        return x - g / (ops.sqrt(h) + epsilon) * r, h

    return _each(call, inputs, 3, one)
