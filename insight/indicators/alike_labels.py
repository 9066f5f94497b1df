"""Batches whose labels are all the same, another one from batch to batch."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..context.step_context import StepContext

#: Labels of a batch that are enough, batches, and labels that they must have among them (our choice). By chance alone
#: 16 labels of two equal classes are alike once in 32,768 batches.
_LABELS, _LOOKS, _CLASSES = 16, 6, 3


@dataclass(slots=True)
class AlikeLabels:
    """The label of each batch that was looked at, until one has several.

    Attributes:
        fewest: Labels in the smallest of the batches.
    """

    tops: list[float] = field(default_factory=list)
    fewest: float = 0.0
    since: int = 0
    is_over: bool = False

    def differ(self, context: StepContext) -> bool:
        """Return True once: each batch so far has a single label, and they come in no order.

        Batches of one class after another are data in their order, which another rule tells.
        """
        entropy = context.scalar("target/own_entropy")
        if entropy is None or self.is_over:
            return False
        top, counted = context.scalar("target/own_top"), context.scalar("target/own_counted")
        if entropy > 0.0 or top is None or counted is None or counted < _LABELS:
            self.is_over = True
            return False
        self.since = self.since if self.tops else context.step
        self.fewest = min(self.fewest, counted) if self.tops else counted
        self.tops.append(top)
        if len(self.tops) < _LOOKS:
            return False
        self.is_over = len(set(self.tops)) >= _CLASSES
        return self.is_over and not _is_sorted(self.tops)


def _is_sorted(labels: Sequence[float]) -> bool:
    return list(labels) in (sorted(labels), sorted(labels, reverse=True))
