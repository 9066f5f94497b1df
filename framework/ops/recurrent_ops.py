"""Recurrent layers: one layer, one direction; the inputs' products first, then the recurrence over time."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import ShapeError
from ..symbolic import is_static
from ..tensor import Tensor, wrap
from .create import zeros_like
from .layout import flip
from .logic_ops import where
from .matrix_products import linear, matmul
from .operands import as_tensor, cast_to
from .recurrent_primitives import (
    Activation,
    compose_gru,
    compose_lstm,
    compose_rnn,
    gru_primitive,
    lstm_primitive,
    rnn_primitive,
)
from .reduce import broadcast_to
from .rounding_ops import clip as clipped


def _gates(x: Tensor, w: Tensor, *biases: Tensor | None) -> Tensor:
    """Return `x w^T` and the biases that are there, for all steps at once."""
    if x.ndim != 3 or w.ndim != 2 or x.shape[2] != w.shape[1]:
        raise ShapeError(
            f"a recurrent layer expects inputs (time, batch, features) and weights (gates * hidden, features), "
            f"got {x.shape} and {w.shape}"
        )
    given = [bias for bias in biases if bias is not None]
    if not given:
        return matmul(x, w.swapaxes(0, 1))
    return linear(x, w, given[0] if len(given) == 1 else given[0] + given[1])


def _lengths(x: Tensor, lengths: Tensor | Sequence[int] | None) -> Tensor:
    if lengths is None:
        if is_static(x.shape):
            return wrap(np.full(x.shape[1], x.shape[0], np.int64))
        return cast_to(zeros_like(x[0, :, 0]), np.dtype(np.int64)) + x.shape[0]
    found = cast_to(as_tensor(lengths), np.dtype(np.int64))
    if found.shape != (x.shape[1],):
        raise ShapeError(f"lengths of sequences expect one for each of the {x.shape[1]} rows, got {found.shape}")
    return found


def _turned(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return every sequence back to front; what lies behind its end stays there."""
    if lengths is None:
        return flip(x, 0)
    steps = wrap(np.arange(x.shape[0])[:, None])
    order = where(lengths > steps, lengths - 1 - steps, steps)
    return x[order, wrap(np.arange(x.shape[1])[None, :])]


def _state(h: Tensor | None, x: Tensor, w: Tensor) -> Tensor:
    if h is not None:
        return h
    if is_static(x.shape):
        return wrap(np.zeros((x.shape[1], w.shape[1]), x.dtype))
    return broadcast_to(zeros_like(x[0, :, :1]), (x.shape[1], w.shape[1]))  # the number of rows is a symbol


def _bound(limit: float | None) -> Activation | None:
    return None if limit is None else lambda x: clipped(x, -limit, limit)


