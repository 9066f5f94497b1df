"""What a device owes: the contract between who asks for numbers of its tensors and who brings them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..kernels import NO_MORE, Bins, More

#: A scalar that is worth waiting for: None where there turns out to be none.
LateScalar: TypeAlias = Callable[[], float | None]


class Promise(Protocol):
    """Numbers of one tensor that a device was asked for.

    Attributes:
        row: `(10 and those on request,)` statistics once they are there; None before, and of a tensor that was changed
            before it was read.
        counts: `(bins,)` of its histogram, if that was asked for.
    """

    row: NDArray[np.float64] | None
    counts: NDArray[np.float64] | None


class Made:
    """Numbers that are made on the host of what a device brings.

    Attributes:
        row: The numbers once they are made; None before, and where there turns out to be nothing to tell.
    """

    __slots__ = ("counts", "row")

    def __init__(self) -> None:
        self.row: NDArray[np.float64] | None = None
        self.counts: NDArray[np.float64] | None = None


class Fetched(Protocol):
    """A tensor on its way to the host.

    Attributes:
        array: Its values in their own shape; there is none before it has come.
    """

    array: NDArray[Any]


class Arrival(Protocol):
    """Numbers on their way."""

    def is_there(self) -> bool:
        """Whether taking them waits for nothing."""

    def take(self) -> None:
        """Nothing; the promises are kept."""


class Device(Protocol):
    """What measures tensors where they lie; the tensors are the framework's."""

    def add(self, tensor: Any, *, bins: Bins | None = None, more: More = NO_MORE, at_once: bool = False) -> Promise:
        """The promise of the tensor's ten statistics, of `more`, and of its histogram where there are bins."""

    def fetch(self, tensor: Any) -> Fetched:
        """The promise of the tensor itself, as it is now."""

    def checksum(self, tensor: Any) -> Any:
        """`(2,)` int64 there: the 53 bits of the checksum of its words of eight bytes, and the bytes behind them."""

    def added(self, gradient: Any, held: Any, stride: int) -> Any:
        """`(2,)` float64 there: the squared norm of every such element, and what it adds to that of what was held."""

    def iterate(self, matrix: Any, vector: Any, times: int) -> tuple[Any, Any]:
        """Largest singular value and squared norm of a matrix, `(2,)`, and the vector to go on from, all of them there.

        Args:
            matrix: `(m, n)`.
            vector: `(n,)` NumPy's to begin with, or what was given back before.
        """

    def copies(self) -> Any:
        """Copies of tensors, to tell how far they moved: `DeviceCopies`."""

    def launch(self) -> Sequence[Arrival]:
        """All that was asked for is on its way."""


def divided(value: float | LateScalar | None, by: float | LateScalar | None) -> float | LateScalar | None:
    """The quotient, late if one of the two is; None where one of them is not known, or nothing can be divided by it."""
    if not callable(value) and not callable(by):
        return None if value is None or not by else value / by

    def quotient() -> float | None:
        known = [one() if callable(one) else one for one in (value, by)]
        return None if known[0] is None or not known[1] else known[0] / known[1]

    return None if value is None or by is None else quotient


class Debtor(Protocol):
    """A row that a promise will fill."""

    def owe(self, promise: Promise) -> None:
        """Nothing; the row is there, and its numbers will be."""


@dataclass(frozen=True, slots=True, eq=False)
class Owed:
    """The rows of a block that promises will fill.

    Args:
        values: `(sites, statistics)` of the block.
        present: `(sites,)` of the block; a promise that is not kept leaves its row absent.
        promises: By the number of the row, who asked and what was promised.
    """

    values: NDArray[np.float64]
    present: NDArray[np.bool_]
    promises: Mapping[int, tuple[Debtor, Promise]]
