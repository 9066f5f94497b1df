"""How layers make their parameters: keys to draw with, arrays to hold, sizes to check."""

import numpy as np
from numpy.typing import DTypeLike

from ..random import Key, next_key, split
from ..tensor import Parameter
from .cell import Cell
from .initializers import Initializer


def keys_for(key: Key | None, count: int) -> tuple[Key, ...]:
    """Split that many independent keys off the given one, or off the context's next key."""
    return split(next_key() if key is None else key, count)


def new_parameter(
    init: Initializer, shape: tuple[int, ...], key: Key, dtype: DTypeLike = np.float32, *, requires_grad: bool = True
) -> Parameter:
    """Return a parameter with first values; the cell that it is assigned to names it."""
    return Parameter(init(shape, key, dtype), requires_grad=requires_grad)


def positive(cell: Cell, **sizes: int) -> None:
    """Check that every size is an integer of 1 or more.

    Raises:
        ValueError: One is not; the message names the cell's class and the argument.
    """
    for name, size in sizes.items():
        if not isinstance(size, int | np.integer) or size < 1:
            raise ValueError(f"{type(cell).__name__} expects {name} of 1 or more, got {size!r}")
