"""Recurrent layers, stacked and in one or both directions, and cells that make a single step."""

from math import sqrt
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import concat, gru, lstm, rnn, stack
from ..random import Key, split
from ..tensor import Parameter, Tensor
from .basic_layers import Dropout
from .cell import Cell
from .container import CellList
from .initializers import Uniform
from .parameters import keys_for, new_parameter, positive

#: Weights and biases of a layer, by the input and by the state, in the order that the operations take them.
Weights: TypeAlias = tuple[Parameter, Parameter, Parameter | None, Parameter | None]
LstmState: TypeAlias = tuple[Tensor, Tensor]
_State = TypeVar("_State", Tensor, tuple[Tensor, Tensor])


class RecurrentWeights(Cell):
    """The weights of one layer and direction, drawn uniformly within `1 / sqrt(hidden_size)`.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the state.
        gates: How many products there are.
        has_bias: Whether there are biases.
        key: What the first values are drawn with.
        dtype: Of the parameters.
    """

    def __init__(
        self, input_size: int, hidden_size: int, gates: int, has_bias: bool, key: Key, dtype: DTypeLike
    ) -> None:
        super().__init__()
        init, size = Uniform(1.0 / sqrt(hidden_size)), gates * hidden_size
        keys = split(key, 4)
        self.weight_ih = new_parameter(init, (size, input_size), keys[0], dtype)
        self.weight_hh = new_parameter(init, (size, hidden_size), keys[1], dtype)
        self.bias_ih: Parameter | None = None
        self.bias_hh: Parameter | None = None
        if has_bias:
            self.bias_ih = new_parameter(init, (size,), keys[2], dtype)
            self.bias_hh = new_parameter(init, (size,), keys[3], dtype)

    def parts(self) -> Weights:
        """Return the weights in the order that the operations take them."""
        return self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh


class _Recurrent(Cell, Generic[_State]):
    """Recurrent layers on top of each other.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the state.
        num_layers: How many layers.
        has_bias: Whether the products have biases.
        batch_first: Whether the batch is the first axis and not the second.
        dropout: Share to drop between layers in training.
        bidirectional: Whether a second set of layers reads the sequence from its end; outputs stand side by side.
        key: What the first weights are drawn with.
        dtype: Of the parameters.

    Shape:
        x `(time, batch, input_size)`, first state `(directions * num_layers, batch, hidden_size)`; returns
        `(time, batch, directions * hidden_size)` and the last state.
    """

    gates: ClassVar[int]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        has_bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        super().__init__()
        positive(self, input_size=input_size, hidden_size=hidden_size, num_layers=num_layers)
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.batch_first, self.directions = batch_first, 2 if bidirectional else 1
        keys = iter(keys_for(key, num_layers * self.directions))
        sizes = [input_size] + [hidden_size * self.directions] * (num_layers - 1)
        self.layers = CellList(
            RecurrentWeights(size, hidden_size, self.gates, has_bias, next(keys), dtype)
            for size in sizes
            for _ in range(self.directions)
        )
        self.dropout: Dropout | None = Dropout(dropout) if dropout else None

    def construct(self, x: Tensor, hx: _State | None = None, seq_length: Tensor | None = None) -> tuple[Tensor, _State]:
        """Return the outputs and the last state.

        Args:
            x: The sequences.
            hx: The first state, a tuple of two for the LSTM; zeros by default.
            seq_length: `(batch)`, how long each sequence is; outputs behind its end are 0.
        """
        if x.ndim != 3 or x.shape[2] != self.input_size:
            axes = "batch, time" if self.batch_first else "time, batch"
            raise ShapeError(f"{type(self).__name__} expects input ({axes}, {self.input_size}), got {x.shape}")
        y = x.swapaxes(0, 1) if self.batch_first else x
        states = []
        for number in range(self.num_layers):
            if number and self.dropout is not None:
                y = self.dropout(y)
            outputs = []
            for direction in range(self.directions):
                place = number * self.directions + direction
                out, state = self._run(y, place, self._state(hx, place), seq_length, direction == 1)
                outputs.append(out)
                states.append(state)
            y = outputs[0] if self.directions == 1 else concat(outputs, -1)
        return (y.swapaxes(0, 1) if self.batch_first else y), self._together(states)

    def _run(
        self, x: Tensor, place: int, state: _State | None, lengths: Tensor | None, reverse: bool
    ) -> tuple[Tensor, _State]:
        raise NotImplementedError

    def _weights(self, place: int) -> Weights:
        layer = self.layers[place]
        assert isinstance(layer, RecurrentWeights)
        return layer.parts()

    def _state(self, hx: Any, place: int) -> Any:
        return None if hx is None else hx[place]

    def _together(self, states: list[Any]) -> Any:
        return stack(states)

    def describe(self) -> str:
        """Return the sizes, and how many layers when several."""
        layers = f", num_layers={self.num_layers}" if self.num_layers > 1 else ""
        return f"{self.input_size}, {self.hidden_size}{layers}" + (", bidirectional" if self.directions == 2 else "")


