"""The gated recurrent unit as a primitive, its steps in one compiled loop."""

from typing import Any

import numpy as np

from ... import kernels
from ...primitive import Primitive
from ...shape import Spec
from ...tensor import Array, Tensor
from ..activation import sigmoid
from ..choose import where
from ..fused import derived_from
from ..join import stack
from ..linalg import linear
from ..math import tanh
from .steps import Activation, check_shapes, filled, gradient_of, held, is_active, rows_of, states_before, wide


def _gru_of(gates: Array, w: Array, bias: Array, h0: Array, lengths: Array) -> tuple[Array, ...]:
    check_shapes(Spec(gates.shape, gates.dtype), Spec(w.shape, w.dtype), Spec(h0.shape, h0.dtype), 3)
    x, weight, offset, h = wide(gates), wide(w), wide(bias), wide(h0).copy()
    y = np.empty((*x.shape[:2], h.shape[1]), x.dtype)
    states, product = np.empty((*x.shape[:2], 4 * h.shape[1]), x.dtype), np.empty(x.shape[1:], x.dtype)
    for step in range(len(x)):
        np.matmul(h, weight.T, out=product)
        kernels.recurrent.gru_step(x[step], product, offset, step, lengths, h, y[step], states[step])
    return tuple(a.astype(gates.dtype, copy=False) for a in (y, h, states))


def _gru_gradient_of(
    gy: Array, gh: Array, gates: Array, w: Array, bias: Array, h0: Array, lengths: Array, y: Array, states: Array
) -> tuple[Array, ...]:
    g, weight, dh, kept = wide(gy), wide(w), wide(gh).copy(), wide(states)
    of_x, of_product = np.empty(gates.shape, dh.dtype), np.empty(gates.shape, dh.dtype)
    before, product = states_before(wide(h0), wide(y)), np.empty(dh.shape, dh.dtype)
    for step in range(len(g) - 1, -1, -1):
        back = (g[step], kept[step], before[step], step, lengths, dh, of_x[step], of_product[step])
        kernels.recurrent.gru_back(*back)
        dh += np.matmul(of_product[step], weight, out=product)
    rows = rows_of(of_product)
    of_w = rows.T @ rows_of(before)
    return tuple(a.astype(gates.dtype, copy=False) for a in (of_x, of_w, rows.sum(0), dh))


def compose_gru(
    gates: Tensor,
    w: Tensor,
    bias: Tensor,
    h: Tensor,
    lengths: Tensor,
    *,
    functions: tuple[Activation, Activation] = (sigmoid, tanh),
    reset_after: bool = True,
    bound: Activation | None = None,
) -> tuple[Tensor, Tensor]:
    """The gated recurrent unit of basic operations: outputs and the last state."""
    width, (gate, squash), limit = h.shape[1], functions, bound or (lambda x: x)
    rows = []
    for step in range(gates.shape[0]):
        active, x = is_active(lengths, step), gates[step]
        both = gate(limit(x[:, : 2 * width] + linear(h, w[: 2 * width], bias[: 2 * width])))
        r, z = both[:, :width], both[:, width:]
        if reset_after:
            inner = r * linear(h, w[2 * width :], bias[2 * width :])
        else:
            inner = linear(r * h, w[2 * width :], bias[2 * width :])
        n = squash(limit(x[:, 2 * width :] + inner))
        new = n + z * (h - n)
        h = held(active, new, h)
        rows.append(where(active, new, 0.0))
    return stack(rows), h


_compose_gru_gradient = gradient_of(compose_gru, 4)


def _gru_rule(
    needs: Any, g: Any, out: Any, gates: Tensor, w: Tensor, bias: Tensor, h0: Tensor, lengths: Tensor
) -> tuple[Tensor | None, ...]:
    saved = out[0].detach(), out[2].detach()
    found = _gru_gradient.several(*filled(g[:2], out[:2]), gates, w, bias, h0, lengths, *saved)
    return (*found, None)


def _infer_gru(gates: Spec, w: Spec, bias: Spec, h0: Spec, lengths: Spec) -> tuple[Spec, ...]:
    check_shapes(gates, w, h0, 3)
    time, batch, width = gates.shape[0], gates.shape[1], h0.shape[1]
    return Spec((time, batch, width), gates.dtype), h0, Spec((time, batch, 4 * width), gates.dtype)


gru_primitive: Primitive = Primitive("gru", _gru_of, _infer_gru, _gru_rule, saves_output=True)
_gru_gradient: Primitive = Primitive(
    "gru_gradient",
    _gru_gradient_of,
    lambda gy, gh, gates, w, bias, h0, lengths, y, states: (gates, w, bias, h0),
    derived_from(
        lambda gy, gh, gates, w, bias, h0, lengths, y, states: _compose_gru_gradient(
            gy, gh, gates, w, bias, h0, lengths, cotangents=2
        )
    ),
)
