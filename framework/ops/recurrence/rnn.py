"""Elman's recurrent layer as a primitive, its steps in one compiled loop."""

import numpy as np

from ... import kernels
from ...primitive import Primitive
from ...shape import Spec
from ...tensor import Array, Tensor
from ..activation import relu
from ..choose import where
from ..fused import derived_from
from ..join import stack
from ..linalg import matmul
from ..math import tanh
from .steps import Activation, check_shapes, filled, gradient_of, held, is_active, rows_of, states_before, wide


def _rnn_of(gates: Array, w: Array, h0: Array, lengths: Array, *, is_relu: bool) -> tuple[Array, Array]:
    check_shapes(Spec(gates.shape, gates.dtype), Spec(w.shape, w.dtype), Spec(h0.shape, h0.dtype), 1)
    x, weight, h = wide(gates), wide(w), wide(h0).copy()
    y, product = np.empty(x.shape, x.dtype), np.empty(h.shape, x.dtype)
    for step in range(len(x)):
        np.matmul(h, weight.T, out=product)
        kernels.recurrent.rnn_step(x[step], product, step, lengths, h, y[step], is_relu)
    return y.astype(gates.dtype, copy=False), h.astype(gates.dtype, copy=False)


def _rnn_gradient_of(
    gy: Array, gh: Array, gates: Array, w: Array, h0: Array, lengths: Array, y: Array, *, is_relu: bool
) -> tuple[Array, ...]:
    weight, out, dh = wide(w), np.empty(y.shape, wide(gates).dtype), wide(gh).copy()
    g, states, product = wide(gy), wide(y), np.empty(dh.shape, dh.dtype)
    for step in range(len(y) - 1, -1, -1):
        kernels.recurrent.rnn_back(g[step], states[step], step, lengths, dh, out[step], is_relu)
        dh += np.matmul(out[step], weight, out=product)
    of_w = rows_of(out).T @ rows_of(states_before(wide(h0), states))
    return tuple(a.astype(gates.dtype, copy=False) for a in (out, of_w, dh))


def compose_rnn(
    gates: Tensor,
    w: Tensor,
    h: Tensor,
    lengths: Tensor,
    *,
    is_relu: bool = False,
    function: Activation | None = None,
    bound: Activation | None = None,
) -> tuple[Tensor, Tensor]:
    """The plain recurrence of basic operations: outputs and the last state."""
    run, limit = function or (relu if is_relu else tanh), bound or (lambda x: x)
    rows = []
    for step in range(gates.shape[0]):
        active = is_active(lengths, step)
        new = run(limit(gates[step] + matmul(h, w.swapaxes(0, 1))))
        h = held(active, new, h)
        rows.append(where(active, new, 0.0))
    return stack(rows), h


_compose_rnn_gradient = gradient_of(compose_rnn, 3)


def _infer_rnn(gates: Spec, w: Spec, h0: Spec, lengths: Spec, *, is_relu: bool) -> tuple[Spec, Spec]:
    check_shapes(gates, w, h0, 1)
    return gates, h0


rnn_primitive: Primitive = Primitive(
    "rnn",
    _rnn_of,
    _infer_rnn,
    lambda needs, g, out, gates, w, h0, lengths, *, is_relu: (
        *_rnn_gradient.several(*filled(g, out), gates, w, h0, lengths, out[0].detach(), is_relu=is_relu),
        None,
    ),
    saves_output=True,
)


_rnn_gradient: Primitive = Primitive(
    "rnn_gradient",
    _rnn_gradient_of,
    lambda gy, gh, gates, w, h0, lengths, y, *, is_relu: (gates, w, h0),
    derived_from(
        lambda gy, gh, gates, w, h0, lengths, y, *, is_relu: _compose_rnn_gradient(
            gy, gh, gates, w, h0, lengths, cotangents=2, is_relu=is_relu
        )
    ),
)
