"""Losses of batches of a few samples, which are mostly noise: how many of them are needed, and whether they fall."""

from dataclasses import dataclass, field
from math import ceil, isfinite
from statistics import fmean
from typing import Final

from ..context.step_context import StepContext
from ..running_statistics import trend

__all__ = ["SmallBatches"]

#: Labels of a batch from which on its loss is taken as it is. Our choice.
_ENOUGH: Final = 16
#: Blocks of which the means are kept; Mann-Kendall score of them below which the loss falls, in one of fifty losses
#: that do not.
_BLOCKS, _FALLS = 24, -2.0
_FEWEST: Final = 6


@dataclass(slots=True)
class SmallBatches:
    """The means of the loss over blocks of records, which grow so that they always span the whole training.

    Args:
        labels: Labels of the newest batch; 0 while they are not known.
    """

    labels: float = 0.0
    blocks: list[float] = field(default_factory=list)
    _of_block: list[float] = field(default_factory=list)
    _length: int = 1

    def learn(self, context: StepContext, loss: float) -> None:
        """Add the loss of a record, and how many labels its batch has."""
        self.labels = context.scalar("target/own_counted") or self.labels
        if not isfinite(loss):
            return
        self._of_block.append(loss)
        if len(self._of_block) < self._length:
            return
        self.blocks.append(fmean(self._of_block))
        self._of_block = []
        if len(self.blocks) == _BLOCKS:
            self.blocks = [fmean(pair) for pair in zip(self.blocks[::2], self.blocks[1::2], strict=True)]
            self._length *= 2

    @property
    def patience(self) -> int:
        """How many times more records are needed than of batches with enough labels; 1 where they have enough."""
        return ceil(_ENOUGH / self.labels) if 0.0 < self.labels < _ENOUGH else 1

    @property
    def falls(self) -> bool:
        """True if the batches are small, and their loss falls over the whole training."""
        return self.patience > 1 and len(self.blocks) >= _FEWEST and trend(self.blocks) < _FALLS
