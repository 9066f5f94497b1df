"""Tensors of a device on their way to the host as they are: copied in the order of the stream, waited for by nobody."""

from typing import Any

import ml_dtypes
import torch
from numpy.typing import NDArray


class Fetched:
    """A tensor on its way.

    Attributes:
        array: Its values in their own shape; there is none before it is taken. 8-bit floats are float32.
    """

    array: NDArray[Any]

    def __init__(self, held: Any, event: Any) -> None:
        self._held, self._event = held, event

    def is_there(self) -> bool:
        """Whether taking it waits for nothing."""
        return self._event is None or bool(self._event.query())

    def take(self) -> None:
        """Nothing; the array is there."""
        if self._event is not None:
            self._event.synchronize()
        held, self._held = self._held, None
        if held.dtype is torch.bfloat16:
            self.array = held.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
        else:
            self.array = held.numpy()


def fetch(tensor: Any) -> Fetched:
    """The tensor as it is now, whatever happens to it next.

    Args:
        tensor: Real and dense, of any shape and strides.
    """
    held = tensor.detach()
    if held.is_floating_point() and held.element_size() == 1:
        held = held.to(torch.float32)
    if not held.is_cuda:
        return Fetched(held.clone(memory_format=torch.contiguous_format), None)
    there = torch.empty(held.shape, dtype=held.dtype, pin_memory=True)
    there.copy_(held.contiguous(), non_blocking=True)
    event = torch.cuda.Event()
    event.record(torch.cuda.current_stream(held.device))
    return Fetched(there, event)
