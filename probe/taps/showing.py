"""How a function of the user's is shown a tensor of the training, which it may not change."""

from typing import Any

import numpy as np

from ..access.tensors import Access, Tensor, Unsupported
from ..collectors.quantity import Quantity
from ..errors import TrainingTouched


class Showing:
    """Shows one function the tensors of one site.

    The first of them is a copy: a function that writes into it is refused before it has seen anything of the training.
    All later ones are the training's own, since copies of large activations are dear, and their versions are watched.
    """

    __slots__ = ("_access", "_is_trusted", "_taken")

    def __init__(self, taken: Quantity, access: Access) -> None:
        self._taken, self._access, self._is_trusted = taken, access, False

    def __call__(self, tensor: Tensor) -> dict[str, float]:
        """What the function returned.

        Raises:
            TypeError: The function has written into its copy, or returned something else than numbers.
            TrainingTouched: It has written into a tensor of the training.
        """
        access, taken = self._access, self._taken
        held = access.shown(tensor)
        shown = held if self._is_trusted else access.copied(held)
        before = _version(shown, access)
        try:
            return taken(shown)
        finally:
            is_written = _version(shown, access) != before
            if not self._is_trusted and (is_written or _differ(shown, held, access)):
                raise TypeError(
                    f"quantity {taken.name!r} must leave the tensor that it is shown as it is, and has written into a "
                    "copy of it; let it work on a copy of its own"
                )
            if is_written:
                raise TrainingTouched(
                    f"quantity {taken.name!r} has written into a tensor of the training, which goes on with what was "
                    "written; let it work on a copy of its own"
                )
            self._is_trusted = True


def _version(tensor: Tensor, access: Access) -> int:
    """Changes when the tensor is written; 0 where that is not counted, as in torch's inference mode."""
    try:
        version = access.version(tensor)
        return version if version == access.version(tensor) else 0
    except RuntimeError:
        return 0


def _differ(shown: Tensor, held: Tensor, access: Access) -> bool:
    """Whether their bits do, which a version does not tell of what is written through NumPy; False on a device."""
    try:
        if access.remote(held) is not None:
            return False
        return not np.array_equal(_bits(access.array(shown)), _bits(access.array(held)))
    except Unsupported:
        return False


def _bits(array: Any) -> Any:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)
