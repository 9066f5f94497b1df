"""Recurrent layers as primitives: one runs all time steps, another runs their gradients back.

A step is a matrix product and one pass over the elements. The product with the inputs does not depend on time, so it is
made once for all steps before the loop. Second derivatives are taken from the same recurrence composed of basic
operations, and so are the variants that have no kernel (other functions, clipped sums, a GRU whose reset comes first).

Weights and gates follow PyTorch: LSTM i, f, g, o; GRU r, z, n.

Reference:
    Hochreiter and Schmidhuber 1997 (LSTM); Gers et al. 2002 (peepholes); Cho et al. 2014, arXiv:1406.1078 (GRU).
"""

from collections.abc import Callable, Sequence

import numpy as np

from .. import kernels
from ..context import CAPTURE
from ..dtype import float32, float64
from ..errors import ShapeError
from ..primitive import Primitive, Results
from ..specs import Spec
from ..tensor import Array, Tensor
from .activation_ops import relu, sigmoid
from .create import zeros_like
from .fused_derivatives import derived_from
from .layout import stack
from .logic_ops import where
from .matrix_products import linear, matmul
from .transcendental import tanh

__all__ = ["compose_gru", "compose_lstm", "compose_rnn", "gru_primitive", "lstm_primitive", "rnn_primitive"]

Activation = Callable[[Tensor], Tensor]


def wide(x: Array) -> Array:
    """Return the array as the kernels take it: 16-bit floats in float32."""
    return np.ascontiguousarray(x if x.dtype in (float32, float64) else x.astype(float32))


def rows_of(steps: Array) -> Array:
    """Return all rows of all steps, one below the other."""
    return steps.reshape(steps.shape[0] * steps.shape[1], -1)


def states_before(first: Array, rows: Array) -> Array:
    """Return what the state was before each step."""
    return np.concatenate([first[None], rows[:-1]])


def check_shapes(gates: Spec, w: Spec, h0: Spec, count: int) -> None:
    """Refuse gates, weights and state that do not fit together."""
    fits = gates.ndim == 3 and w.ndim == 2 and h0.ndim == 2 and w.shape[0] == count * w.shape[1] == gates.shape[2]
    if not fits or h0.shape != (gates.shape[1], w.shape[1]):
        raise ShapeError(
            f"a recurrence of {count} gates expects inputs (time, batch, {count} * hidden), weights ({count} * hidden, "
            f"hidden) and a state (batch, hidden), got {gates.shape}, {w.shape} and {h0.shape}"
        )


def gradient_of(composition: Callable[..., Results], count: int) -> Callable[..., tuple[Tensor, ...]]:
    """Return the gradient of a composition by its first `count` inputs, as a composition of its own."""
    rule = derived_from(composition)

    def gradient(*arguments: Tensor, cotangents: int, **attributes: object) -> tuple[Tensor, ...]:
        weights, inputs = arguments[:cotangents], list(arguments[cotangents:])
        for i in range(count):
            if CAPTURE.get() is None and not inputs[i].requires_grad:
                inputs[i] = inputs[i].detach()
                inputs[i].requires_grad = True
        needs = [i < count for i in range(len(inputs))]
        found = rule(needs, weights, None, *inputs, **attributes)
        return tuple(zeros_like(x) if g is None else g for g, x in zip(found[:count], inputs, strict=False))

    return gradient


def filled(g: Sequence[Tensor | None], like: Sequence[Tensor]) -> list[Tensor]:
    """Return the gradients, zeros where there is none."""
    return [zeros_like(x) if part is None else part for part, x in zip(g, like, strict=True)]


def held(active: Tensor, new: Tensor, old: Tensor) -> Tensor:
    """Return the new state where the sequence goes on, the old one where it has ended."""
    return where(active, new, old)


def is_active(lengths: Tensor, step: int) -> Tensor:
    """Return which sequences have not ended before this step, `(batch, 1)`."""
    return (lengths > step).reshape(-1, 1)


def _rnn_of(gates: Array, w: Array, h0: Array, lengths: Array, *, is_relu: bool) -> tuple[Array, Array]:
    check_shapes(Spec(gates.shape, gates.dtype), Spec(w.shape, w.dtype), Spec(h0.shape, h0.dtype), 1)
    x, weight, h = wide(gates), wide(w), wide(h0).copy()
    y, product = np.empty(x.shape, x.dtype), np.empty(h.shape, x.dtype)
    for step in range(len(x)):
        np.matmul(h, weight.T, out=product)
        kernels.recurrent_kernels.rnn_step(x[step], product, step, lengths, h, y[step], is_relu)
    return y.astype(gates.dtype, copy=False), h.astype(gates.dtype, copy=False)


