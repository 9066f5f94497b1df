"""What backward passes start from: the loss, without the scale of mixed precision."""

from typing import Any
from weakref import ref

from ....framework.tensor import Tensor
from ...recording.recorder import Recorder


class Roots:
    """Reads the values that the backward passes of one model start from."""

    def __init__(self, recorder: Recorder) -> None:
        self._current = recorder.current
        self._unscaled: tuple[Any, float, float] | None = None

    def scaled(self, loss: Tensor, scaled: Tensor, scale: float) -> None:
        """Nothing; it is remembered what the loss was before it was multiplied."""
        if loss.size == 1 and not self._current.is_idle:
            self._unscaled = (ref(scaled), float(loss.numpy().item()), scale)

    def loss_of(self, root: Tensor) -> float | None:
        """The value that a backward pass starts from, if it has one element."""
        if root.size != 1:
            return None
        if self._unscaled is not None and self._unscaled[0]() is root:
            self._current.loss_scale = self._unscaled[2]
            return self._unscaled[1]
        return float(root.numpy().item())