def rnn(
    x: Tensor,
    h: Tensor | None,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
    *,
    nonlinearity: str = "tanh",
    function: Activation | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    reverse: bool = False,
    clip: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Compute `h_t = f(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh)` over time: all outputs, and the last state.

    Args:
        x: `(time, batch, features)`.
        h: First state `(batch, hidden)`; zeros by default.
        w_ih: `(hidden, features)`.
        w_hh: `(hidden, hidden)`.
        b_ih: `(hidden)`.
        b_hh: `(hidden)`.
        nonlinearity: `tanh` or `relu`.
        function: Another `f`; composed of basic operations, so slower.
        lengths: How long each sequence is; behind its end outputs are 0 and the state stays.
        reverse: Go from the end of each sequence to its beginning.
        clip: Bound of the sums before `f`, on both sides.

    Returns:
        `(time, batch, hidden)` and `(batch, hidden)`.
    """
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"rnn expects a nonlinearity of tanh or relu, got {nonlinearity!r}; or pass function=")
    ends = _lengths(x, lengths)
    gates, start = _gates(x, w_ih, b_ih, b_hh), _state(h, x, w_hh)
    gates = _turned(gates, None if lengths is None else ends) if reverse else gates
    is_relu, limit = nonlinearity == "relu", _bound(clip)
    if function is None and limit is None:
        y, last = rnn_primitive.several(gates, w_hh, start, ends, is_relu=is_relu)
    else:
        y, last = compose_rnn(gates, w_hh, start, ends, is_relu=is_relu, function=function, bound=limit)
    return _turned(y, None if lengths is None else ends) if reverse else y, last


def gru(
    x: Tensor,
    h: Tensor | None,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
    *,
    functions: tuple[Activation, Activation] | None = None,
    reset_after: bool = True,
    lengths: Tensor | Sequence[int] | None = None,
    reverse: bool = False,
    clip: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the gated recurrent unit over time: all outputs, and the last state. Gates stand in the order r, z, n.

    Args:
        x: `(time, batch, features)`.
        h: First state `(batch, hidden)`; zeros by default.
        w_ih: `(3 hidden, features)`.
        w_hh: `(3 hidden, hidden)`.
        b_ih: `(3 hidden)`.
        b_hh: `(3 hidden)`.
        functions: Of the gates and of the candidate, instead of sigmoid and tanh; composed, so slower.
        reset_after: Whether r multiplies `W_hn h + b_hn` (PyTorch), or `h` before that product (the paper; composed).
        lengths: How long each sequence is; behind its end outputs are 0 and the state stays.
        reverse: Go from the end of each sequence to its beginning.
        clip: Bound of the sums before the functions, on both sides.

    Returns:
        `(time, batch, hidden)` and `(batch, hidden)`.
    """
    ends = _lengths(x, lengths)
    gates, start = _gates(x, w_ih, b_ih), _state(h, x, w_hh)
    gates = _turned(gates, None if lengths is None else ends) if reverse else gates
    bias = wrap(np.zeros(w_hh.shape[0], w_hh.dtype)) if b_hh is None else b_hh
    if functions is None and reset_after and clip is None:
        y, last, _ = gru_primitive.several(gates, w_hh, bias, start, ends)
    else:
        how: dict[str, Any] = {"reset_after": reset_after, "bound": _bound(clip)}
        if functions is not None:
            how["functions"] = functions
        y, last = compose_gru(gates, w_hh, bias, start, ends, **how)
    return _turned(y, None if lengths is None else ends) if reverse else y, last


def lstm(
    x: Tensor,
    state: tuple[Tensor | None, Tensor | None] | None,
    w_ih: Tensor,
    w_hh: Tensor,
    b_ih: Tensor | None = None,
    b_hh: Tensor | None = None,
    *,
    peephole: Tensor | None = None,
    functions: tuple[Activation, Activation, Activation] | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    reverse: bool = False,
    clip: float | None = None,
    couples: bool = False,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Return Long short-term memory over time: all outputs, and the last `(h, c)`. Gates stand in the order i, f, g, o.

    Args:
        x: `(time, batch, features)`.
        state: First `(h, c)`, each `(batch, hidden)`; zeros by default.
        w_ih: `(4 hidden, features)`.
        w_hh: `(4 hidden, hidden)`.
        b_ih: `(4 hidden)`.
        b_hh: `(4 hidden)`.
        peephole: `(3, hidden)`: how the gates i, f and o look at c.
        functions: Of the gates, the candidate and c, instead of sigmoid, tanh, tanh; composed, so slower.
        lengths: How long each sequence is; behind its end outputs are 0 and the states stay.
        reverse: Go from the end of each sequence to its beginning.
        clip: Bound of the sums before the functions, on both sides.
        couples: Whether the forget gate is one minus the input gate; composed.

    Returns:
        `(time, batch, hidden)` and two of `(batch, hidden)`.
    """
    ends = _lengths(x, lengths)
    h, c = (None, None) if state is None else state
    gates, first, cell = _gates(x, w_ih, b_ih, b_hh), _state(h, x, w_hh), _state(c, x, w_hh)
    gates = _turned(gates, None if lengths is None else ends) if reverse else gates
    look = wrap(np.zeros((3, w_hh.shape[1]), w_hh.dtype)) if peephole is None else peephole
    if functions is None and clip is None and not couples:
        y, last, memory, _ = lstm_primitive.several(gates, w_hh, look, first, cell, ends)
    else:
        how: dict[str, Any] = {"bound": _bound(clip), "couples": couples}
        if functions is not None:
            how["functions"] = functions
        y, last, memory = compose_lstm(gates, w_hh, look, first, cell, ends, **how)
    return (_turned(y, None if lengths is None else ends) if reverse else y), (last, memory)
