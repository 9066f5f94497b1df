"""Dropout: in training some elements, or some channels, are zero; in evaluation none."""

from typing import ClassVar

from ..errors import ShapeError
from ..ops import dropout, ones
from ..random import Key, draw_key, fold_in, next_key
from ..tensor import Tensor
from .cell import Cell


class Dropout(Cell):
    """Zero with probability `p`, else `x / (1 - p)`; the input itself outside training.

    Args:
        p: Share of elements to drop, in [0, 1).
        key: Masks are drawn with its numbered children, one a call; with the context's next keys by default, which
            checkpoints of a training state keep and compiled functions take anew at every call.

    Reference:
        Srivastava et al. 2014, "Dropout: a simple way to prevent neural networks from overfitting".
    """

    def __init__(self, p: float = 0.5, *, key: Key | None = None) -> None:
        super().__init__()
        if not 0.0 <= p < 1.0:
            raise ValueError(f"{type(self).__name__} expects p in [0, 1), got {p}")
        self.p = float(p)
        self.key = key
        self._calls = [0]  # in a list, so that compiled functions do not depend on it

    def construct(self, x: Tensor) -> Tensor:
        """The output, of the shape of the input."""
        if not self.training or self.p == 0.0:
            return x
        return self._dropped(x, self._next_key())

    def _dropped(self, x: Tensor, key: Key) -> Tensor:
        y: Tensor = dropout(x, key, self.p)
        return y

    def _next_key(self) -> Key:
        """A key that no call before had; a compiled function takes one anew whenever it runs."""
        return next_key() if self.key is None else draw_key(self._next_child)

    def _next_child(self) -> Key:
        assert self.key is not None
        self._calls[0] += 1
        return fold_in(self.key, self._calls[0] - 1)

    @property
    def calls(self) -> int:
        """How many masks were drawn with children of the key."""
        return self._calls[0]

    @calls.setter
    def calls(self, count: int) -> None:
        self._calls[0] = count

    def describe(self) -> str:
        """The share of dropped elements."""
        return f"p={self.p}"


class _ChannelDropout(Dropout):
    """Whole channels are zero with probability `p`, the others divided by `1 - p`; two levels deep for its one mask.

    Reference:
        Tompson et al. 2015, arXiv:1411.4280.
    """

    axes: ClassVar[tuple[str, ...]]

    def _dropped(self, x: Tensor, key: Key) -> Tensor:
        if x.ndim != 2 + len(self.axes):
            raise ShapeError(
                f"{type(self).__name__} expects input (batch, channels, {', '.join(self.axes)}), got {x.shape}"
            )
        return x * dropout(ones((*x.shape[:2], *(1,) * len(self.axes)), x.dtype), key, self.p)


class Dropout1d(_ChannelDropout):
    """Dropout of channels of sequences `(batch, channels, length)`."""

    axes = ("length",)


class Dropout2d(_ChannelDropout):
    """Dropout of channels of images `(batch, channels, height, width)`."""

    axes = ("height", "width")


class Dropout3d(_ChannelDropout):
    """Dropout of channels of volumes `(batch, channels, depth, height, width)`."""

    axes = ("depth", "height", "width")
