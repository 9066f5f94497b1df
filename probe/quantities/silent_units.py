"""How many units of a layer never fire, or sit where their slope vanishes.

Reference:
    Lu, Shin, Su and Karniadakis 2019, arXiv:1903.06733 (dying ReLU); Glorot and Bengio 2010 (saturation).
"""

import math
from collections.abc import Sequence
from typing import Any, Final, Literal

import numpy as np
from numpy.typing import NDArray

from ..kernels.machine_code import Kernel

#: Counts the units that were zero at every sample of the last looks; `compiled/counting.py` lists its arguments.
count_silent: Final = Kernel("counting", "count_silent", "q", "q" * 9)

#: Share of units that were zero in all of the last looks; share that is saturated; units.
UNITS: Final = ("dead_share", "saturated_share", "units")
Kind = Literal["rectified", "sigmoid", "tanh", "softmax"]

#: Looks in a row of 64 samples or more: a unit that fires for 5 % of them counts as dead with probability 5e-5.
LOOKS: Final = 3
#: Sampled elements of one layer.
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
    """Return the kind of activation that the module's class is named after; None of others."""
    name = type(module).__name__.lower()
    if any(word in name for word in _NOT):
        return None
    return next((kind for word, kind in _KINDS if word in name), None)


class Units:
    """The units of one layer, from look to look.

    Attributes:
        kind: Of the layer.
    """

    __slots__ = ("_looks", "_silent", "_silent_at", "_turn", "kind")

    def __init__(self, kind: Kind) -> None:
        self.kind, self._looks, self._turn = kind, 0, -1
        self._silent: NDArray[np.int64] = np.empty(0, np.int64)  # consecutive looks at which each unit was zero

    def look(self, output: NDArray[Any]) -> tuple[float, float, float] | None:
        """Return the numbers of `UNITS`; None where there are no units, or too few samples to tell.

        Args:
            output: `(samples, ..., units)`, or images `(samples, channels, height, width)`.
        """
        rows = self.sample(output)
        return None if rows is None else self.judge(rows)

    def look_at(self, address: int, code: int, shape: Sequence[int]) -> tuple[float, float, float] | None:
        """Return the numbers of `UNITS` of rectified units, read where the output lies.

        Args:
            address, code: Where it lies without gaps, and its dtype, as kernels take them.
        """
        self._turn += 1
        found = _layout_of(shape)
        if found is None:
            return None
        samples, units, inner = found
        self._begin_look(units)
        spread = _spread(samples, units, self._turn)
        dead = count_silent(address, code, units, inner, *spread, self._silent_at, LOOKS)
        return self._dead_share(dead), math.nan, float(units)

    def sample(self, output: Any) -> Any:
        """Return `(rows, units)` of the output, evenly spread, other samples at every turn; None with too few.

        Args:
            output: The same, or as a framework's tensor wherever that lies.
        """
        self._turn += 1
        return _rows_of(output, self._turn)

    def judge(self, rows: NDArray[Any]) -> tuple[float, float, float]:
        """Return the numbers of `UNITS` after this sample."""
        count = float(rows.shape[1])
        if self.kind == "rectified":
            self._begin_look(rows.shape[1])
            self._silent += 1
            self._silent[(rows != 0).any(0)] = 0
            return self._dead_share(int(np.count_nonzero(self._silent >= LOOKS))), math.nan, count
        if self.kind == "softmax":
            return math.nan, float((rows.max(1) > _ONE_HOT).mean()), count
        beyond = np.abs(rows - 0.5) > _SIGMOID_EDGE if self.kind == "sigmoid" else np.abs(rows) > _TANH_EDGE
        return math.nan, float((beyond.mean(0) >= _SATURATED).mean()), count

    def _begin_look(self, units: int) -> None:
        self._looks += 1
        if self._silent.size != units:
            self._silent, self._looks = np.zeros(units, np.int64), 1
            self._silent_at: int = self._silent.ctypes.data

    def _dead_share(self, dead: int) -> float:
        return dead / self._silent.size if self._looks >= LOOKS else math.nan


def _layout_of(shape: Sequence[int]) -> tuple[int, int, int] | None:
    """Return samples, units, and the distance between neighbouring units of a sample; None with too few samples."""
    dimensions, size = len(shape), math.prod(shape)
    if dimensions < 2 or not size:
        return None
    units = shape[1] if dimensions > 3 else shape[-1]
    samples = size // units
    return (samples, units, math.prod(shape[2:]) if dimensions > 3 else 1) if samples >= _FEWEST_SAMPLES else None


def _spread(samples: int, units: int, turn: int) -> tuple[int, int, int]:
    """Return the first sample to look at, the stride, and how many there are."""
    wanted = max(_FEWEST_SAMPLES, _MOST // units)
    stride = max(1, samples // wanted) | 1
    first = turn % stride
    return first, stride, min(wanted, -(-(samples - first) // stride))


def _rows_of(output: Any, turn: int) -> Any:
    found = _layout_of(output.shape)
    if found is None:
        return None
    samples, units, _ = found
    is_here = isinstance(output, np.ndarray)
    if output.ndim > 3:
        output = np.moveaxis(output, 1, -1) if is_here else output.moveaxis(1, -1)
    first, stride, count = _spread(samples, units, turn)
    if not is_here or output.flags.c_contiguous:
        return output.reshape(samples, units)[first::stride][:count]
    rows = np.arange(first, samples, stride)[:count]
    return output[np.unravel_index(rows, output.shape[:-1])]
