"""Batches that lie on a device: what is recorded of them travels, a sample, checksums and tokens."""

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..outbox.outbox import Outbox
from ..outbox.promises import Fetched
from ..quantities.checksums import PLACES, RANGE, checksum_of

#: Elements of one input whose statistics are taken: their mean is off by 0.8 % of a deviation. Our choice.
MOST_SAMPLED: Final = 1 << 14
#: An input of so many bytes travels whole: that takes one copy, which costs less than a checksum there. Our choice.
SMALL_BYTES: Final = 1 << 20
#: Inputs up to this many elements are read whole: that takes less time than picking a sample of them.
_WHOLE: Final = 1 << 17
#: Tokens of an input that travel: 8 MiB. Our choice.
_MOST_TOKENS: Final = 1 << 20


def stride_of(size: int) -> int:
    """Of so many elements which are taken: every such one, so that all of few are, and about 16384 of many."""
    return 1 if size <= _WHOLE else -(-size // MOST_SAMPLED) | 1


class DeviceInput:
    """One input on its way.

    Args:
        tensor: The framework's, on a device.

    Attributes:
        is_token: Whether it holds whole numbers of four bytes or more.
        has_tokens: Whether these travel as well: not very many.
    """

    def __init__(self, outbox: Outbox, tensor: Any) -> None:
        device = outbox.device
        assert device is not None, "tensors are remote only where there is a device"
        self.shape, self.size = tuple(tensor.shape), int(tensor.numel())
        self._bytes = self.size * int(tensor.element_size())
        self.is_token = tensor.element_size() >= 4 and not (tensor.is_floating_point() or tensor.is_complex())
        self.has_tokens = self.is_token and self.size <= _MOST_TOKENS
        self._whole: Fetched | None = outbox.fetch(tensor) if self._bytes <= SMALL_BYTES else None
        if self._whole is not None:
            return
        self._parts = outbox.fetch(device.checksum(tensor))
        flat = tensor.reshape(-1)
        self._sample = outbox.fetch(flat[:: stride_of(self.size)])
        self._tokens: Fetched | None = outbox.fetch(flat) if self.has_tokens else None

    def checksum(self) -> int:
        """As `checksum_of` has it, once the input is there."""
        if self._whole is not None:
            return checksum_of(np.ascontiguousarray(self._whole.array))
        mixed, tail = (int(one) for one in self._parts.array)
        return (mixed + tail * PLACES[1] + self._bytes) % RANGE

    def sample(self) -> NDArray[Any]:
        """`(elements,)` evenly spread, once they are there."""
        if self._whole is not None:
            return self._whole.array.reshape(-1)[:: stride_of(self.size)]
        return self._sample.array

    def tokens(self) -> NDArray[np.int64]:
        """`(elements,)` once they are there."""
        if self._whole is not None:
            return self._whole.array.reshape(-1).astype(np.int64, copy=False)
        assert self._tokens is not None, "asked for where there are none"
        return self._tokens.array.astype(np.int64, copy=False)


class Totals:
    """What the inputs of one (micro-)step have in common, while some are still on their way."""

    def __init__(self) -> None:
        self._parts: list[Callable[[], int]] = []

    def __bool__(self) -> bool:
        return bool(self._parts)

    def add(self, checksum: Callable[[], int], place: int, call: int) -> None:
        """One more input: the number of the argument, and that of the forward."""
        self._parts.append(lambda: (checksum() + call) * PLACES[place])

    def checksum(self) -> int:
        """Of all of them, once they are there."""
        return sum(part() for part in self._parts)
