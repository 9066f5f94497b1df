"""Steps of optimizers, of the domain ai.onnx.preview.training: inputs come in groups, one entry a tensor."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ... import ops
from ...tensor import Tensor
from ..call import Call, array_of
from ..registry import operator

_DOMAIN = "ai.onnx.preview.training"


def _each(call: Call, inputs: tuple[Any, ...], groups: int, step: Callable[..., tuple[Tensor, ...]]) -> tuple[Any, ...]:
    """The step taken for every tensor: `inputs` are its groups one after the other, so are the outputs."""
    count = len(inputs) // groups
    results = [step(*inputs[i::count]) for i in range(count)]
    return tuple([part for column in zip(*results, strict=True) for part in column])


@operator("Adam", domain=_DOMAIN)
def adam(call: Call, rate: Any, step: Any, *inputs: Tensor) -> tuple[Any, ...]:
    """Kingma and Ba 2014, arXiv:1412.6980; `r` is corrected for the start where the step is above 0."""
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
def momentum(call: Call, rate: Any, step: Any, *inputs: Tensor) -> tuple[Any, ...]:
    """Gradient descent with momentum, or Nesterov's."""
    alpha, norm = call.get("alpha"), call.get("norm_coefficient", 0.0)
    r, share = float(array_of(rate)), call.get("beta") if int(array_of(step)) > 0 else 1.0

    def one(x: Tensor, g: Tensor, v: Tensor) -> tuple[Tensor, ...]:
        g = x * norm + g
        v = v * alpha + g * share
        return x - (v if call.get("mode") == "standard" else g + v * alpha) * r, v

    return _each(call, inputs, 3, one)


@operator("Adagrad", domain=_DOMAIN)
def adagrad(call: Call, rate: Any, step: Any, *inputs: Tensor) -> tuple[Any, ...]:
    """Duchi et al. 2011, "Adaptive subgradient methods"."""
    norm, epsilon = call.get("norm_coefficient", 0.0), call.get("epsilon", 1e-6)
    r = float(array_of(rate)) / (1 + int(array_of(step)) * call.get("decay_factor", 0.0))

    def one(x: Tensor, g: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        g = x * norm + g
        h = h + g * g
        return x - g / (ops.sqrt(h) + epsilon) * r, h

    return _each(call, inputs, 3, one)
