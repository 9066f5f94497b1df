"""Is each batch learned anew? Long stretches of one batch in which the loss falls, and behind which it rises."""

from dataclasses import dataclass
from typing import Final

#: Batches of a stretch, and the share of all that the loss has fallen so far by which it falls in one. Our choice: the
#: steps that a training takes on purpose on one batch, such as those of an inner loop, are fewer.
_LONG: Final = 20
_FALLEN: Final = 0.2
#: Shares of a stretch's fall by which the loss is higher again as the next batch comes: behind one stretch, or behind
#: each of two in a row. Our choice: what is learned of one batch of many is mostly true of the next one.
_ONCE, _TWICE = 0.7, 0.4


@dataclass(frozen=True, slots=True)
class Stretch:
    """Steps in a row with the same batch.

    Attributes:
        since: Its first step.
        batches: How many were recorded.
        first, last: The losses with which it begins and ends.
    """

    since: int
    batches: int
    first: float
    last: float

    def rise(self, loss: float) -> float:
        """Return the share of this stretch's fall that the loss of the next batch takes back."""
        return (loss - self.last) / (self.first - self.last)


@dataclass(slots=True)
class RelearnedBatches:
    """The stretches of one batch so far, until one is short, or two are learned anew.

    Attributes:
        is_over: Whether no more is to be learned.
    """

    is_over: bool = False
    _newest: float = float("nan")
    _current: Stretch | None = None
    _rises: tuple[float, ...] = ()
    _ended: Stretch | None = None
    _highest: float = float("-inf")
    _lowest: float = float("inf")

    def add(self, step: int, checksum: float, loss: float) -> tuple[Stretch, Stretch] | None:
        """Return the last two stretches once: the loss rises between them to where it was, and they were learned."""
        if self.is_over:
            return None
        current = self._current
        self._highest, self._lowest = max(self._highest, loss), min(self._lowest, loss)
        if current is None or checksum != self._newest:
            self.is_over = current is not None and not self._is_learned(current)
            if current is not None and not self.is_over:
                self._rises = (*self._rises[-1:], current.rise(loss))
            self._ended, self._newest, self._current = current, checksum, Stretch(step, 1, loss, loss)
            return None
        self._current = current = Stretch(current.since, current.batches + 1, current.first, loss)
        if self._ended is None or not self._has_risen() or not self._is_learned(current):
            return None
        self.is_over = True
        return self._ended, current

    def _is_learned(self, stretch: Stretch) -> bool:
        fallen = stretch.first - stretch.last
        return stretch.batches >= _LONG and fallen > 0.0 and fallen >= _FALLEN * (self._highest - self._lowest)

    def _has_risen(self) -> bool:
        return self._rises[-1] >= _ONCE or (len(self._rises) > 1 and min(self._rises) >= _TWICE)
