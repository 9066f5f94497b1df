"""One time step of recurrent layers, all element-wise parts in one pass; the matrix products stay with BLAS.

Rows whose sequence has ended (`step >= lengths`) keep their state and give zeros.
"""

from numba import njit

from ..tensor import Array
from .exponential import JIT, exp


@njit(**JIT)
def _sigmoid(x: float) -> float:
    one = x * 0 + 1
    return one / (one + exp(-x))


@njit(**JIT)
def _tanh(x: float) -> float:
    one = x * 0 + 1
    e = exp(-(abs(x) + abs(x)))
    t = (one - e) / (one + e)
    # Near 0 the difference loses digits; two terms of the series do not.
    small = abs(x) * (one - x * x / 3)
    t = small if abs(x) < 0.005 else t
    return -t if x < 0 else t


@njit(**JIT)
def rnn_step(x: Array, product: Array, step: int, lengths: Array, h: Array, y: Array, is_relu: bool) -> None:
    """`h = f(x + h W)`, where `product` is `h W`; `y` is the new state."""
    for b in range(h.shape[0]):
        if step >= lengths[b]:
            y[b] = 0
            continue
        for j in range(h.shape[1]):
            z = x[b, j] + product[b, j]
            value = max(z, z * 0) if is_relu else _tanh(z)
            h[b, j] = value
            y[b, j] = value


@njit(**JIT)
def rnn_back(g: Array, y: Array, step: int, lengths: Array, dh: Array, out: Array, is_relu: bool) -> None:
    """The gradient `out` of what is under the function; `dh` becomes what passes by it."""
    for b in range(dh.shape[0]):
        if step >= lengths[b]:
            out[b] = 0
            continue
        for j in range(dh.shape[1]):
            total = dh[b, j] + g[b, j]
            slope = (y[b, j] > 0) * (total * 0 + 1) if is_relu else 1 - y[b, j] * y[b, j]
            out[b, j] = total * slope
            dh[b, j] = 0


@njit(**JIT)
def gru_step(
    x: Array, product: Array, bias: Array, step: int, lengths: Array, h: Array, y: Array, states: Array
) -> None:
    """`h = n + z (h - n)`, `n = tanh(x_n + r (h W_n + b_n))`; `states` are r, z, n and `h W_n + b_n`."""
    width = h.shape[1]
    for b in range(h.shape[0]):
        if step >= lengths[b]:
            y[b] = 0
            states[b] = 0
            continue
        for j in range(width):
            r = _sigmoid(x[b, j] + product[b, j] + bias[j])
            z = _sigmoid(x[b, width + j] + product[b, width + j] + bias[width + j])
            m = product[b, 2 * width + j] + bias[2 * width + j]
            n = _tanh(x[b, 2 * width + j] + r * m)
            value = n + z * (h[b, j] - n)
            states[b, j], states[b, width + j], states[b, 2 * width + j], states[b, 3 * width + j] = r, z, n, m
            h[b, j] = value
            y[b, j] = value


@njit(**JIT)
def gru_back(
    g: Array, states: Array, before: Array, step: int, lengths: Array, dh: Array, of_x: Array, of_product: Array
) -> None:
    """The gradients of a step's inputs and of its product; `dh` becomes what passes by the product."""
    width = dh.shape[1]
    for b in range(dh.shape[0]):
        if step >= lengths[b]:
            of_x[b] = 0
            of_product[b] = 0
            continue
        for j in range(width):
            r, z, n, m = states[b, j], states[b, width + j], states[b, 2 * width + j], states[b, 3 * width + j]
            total = dh[b, j] + g[b, j]
            of_n = total * (1 - z) * (1 - n * n)
            of_z = total * (before[b, j] - n) * z * (1 - z)
            of_r = of_n * m * r * (1 - r)
            of_x[b, j], of_x[b, width + j], of_x[b, 2 * width + j] = of_r, of_z, of_n
            of_product[b, j], of_product[b, width + j], of_product[b, 2 * width + j] = of_r, of_z, of_n * r
            dh[b, j] = total * z


@njit(**JIT)
def lstm_step(
    x: Array, product: Array, peephole: Array, step: int, lengths: Array, h: Array, c: Array, y: Array, states: Array
) -> None:
    """`c = f c + i g`, `h = o tanh(c)`; `states` are i, f, g, o and the new c. Peepholes of i, f and o look at c."""
    width = h.shape[1]
    for b in range(h.shape[0]):
        if step >= lengths[b]:
            y[b] = 0
            states[b] = 0
            states[b, 4 * width :] = c[b]
            continue
        for j in range(width):
            old = c[b, j]
            i = _sigmoid(x[b, j] + product[b, j] + peephole[0, j] * old)
            f = _sigmoid(x[b, width + j] + product[b, width + j] + peephole[1, j] * old)
            g = _tanh(x[b, 2 * width + j] + product[b, 2 * width + j])
            new = f * old + i * g
            o = _sigmoid(x[b, 3 * width + j] + product[b, 3 * width + j] + peephole[2, j] * new)
            value = o * _tanh(new)
            states[b, j], states[b, width + j], states[b, 2 * width + j] = i, f, g
            states[b, 3 * width + j], states[b, 4 * width + j] = o, new
            c[b, j] = new
            h[b, j] = value
            y[b, j] = value


@njit(**JIT)
def lstm_back(
    g: Array,
    states: Array,
    before: Array,
    peephole: Array,
    step: int,
    lengths: Array,
    dh: Array,
    dc: Array,
    out: Array,
    of_peephole: Array,
) -> None:
    """The gradient `out` of a step's sums; `before` is the old c; `dh` is spent, `dc` becomes that of the old c."""
    width = dh.shape[1]
    for b in range(dh.shape[0]):
        if step >= lengths[b]:
            out[b] = 0
            continue
        for j in range(width):
            i, f, u = states[b, j], states[b, width + j], states[b, 2 * width + j]
            o, new = states[b, 3 * width + j], states[b, 4 * width + j]
            old, t = before[b, j], _tanh(new)
            total = dh[b, j] + g[b, j]
            of_o = total * t * o * (1 - o)
            of_c = dc[b, j] + total * o * (1 - t * t) + of_o * peephole[2, j]
            of_i = of_c * u * i * (1 - i)
            of_f = of_c * old * f * (1 - f)
            out[b, j], out[b, width + j] = of_i, of_f
            out[b, 2 * width + j], out[b, 3 * width + j] = of_c * i * (1 - u * u), of_o
            dc[b, j] = of_c * f + of_i * peephole[0, j] + of_f * peephole[1, j]
            of_peephole[0, j] += of_i * old
            of_peephole[1, j] += of_f * old
            of_peephole[2, j] += of_o * new
            dh[b, j] = 0
