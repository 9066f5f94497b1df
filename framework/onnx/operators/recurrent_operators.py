"""Recurrent layers: ONNX stacks directions and orders gates in its own way; the engine runs each direction."""

from collections.abc import Callable

from ... import ops
from ...tensor import Tensor
from ..operator_call import OperatorCall, operator

_Function = Callable[[Tensor], Tensor]


def _function(name: str, alpha: float | None, beta: float | None) -> _Function:
    """Return the activation of that name, which ONNX writes in any case."""
    a, b = alpha, beta
    table: dict[str, _Function] = {
        "relu": ops.relu,
        "tanh": ops.tanh,
        "sigmoid": ops.sigmoid,
        "softsign": ops.softsign,
        "softplus": ops.softplus,
        "affine": lambda x: x * (1.0 if a is None else a) + (0.0 if b is None else b),
        "leakyrelu": lambda x: ops.leaky_relu(x, 0.01 if a is None else a),
        "thresholdedrelu": lambda x: ops.thresholded_relu(x, 1.0 if a is None else a),
        "scaledtanh": lambda x: ops.tanh(x * (1.0 if b is None else b)) * (1.0 if a is None else a),
        "hardsigmoid": lambda x: ops.hardsigmoid(x, 0.2 if a is None else a, 0.5 if b is None else b),
        "elu": lambda x: ops.elu(x, 1.0 if a is None else a),
    }
    return table[name.lower()]


#: Those that take alpha, and those that take beta.
_WITH_ALPHA = {"affine", "leakyrelu", "thresholdedrelu", "scaledtanh", "hardsigmoid", "elu"}
_WITH_BETA = {"affine", "scaledtanh", "hardsigmoid"}


def _functions(call: OperatorCall, usual: tuple[str, ...], direction: int) -> tuple[_Function, ...] | None:
    """Return the activations of a direction; None where they are the usual ones."""
    names = call.get("activations")
    if names is None:
        return None
    alphas, betas = iter(call.get("activation_alpha", ())), iter(call.get("activation_beta", ()))
    found = []
    for name in names:
        alpha = next(alphas, None) if name.lower() in _WITH_ALPHA else None
        beta = next(betas, None) if name.lower() in _WITH_BETA else None
        found.append((name, _function(name, alpha, beta)))
    mine = found[direction * len(usual) : (direction + 1) * len(usual)] or found[: len(usual)]
    if [name.lower() for name, _ in mine] == list(usual):
        return None
    return tuple(function for _, function in mine)


class _Layer:
    """What the three operators share: inputs of a direction, gates in the engine's order, outputs put together."""

    def __init__(self, call: OperatorCall, x: Tensor, gates: tuple[int, ...]) -> None:
        self.call, self.gates = call, gates
        self.is_batch_first = bool(call.get("layout", 0))
        self.x = x.swapaxes(0, 1) if self.is_batch_first else x
        word = call.get("direction", "forward")
        self.reverse = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[word]

    def ordered(self, rows: Tensor | None, direction: int, part: int = 0, parts: int = 1) -> Tensor | None:
        """Return the weights of a direction (one of `parts` equal pieces of them), their gates in the engine's
        order."""
        if rows is None:
            return None
        mine = rows[direction]
        size = mine.shape[0] // parts
        mine = mine[part * size : (part + 1) * size]
        width = size // len(self.gates)
        return ops.concat([mine[gate * width : (gate + 1) * width] for gate in self.gates])

    def state(self, first: Tensor | None, direction: int) -> Tensor | None:
        """Return the first state of a direction."""
        if first is None:
            return None
        return first[:, direction] if self.is_batch_first else first[direction]

    def together(self, outputs: list[Tensor], *lasts: list[Tensor]) -> tuple[Tensor, ...]:
        """Return the outputs of all directions `(time, directions, batch, hidden)`, and their last states."""
        if self.is_batch_first:
            whole = ops.stack(outputs, 2).transpose(1, 0, 2, 3)
            return (whole, *(ops.stack(last, 1) for last in lasts))
        return (ops.stack(outputs, 1), *(ops.stack(last, 0) for last in lasts))


@operator("RNN")
def rnn(
    call: OperatorCall,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h0: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Return the plain recurrence, in one or both directions."""
    layer, outputs, lasts = _Layer(call, x, (0,)), [], []
    for i, reverse in enumerate(layer.reverse):
        functions = _functions(call, ("tanh",), i)
        y, last = ops.rnn(
            layer.x,
            layer.state(h0, i),
            w[i],
            r[i],
            layer.ordered(b, i, 0, 2),
            layer.ordered(b, i, 1, 2),
            function=None if functions is None else functions[0],
            lengths=lengths,
            reverse=reverse,
            clip=call.get("clip"),
        )
        outputs.append(y)
        lasts.append(last)
    return layer.together(outputs, lasts)


@operator("GRU")
def gru(
    call: OperatorCall,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h0: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Return the gated recurrent unit (z, r, h in ONNX's order), in one or both directions."""
    layer, outputs, lasts = _Layer(call, x, (1, 0, 2)), [], []
    for i, reverse in enumerate(layer.reverse):
        y, last = ops.gru(
            layer.x,
            layer.state(h0, i),
            layer.ordered(w, i),  # type: ignore[arg-type]
            layer.ordered(r, i),  # type: ignore[arg-type]
            layer.ordered(b, i, 0, 2),
            layer.ordered(b, i, 1, 2),
            functions=_functions(call, ("sigmoid", "tanh"), i),  # type: ignore[arg-type]
            reset_after=bool(call.get("linear_before_reset", 0)),
            lengths=lengths,
            reverse=reverse,
            clip=call.get("clip"),
        )
        outputs.append(y)
        lasts.append(last)
    return layer.together(outputs, lasts)


@operator("LSTM")
def lstm(
    call: OperatorCall,
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor | None = None,
    lengths: Tensor | None = None,
    h0: Tensor | None = None,
    c0: Tensor | None = None,
    p: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Return Long short-term memory (i, o, f, c in ONNX's order), in one or both directions."""
    layer = _Layer(call, x, (0, 2, 3, 1))
    outputs, lasts, cells = [], [], []
    for i, reverse in enumerate(layer.reverse):
        look = None
        if p is not None:  # ONNX: i, o, f
            look = ops.concat([p[i].reshape(3, -1)[gate : gate + 1] for gate in (0, 2, 1)])
        y, (last, cell) = ops.lstm(
            layer.x,
            (layer.state(h0, i), layer.state(c0, i)),
            layer.ordered(w, i),  # type: ignore[arg-type]
            layer.ordered(r, i),  # type: ignore[arg-type]
            layer.ordered(b, i, 0, 2),
            layer.ordered(b, i, 1, 2),
            peephole=look,
            functions=_functions(call, ("sigmoid", "tanh", "tanh"), i),  # type: ignore[arg-type]
            lengths=lengths,
            reverse=reverse,
            clip=call.get("clip"),
            couples=bool(call.get("input_forget", 0)),
        )
        outputs.append(y)
        lasts.append(last)
        cells.append(cell)
    return layer.together(outputs, lasts, cells)