def _rnn_gradient_of(
    gy: Array, gh: Array, gates: Array, w: Array, h0: Array, lengths: Array, y: Array, *, is_relu: bool
) -> tuple[Array, ...]:
    weight, out, dh = wide(w), np.empty(y.shape, wide(gates).dtype), wide(gh).copy()
    g, states, product = wide(gy), wide(y), np.empty(dh.shape, dh.dtype)
    for step in range(len(y) - 1, -1, -1):
        kernels.recurrent_kernels.rnn_back(g[step], states[step], step, lengths, dh, out[step], is_relu)
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
    """Return the plain recurrence of basic operations: outputs and the last state."""
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


def _gru_of(gates: Array, w: Array, bias: Array, h0: Array, lengths: Array) -> tuple[Array, ...]:
    check_shapes(Spec(gates.shape, gates.dtype), Spec(w.shape, w.dtype), Spec(h0.shape, h0.dtype), 3)
    x, weight, offset, h = wide(gates), wide(w), wide(bias), wide(h0).copy()
    y = np.empty((*x.shape[:2], h.shape[1]), x.dtype)
    states, product = np.empty((*x.shape[:2], 4 * h.shape[1]), x.dtype), np.empty(x.shape[1:], x.dtype)
    for step in range(len(x)):
        np.matmul(h, weight.T, out=product)
        kernels.recurrent_kernels.gru_step(x[step], product, offset, step, lengths, h, y[step], states[step])
    return tuple(a.astype(gates.dtype, copy=False) for a in (y, h, states))


def _gru_gradient_of(
    gy: Array, gh: Array, gates: Array, w: Array, bias: Array, h0: Array, lengths: Array, y: Array, states: Array
) -> tuple[Array, ...]:
    g, weight, dh, kept = wide(gy), wide(w), wide(gh).copy(), wide(states)
    of_x, of_product = np.empty(gates.shape, dh.dtype), np.empty(gates.shape, dh.dtype)
    before, product = states_before(wide(h0), wide(y)), np.empty(dh.shape, dh.dtype)
    for step in range(len(g) - 1, -1, -1):
        back = (g[step], kept[step], before[step], step, lengths, dh, of_x[step], of_product[step])
        kernels.recurrent_kernels.gru_back(*back)
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
    """Return the gated recurrent unit of basic operations: outputs and the last state."""
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
    needs: Sequence[bool], g: Sequence[Tensor | None], out: Sequence[Tensor], *inputs: Tensor
) -> tuple[Tensor | None, ...]:
    saved = out[0].detach(), out[2].detach()
    found = _gru_gradient.several(*filled(g[:2], out[:2]), *inputs, *saved)
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
        lambda *arguments: _compose_gru_gradient(*arguments[:-2], cotangents=2)  # without y and states
    ),
)


def _lstm_of(gates: Array, w: Array, peephole: Array, h0: Array, c0: Array, lengths: Array) -> tuple[Array, ...]:
    check_shapes(Spec(gates.shape, gates.dtype), Spec(w.shape, w.dtype), Spec(h0.shape, h0.dtype), 4)
    x, weight, look, h, c = wide(gates), wide(w), wide(peephole), wide(h0).copy(), wide(c0).copy()
    y = np.empty((*x.shape[:2], h.shape[1]), x.dtype)
    states, product = np.empty((*x.shape[:2], 5 * h.shape[1]), x.dtype), np.empty(x.shape[1:], x.dtype)
    for step in range(len(x)):
        np.matmul(h, weight.T, out=product)
        kernels.recurrent_kernels.lstm_step(x[step], product, look, step, lengths, h, c, y[step], states[step])
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
        kernels.recurrent_kernels.lstm_back(*back)
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
    """Return Long short-term memory of basic operations: outputs and the last two states."""
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
    needs: Sequence[bool], g: Sequence[Tensor | None], out: Sequence[Tensor], *inputs: Tensor
) -> tuple[Tensor | None, ...]:
    saved = out[0].detach(), out[3].detach()
    found = _lstm_gradient.several(*filled(g[:3], out[:3]), *inputs, *saved)
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
        lambda *arguments: _compose_lstm_gradient(*arguments[:-2], cotangents=3)  # without y and states
    ),
)
