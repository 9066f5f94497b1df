"""What a loss of torch is given: a sample of its rows, and the operation that made them."""

from typing import Any, Final

import ml_dtypes
import torch
from numpy.typing import NDArray

from ...access.tensors import Tensor
from ...facts.losses import some_of

_COLUMNS: Final = 65536
#: Operations whose result holds values of their input as they are, and how many of them are looked through.
_SAME_VALUES = frozenset(
    {
        *("view", "unsafeview", "reshapealias", "squeeze", "unsqueeze", "select", "slice", "t", "transpose", "permute"),
        *("clone", "tocopy", "expand", "alias", "index", "asstrided", "unbind", "split", "chunk"),
    }
)
_FARTHEST = 8


def made_by(tensor: Tensor) -> str:
    """The operation that made the values, in lower case without its number; empty where the tape does not tell."""
    node = tensor.grad_fn
    for _ in range(_FARTHEST):
        if node is None:
            return ""
        name = type(node).__name__.partition("Backward")[0].lower()
        if name not in _SAME_VALUES:
            return name
        node = node.next_functions[0][0] if node.next_functions else None
    return ""


def sample_of(name: str, tensor: Tensor) -> NDArray[Any]:
    """`(rows, columns)` of a loss's input: some rows with all their classes, or some elements in one row each."""
    rows = rows_of(name, tensor)
    if rows.dtype is torch.bfloat16:
        exact: NDArray[Any] = rows.float().numpy().astype(ml_dtypes.bfloat16)
        return exact
    found: NDArray[Any] = rows.numpy()
    return found


def rows_of(name: str, tensor: Tensor) -> Tensor:
    """The same where the tensor lies."""
    held = tensor.detach().resolve_neg()
    if name in ("cross_entropy", "nll_loss") and held.dim() > 1:
        held = held.movedim(1, -1)
    if held.dim() == 0 or held.shape[-1] > _COLUMNS:
        return held.new_empty((0, 0), dtype=torch.float32)
    return some_of(held.reshape(-1, held.shape[-1]))
