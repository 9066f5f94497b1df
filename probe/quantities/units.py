"""How many units of a layer never fire, or sit where their slope is nothing.

Reference:
    Lu, Shin, Su and Karniadakis 2019, arXiv:1903.06733 (dying ReLU); Glorot and Bengio 2010 (saturation).
"""

import math
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

#: Share of units that were zero in all of the last looks; share that is saturated; units.
UNITS: Final = ("dead_share", "saturated_share", "units")
Kind = Literal["rectified", "sigmoid", "tanh", "softmax"]

#: Looks in a row of 64 samples or more: a unit that fires for 5 % of them is taken for dead with chance 5e-5.
LOOKS: Final = 3
#: Elements of one layer that are looked at.
_MOST: Final = 1 << 13
_FEWEST_SAMPLES: Final = 64
#: Where the slope is 5 % of its largest: of a sigmoid s (1 - s) = 0.0125, of tanh 1 - t^2 = 0.05. Our choice.
_SIGMOID_EDGE: Final = 0.4873
_TANH_EDGE: Final = math.sqrt(0.95)
_SATURATED: Final = 0.95
_ONE_HOT: Final = 0.99

_NOT: Final = ("leaky", "prelu", "rrelu", "gelu", "log", "shrink", "loss", "entropy")
_KINDS: Final[tuple[tuple[str, Kind], ...]] = (
    ("relu", "rectified"),
    ("softmax", "softmax"),
    ("sigmoid", "sigmoid"),
    ("tanh", "tanh"),
)


def kind_of(module: object) -> Kind | None:
    """What the module's class is called after; None of others."""
    name = type(module).__name__.lower()
    if any(word in name for word in _NOT):
        return None
    return next((kind for word, kind in _KINDS if word in name), None)


class Units:
    """The units of one layer, from look to look."""

    __slots__ = ("_kind", "_looks", "_turn", "_zero")

    def __init__(self, kind: Kind) -> None:
        self._kind, self._looks, self._turn = kind, 0, -1
        self._zero: NDArray[np.int64] = np.empty(0, np.int64)

    def look(self, output: NDArray[Any]) -> tuple[float, float, float] | None:
        """The numbers of `UNITS`; None where there are no units, or too few samples to tell.

        Args:
            output: `(samples, ..., units)`, or images `(samples, channels, height, width)`.
        """
        rows = self.sample(output)
        return None if rows is None else self.judge(rows)

    def sample(self, output: Any) -> Any:
        """`(rows, units)` of the output, evenly spread over the samples and other ones at every turn; None as above.

        Args:
            output: The same, or as a framework's tensor wherever that lies.
        """
        self._turn += 1
        return _rows_of(output, self._turn)

    def judge(self, rows: NDArray[Any]) -> tuple[float, float, float]:
        """The numbers of `UNITS` after this sample."""
        self._looks += 1
        count = float(rows.shape[1])
        if self._kind == "rectified":
            return self._dead(rows), math.nan, count
        if self._kind == "softmax":
            return math.nan, float((rows.max(1) > _ONE_HOT).mean()), count
        beyond = np.abs(rows - 0.5) > _SIGMOID_EDGE if self._kind == "sigmoid" else np.abs(rows) > _TANH_EDGE
        return math.nan, float((beyond.mean(0) >= _SATURATED).mean()), count

    def _dead(self, rows: NDArray[Any]) -> float:
        if self._zero.size != rows.shape[1]:
            self._zero, self._looks = np.zeros(rows.shape[1], np.int64), 1
        self._zero += 1
        self._zero[(rows != 0).any(0)] = 0
        return float((self._zero >= LOOKS).mean()) if self._looks >= LOOKS else math.nan


def _rows_of(output: Any, turn: int) -> Any:
    if output.ndim < 2 or not math.prod(output.shape):
        return None
    is_here = isinstance(output, np.ndarray)
    if output.ndim > 3:
        output = np.moveaxis(output, 1, -1) if is_here else output.moveaxis(1, -1)
    units = output.shape[-1]
    samples = math.prod(output.shape[:-1])
    if samples < _FEWEST_SAMPLES:
        return None
    wanted = max(_FEWEST_SAMPLES, _MOST // units)
    stride = max(1, samples // wanted) | 1
    if not is_here or output.flags.c_contiguous:
        return output.reshape(samples, units)[turn % stride :: stride][:wanted]
    places = np.arange(turn % stride, samples, stride)[:wanted]
    return output[np.unravel_index(places, output.shape[:-1])]
