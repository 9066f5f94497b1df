"""Copies of tensors on their device, and how far the tensors have moved since."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import torch

#: Bytes of differences that are there at a time, beside the copies. Our choice.
_MOST_BYTES: Final = 256 << 20


class DeviceCopies:
    """One copy of every tensor, taken and refreshed without waiting for the device."""

    def __init__(self) -> None:
        self._copies: list[Any] = []
        self._places: list[tuple[int, int]] = []

    def fit(self, tensors: Sequence[Any]) -> bool:
        """Whether there is a copy of this shape, dtype and device for every tensor."""
        pairs = zip(tensors, self._copies, strict=False)
        return len(tensors) == len(self._copies) and all(
            (one.shape, one.dtype, one.device) == (copy.shape, copy.dtype, copy.device) for one, copy in pairs
        )

    def are_of(self, tensors: Sequence[Any]) -> bool:
        """Whether the tensors lie where those lay of which the copies are, and nobody has changed them since.

        What is changed through `.data` is not noticed: torch does not count it.
        """
        return _places_of(tensors) == self._places

    @torch.no_grad()
    def take(self, tensors: Sequence[Any]) -> None:
        """Nothing; the copies are those of the tensors as they are."""
        self._places = _places_of(tensors)
        if self.fit(tensors):
            torch._foreach_copy_(self._copies, [one.detach() for one in tensors])
        else:
            self._copies = [one.detach().clone() for one in tensors]

    @torch.no_grad()
    def changes(self, tensors: Sequence[Any]) -> Iterator[Any]:
        """What each tensor has moved by since its copy, which is refreshed; 16-bit floats are subtracted as float32."""
        self._places = _places_of(tensors)
        for start, end in _groups(tensors):
            now, before = [one.detach() for one in tensors[start:end]], self._copies[start:end]
            yield from torch._foreach_sub([_wide(one) for one in now], [_wide(one) for one in before])
            torch._foreach_copy_(before, now)


def _places_of(tensors: Sequence[Any]) -> list[tuple[int, int]]:
    """Where each lies, and how often it was changed."""
    return [(one.data_ptr(), one._version) for one in tensors]


def _wide(tensor: Any) -> Any:
    return tensor.to(torch.float32) if tensor.element_size() < 4 else tensor


def _groups(tensors: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """(first, one past the last) of stretches of tensors that are small together."""
    start, held = 0, 0
    for number, one in enumerate(tensors):
        held += one.numel() * max(one.element_size(), 4)
        if held >= _MOST_BYTES:
            yield start, number + 1
            start, held = number + 1, 0
    if start < len(tensors):
        yield start, len(tensors)
