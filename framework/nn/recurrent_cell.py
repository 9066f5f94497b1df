"""One step of a recurrence, for loops of one's own."""

from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike

from ..errors import ShapeError
from ..ops import gru, lstm, rnn
from ..random import Key
from ..tensor import Tensor
from .parameters import keys_for, positive
from .recurrent import RecurrentWeights


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
        """The sizes."""
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
        """The next state."""
        return rnn(self._one_step(x), hx, *self.parts(), nonlinearity=self.nonlinearity)[1]


class GRUCell(_RecurrentCell):
    """One step of a `GRU`."""

    gates = 3

    def construct(self, x: Tensor, hx: Tensor | None = None) -> Tensor:
        """The next state."""
        return gru(self._one_step(x), hx, *self.parts())[1]


class LSTMCell(_RecurrentCell):
    """One step of an `LSTM`; the state is `(h, c)`."""

    gates = 4

    def construct(self, x: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """The next state."""
        return lstm(self._one_step(x), hx, *self.parts())[1]
