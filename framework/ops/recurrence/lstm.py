"""The long short-term memory as a primitive, its steps in one compiled loop."""

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
from ..linalg import matmul
from ..math import tanh
from .steps import Activation, check_shapes, filled, gradient_of, held, is_active, rows_of, states_before, wide


def _lstm_of(gates: Array, w: Array, peephole: Array, h0: Array, c0: Array, lengths: Array) -> tuple[Array, ...]:
    check_shapes(Spec(gates.shape, gates.dtype), Spec(w.shape, w.dtype), Spec(h0.shape, h0.dtype), 4)
    x, weight, look, h, c = wide(gates), wide(w), wide(peephole), wide(h0).copy(), wide(c0).copy()
    y = np.empty((*x.shape[:2], h.shape[1]), x.dtype)
    states, product = np.empty((*x.shape[:2], 5 * h.shape[1]), x.dtype), np.empty(x.shape[1:], x.dtype)
    for step in range(len(x)):
        np.matmul(h, weight.T, out=product)
        kernels.recurrent.lstm_step(x[step], product, look, step, lengths, h, c, y[step], states[step])
    return tuple(a.astype(gates.dtype, copy=False) for a in (y, h, c, states))


def _lstm_gradient_of(
    gy: Array,
    gh: Array,
    gc: Array,
    gates: Array,
    w: Array,
    peephole: Array,
    h0: Array,
    c0: Array,
    lengths: Array,
    y: Array,
    states: Array,
) -> tuple[Array, ...]:
    g, weight, look, kept = wide(gy), wide(w), wide(peephole), wide(states)
    dh, dc, out = wide(gh).copy(), wide(gc).copy(), np.empty(gates.shape, g.dtype)
    of_look, product = np.zeros(look.shape, g.dtype), np.empty(dh.shape, g.dtype)
    cells = states_before(wide(c0), kept[:, :, 4 * dh.shape[1] :])
    for step in range(len(g) - 1, -1, -1):
        back = (g[step], kept[step], cells[step], look, step, lengths, dh, dc, out[step], of_look)
        kernels.recurrent.lstm_back(*back)
        dh += np.matmul(out[step], weight, out=product)
    of_w = rows_of(out).T @ rows_of(states_before(wide(h0), wide(y)))
    return tuple(a.astype(gates.dtype, copy=False) for a in (out, of_w, of_look, dh, dc))


def compose_lstm(
    gates: Tensor,
    w: Tensor,
    peephole: Tensor,
    h: Tensor,
    c: Tensor,
    lengths: Tensor,
    *,
    functions: tuple[Activation, Activation, Activation] = (sigmoid, tanh, tanh),
    bound: Activation | None = None,
    couples: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Long short-term memory of basic operations: outputs and the last two states."""
    width, (gate, squash, show), limit = h.shape[1], functions, bound or (lambda x: x)
    rows = []
    for step in range(gates.shape[0]):
        active = is_active(lengths, step)
        sums = gates[step] + matmul(h, w.swapaxes(0, 1))
        i = gate(limit(sums[:, :width] + peephole[0] * c))
        f = 1.0 - i if couples else gate(limit(sums[:, width : 2 * width] + peephole[1] * c))
        new = f * c + i * squash(limit(sums[:, 2 * width : 3 * width]))
        out = gate(limit(sums[:, 3 * width :] + peephole[2] * new)) * show(new)
        h, c = held(active, out, h), held(active, new, c)
        rows.append(where(active, out, 0.0))
    return stack(rows), h, c


_compose_lstm_gradient = gradient_of(compose_lstm, 5)


def _lstm_rule(
    needs: Any,
    g: Any,
    out: Any,
    gates: Tensor,
    w: Tensor,
    peephole: Tensor,
    h0: Tensor,
    c0: Tensor,
    lengths: Tensor,
) -> tuple[Tensor | None, ...]:
    saved = out[0].detach(), out[3].detach()
    found = _lstm_gradient.several(*filled(g[:3], out[:3]), gates, w, peephole, h0, c0, lengths, *saved)
    return (*found, None)


def _infer_lstm(gates: Spec, w: Spec, peephole: Spec, h0: Spec, c0: Spec, lengths: Spec) -> tuple[Spec, ...]:
    check_shapes(gates, w, h0, 4)
    time, batch, width = gates.shape[0], gates.shape[1], h0.shape[1]
    return Spec((time, batch, width), gates.dtype), h0, c0, Spec((time, batch, 5 * width), gates.dtype)


lstm_primitive: Primitive = Primitive("lstm", _lstm_of, _infer_lstm, _lstm_rule, saves_output=True)
_lstm_gradient: Primitive = Primitive(
    "lstm_gradient",
    _lstm_gradient_of,
    lambda gy, gh, gc, gates, w, peephole, h0, c0, lengths, y, states: (gates, w, peephole, h0, c0),
    derived_from(
        lambda gy, gh, gc, gates, w, peephole, h0, c0, lengths, y, states: _compose_lstm_gradient(
            gy, gh, gc, gates, w, peephole, h0, c0, lengths, cotangents=3
        )
    ),
)
