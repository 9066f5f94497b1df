"""One time step of recurrent layers, all element-wise parts in one call; the matrix products stay with BLAS.

Rows whose sequence has ended (`step >= lengths`) keep their state and give zeros.
"""

import numpy as np
from numba import njit

from ..tensor import Array
from .exponential import JIT, exp


@njit(**JIT)
def _sigmoid_row(out: Array, a: Array, b: Array, look: Array, c: Array) -> None:
    """Compute `out = sigmoid(a + b + look c)`."""
    one = a.dtype.type(1.0)
    for j in range(len(out)):
        out[j] = one / (one + exp(-(a[j] + b[j] + look[j] * c[j])))


@njit(**JIT)
def _tanh_row(out: Array, x: Array) -> None:
    """Compute `out = tanh(x)`; near 0, where the difference loses digits, two terms of the series."""
    one, two, third = x.dtype.type(1.0), x.dtype.type(2.0), x.dtype.type(1.0 / 3.0)
    edge = x.dtype.type(0.005)
    for j in range(len(out)):
        size = abs(x[j])
        e = exp(-two * size)
        t = (one - e) / (one + e)
        t = size * (one - size * size * third) if size < edge else t
        out[j] = -t if x[j] < 0 else t


@njit(inline="always")
def _add_product(out: Array, a: Array, b: Array) -> None:
    for j in range(len(out)):
        out[j] += a[j] * b[j]


# Each pass below reads and writes a few rows that lie in the first-level cache: loops over more rows at once are not
# turned into vector instructions, for the compiler would have to prove that none overlaps another.


@njit(**JIT)
def rnn_step(x: Array, product: Array, step: int, lengths: Array, h: Array, y: Array, is_relu: bool) -> None:
    """Compute `h = f(x + h W)`, where `product` is `h W` and is overwritten; `y` is the new state."""
    zero = x.dtype.type(0.0)
    for b in range(h.shape[0]):
        if step >= lengths[b]:
            y[b] = 0
            continue
        sums, new = product[b], y[b]
        for j in range(len(new)):
            sums[j] = sums[j] + x[b, j]
        if is_relu:
            for j in range(len(new)):
                new[j] = sums[j] if sums[j] > zero else (zero if sums[j] == sums[j] else sums[j])
        else:
            _tanh_row(new, sums)
        h[b] = new


@njit(**JIT)
def rnn_back(g: Array, y: Array, step: int, lengths: Array, dh: Array, out: Array, is_relu: bool) -> None:
    """Compute the gradient `out` of what is under the function; `dh` becomes what passes by it."""
    zero, one = g.dtype.type(0.0), g.dtype.type(1.0)
    for b in range(dh.shape[0]):
        if step >= lengths[b]:
            out[b] = 0
            continue
        state, below, carried, given = y[b], out[b], dh[b], g[b]
        for j in range(len(below)):
            slope = (one if state[j] > zero else zero) if is_relu else one - state[j] * state[j]
            below[j] = (carried[j] + given[j]) * slope
            carried[j] = zero


@njit(**JIT)
def gru_step(
    x: Array, product: Array, bias: Array, step: int, lengths: Array, h: Array, y: Array, states: Array
) -> None:
    """Compute `h = n + z (h - n)`, `n = tanh(x_n + r (h W_n + b_n))`; `states` are r, z, n and `h W_n + b_n`."""
    width = h.shape[1]
    ones = np.ones(width, x.dtype)
    for b in range(h.shape[0]):
        if step >= lengths[b]:
            y[b] = 0
            states[b] = 0
            continue
        sums, row, state, new = product[b], states[b], h[b], y[b]
        _sigmoid_row(row[:width], x[b, :width], sums[:width], ones, bias[:width])
        _sigmoid_row(row[width : 2 * width], x[b, width : 2 * width], sums[width : 2 * width], ones, bias[width:])
        r, z, n, m = row[:width], row[width : 2 * width], row[2 * width : 3 * width], row[3 * width :]
        inner, given, offset = sums[2 * width :], x[b, 2 * width :], bias[2 * width :]
        for j in range(width):
            m[j] = inner[j] + offset[j]
        for j in range(width):
            inner[j] = given[j] + r[j] * m[j]
        _tanh_row(n, inner)
        for j in range(width):
            new[j] = n[j] + z[j] * (state[j] - n[j])
        h[b] = new