class RNN(_Recurrent[Tensor]):
    """`h_t = f(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh)`.

    Args:
        arguments: Those of all recurrent layers.
        nonlinearity: `tanh` or `relu`.
        options: Those of all recurrent layers.

    Reference:
        Elman 1990, "Finding structure in time".
    """

    gates = 1

    def __init__(self, *arguments: Any, nonlinearity: str = "tanh", **options: Any) -> None:
        super().__init__(*arguments, **options)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN expects nonlinearity tanh or relu, got {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    def _run(
        self, x: Tensor, place: int, state: Tensor | None, lengths: Tensor | None, reverse: bool
    ) -> tuple[Tensor, Tensor]:
        return rnn(x, state, *self._weights(place), nonlinearity=self.nonlinearity, lengths=lengths, reverse=reverse)


class GRU(_Recurrent[Tensor]):
    """Gated recurrent units; gates in the order reset, update, candidate, the reset after the product.

    Reference:
        Cho et al. 2014, arXiv:1406.1078.
    """

    gates = 3

    def _run(
        self, x: Tensor, place: int, state: Tensor | None, lengths: Tensor | None, reverse: bool
    ) -> tuple[Tensor, Tensor]:
        return gru(x, state, *self._weights(place), lengths=lengths, reverse=reverse)


class LSTM(_Recurrent[LstmState]):
    """Long short-term memory; gates in the order input, forget, candidate, output; the state is `(h, c)`.

    Reference:
        Hochreiter and Schmidhuber 1997, with the forget gate of Gers et al. 2000.
    """

    gates = 4

    def _run(
        self, x: Tensor, place: int, state: LstmState | None, lengths: Tensor | None, reverse: bool
    ) -> tuple[Tensor, LstmState]:
        return lstm(x, state, *self._weights(place), lengths=lengths, reverse=reverse)

    def _state(self, hx: LstmState | None, place: int) -> LstmState | None:
        return None if hx is None else (hx[0][place], hx[1][place])

    def _together(self, states: list[LstmState]) -> LstmState:
        return stack([h for h, _ in states]), stack([c for _, c in states])


class _RecurrentCell(RecurrentWeights):
    """One step; two levels deep, for its weights are those of a layer.

    Args:
        input_size: Features of the input.
        hidden_size: Features of the state.
        has_bias: Whether the products have biases.
        key: What the first weights are drawn with.
        dtype: Of the parameters.

    Shape:
        x `(batch, input_size)`, state `(batch, hidden_size) -> (batch, hidden_size)`
    """

    gates: ClassVar[int]

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        has_bias: bool = True,
        *,
        key: Key | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        positive(self, input_size=input_size, hidden_size=hidden_size)
        (of_weights,) = keys_for(key, 1)
        super().__init__(input_size, hidden_size, self.gates, has_bias, of_weights, dtype)
        self.input_size, self.hidden_size = input_size, hidden_size

    def _one_step(self, x: Tensor) -> Tensor:
        if x.ndim != 2 or x.shape[1] != self.input_size:
            raise ShapeError(f"{type(self).__name__} expects input (batch, {self.input_size}), got {x.shape}")
        return x.reshape(1, *x.shape)

    def describe(self) -> str:
        """Return the sizes."""
        return f"{self.input_size}, {self.hidden_size}"


class RNNCell(_RecurrentCell):
    """One step of an `RNN`.

    Args:
        arguments: Those of all recurrent cells.
        nonlinearity: `tanh` or `relu`.
        options: Those of all recurrent cells.
    """

    gates = 1

    def __init__(self, *arguments: Any, nonlinearity: str = "tanh", **options: Any) -> None:
        super().__init__(*arguments, **options)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNNCell expects nonlinearity tanh or relu, got {nonlinearity!r}")
        self.nonlinearity = nonlinearity

    def construct(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state."""
        return rnn(self._one_step(x), hx, *self.parts(), nonlinearity=self.nonlinearity)[1]


class GRUCell(_RecurrentCell):
    """One step of a `GRU`."""

    gates = 3

    def construct(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        """Return the next state."""
        return gru(self._one_step(x), hx, *self.parts())[1]


class LSTMCell(_RecurrentCell):
    """One step of an `LSTM`; the state is `(h, c)`."""

    gates = 4

    def construct(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return the next state."""
        return lstm(self._one_step(x), hx, *self.parts())[1]
