"""Whether numbers are numbers."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..tensor import Tensor


def all_finite(values: Iterable[Tensor | NDArray[Any] | None]) -> bool:
    """Whether no element of the tensors or arrays is NaN or infinite; None counts as finite."""
    arrays = (value.numpy() if isinstance(value, Tensor) else value for value in values)
    return all(array is None or bool(np.isfinite(array).all()) for array in arrays)
