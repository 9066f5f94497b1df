"""What a loss of the engine is given: a sample of its rows, and the primitive that made them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ....framework.tensor import Tensor
from ...facts.losses import some_of


def made_by(tensor: Tensor) -> str:
    """The primitive that made the values, reshapes left out; empty where the tape does not tell."""
    node = tensor._node
    while node is not None and not node.is_packed and node.inputs is not None:
        if node.primitive.name not in ("reshape", "transpose", "squeeze", "expand_dims"):
            return str(node.primitive.name)
        before = next((one for one in node.inputs if isinstance(one, Tensor)), None)
        node = None if before is None else before._node
    return ""


def sample_of(tensor: Tensor) -> NDArray[Any]:
    """`(rows, columns)`, some rows with all their columns: at least 64 elements, where there are as many."""
    array = tensor.numpy()
    if array.ndim == 0 or not array.size:
        return np.empty((0, 0), np.float32)
    return some_of(array.reshape(-1, array.shape[-1]))