@njit(**JIT)
def gru_back(
    g: Array, states: Array, before: Array, step: int, lengths: Array, dh: Array, of_x: Array, of_product: Array
) -> None:
    """Compute the gradients of a step's inputs and of its product; `dh` becomes what passes by the product."""
    width, one = dh.shape[1], g.dtype.type(1.0)
    for b in range(dh.shape[0]):
        if step >= lengths[b]:
            of_x[b] = 0
            of_product[b] = 0
            continue
        row, below, carried, given, old = states[b], of_x[b], dh[b], g[b], before[b]
        r, z, n, m = row[:width], row[width : 2 * width], row[2 * width : 3 * width], row[3 * width :]
        of_r, of_z, of_n = below[:width], below[width : 2 * width], below[2 * width :]
        for j in range(width):
            carried[j] += given[j]
        for j in range(width):
            of_n[j] = carried[j] * (one - z[j]) * (one - n[j] * n[j])
        for j in range(width):
            of_z[j] = carried[j] * (old[j] - n[j]) * z[j] * (one - z[j])
        for j in range(width):
            of_r[j] = of_n[j] * m[j] * r[j] * (one - r[j])
        of_product[b] = below
        inner = of_product[b, 2 * width :]
        for j in range(width):
            inner[j] = of_n[j] * r[j]
            carried[j] *= z[j]


@njit(**JIT)
def lstm_step(
    x: Array, product: Array, peephole: Array, step: int, lengths: Array, h: Array, c: Array, y: Array, states: Array
) -> None:
    """Compute `c = f c + i g`, `h = o tanh(c)`; `states` are i, f, g, o and the new c. Peepholes of i, f and o look at
    c."""
    w = h.shape[1]
    for b in range(h.shape[0]):
        if step >= lengths[b]:
            y[b] = 0
            states[b] = 0
            states[b, 4 * w :] = c[b]
            continue
        given, sums, row, cell, new = x[b], product[b], states[b], c[b], y[b]
        _sigmoid_row(row[:w], given[:w], sums[:w], peephole[0], cell)
        _sigmoid_row(row[w : 2 * w], given[w : 2 * w], sums[w : 2 * w], peephole[1], cell)
        i, f, u, o = row[:w], row[w : 2 * w], row[2 * w : 3 * w], row[3 * w : 4 * w]
        inner, seen = sums[2 * w : 3 * w], given[2 * w : 3 * w]
        for j in range(w):
            inner[j] += seen[j]
        _tanh_row(u, inner)
        for j in range(w):
            cell[j] = f[j] * cell[j] + i[j] * u[j]
        _sigmoid_row(o, given[3 * w :], sums[3 * w :], peephole[2], cell)
        _tanh_row(new, cell)
        for j in range(w):
            new[j] *= o[j]
        row[4 * w :] = cell
        h[b] = new


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
    """Compute the gradient `out` of a step's sums; `before` is the old c; `dh` is spent, `dc` becomes that of the old
    c."""
    w, one = dh.shape[1], g.dtype.type(1.0)
    shown = np.empty(w, g.dtype)
    for b in range(dh.shape[0]):
        if step >= lengths[b]:
            out[b] = 0
            continue
        row, below, carried, given, old, of_c = states[b], out[b], dh[b], g[b], before[b], dc[b]
        i, f, u, o, new = row[:w], row[w : 2 * w], row[2 * w : 3 * w], row[3 * w : 4 * w], row[4 * w :]
        of_i, of_f, of_u, of_o = below[:w], below[w : 2 * w], below[2 * w : 3 * w], below[3 * w :]
        _tanh_row(shown, new)
        for j in range(w):
            carried[j] += given[j]
        for j in range(w):
            of_o[j] = carried[j] * shown[j] * o[j] * (one - o[j])
        for j in range(w):
            of_c[j] += carried[j] * o[j] * (one - shown[j] * shown[j])
        _add_product(of_c, of_o, peephole[2])
        for j in range(w):
            of_i[j] = of_c[j] * u[j] * i[j] * (one - i[j])
        for j in range(w):
            of_f[j] = of_c[j] * old[j] * f[j] * (one - f[j])
        for j in range(w):
            of_u[j] = of_c[j] * i[j] * (one - u[j] * u[j])
        for j in range(w):
            of_c[j] *= f[j]
        _add_product(of_c, of_i, peephole[0])
        _add_product(of_c, of_f, peephole[1])
        _add_product(of_peephole[0], of_i, old)
        _add_product(of_peephole[1], of_f, old)
        _add_product(of_peephole[2], of_o, new)
        carried[:] = 0
