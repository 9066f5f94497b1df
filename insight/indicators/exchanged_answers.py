"""Tells by exchanges of answers within a batch whether a model has learned what belongs to which sample."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from math import sqrt
from statistics import median
from typing import Final

from ...storage import Event
from ..event_fields import number

__all__ = ["Exchanged", "ExchangedAnswers"]

#: Looks that are judged together, and the fewest. Our choice: of a model without knowledge four looks together reach
#: the score below in one of fifty cases.
_MOST, _FEWEST = 6, 4
#: Step before which a model may know nothing yet. Our choice: a run that ends soon after is told, too.
_EARLIEST: Final = 100
#: Score of all looks together, in deviations, below which nothing is known; correlation of loss and order that would
#: count as knowledge, and the quantile of its error.
_UNKNOWN, _CORRELATED, _QUANTILE = 2.0, 0.2, 1.64
#: Share of the loss that the order is worth, below which the knowledge is of no use, and its largest mean score: a
#: squared error of which half a percent is explained. Small data that are seen again and again are memorised so far.
_USELESS, _SCORE = 0.01, 2.0
#: Part of the loss by which it falls where something is learned. Our choice.
_FALLEN: Final = 0.3
#: Score of all looks together, and correlation, beyond which something was learned for certain.
_KNOWN, _CLEAR = 6.0, 0.2
#: Score of each of two looks in a row that takes back what was said of earlier ones.
_SURE = 3.0
#: Relative error within which the loss of a look is the loss of a record.
_SAME: Final = 1e-3


@dataclass(frozen=True, slots=True)
class Exchanged:
    """One look: the loss of a batch, what it was for exchanged answers, and whether the optimizers raise it."""

    step: int
    loss: float
    exchanged: float
    spread: float
    samples: float
    is_raised: bool = False

    @property
    def score(self) -> float:
        """How much better the loss is than after an exchange, in standard deviations."""
        return self._better / self.spread

    @property
    def gain(self) -> float:
        """The share of the loss that the order of the answers is worth."""
        return self._better / abs(self.exchanged) if self.exchanged else 1.0

    @property
    def _better(self) -> float:
        return self.loss - self.exchanged if self.is_raised else self.exchanged - self.loss


@dataclass(slots=True)
class ExchangedAnswers:
    """The newest looks at a learner's loss for exchanged answers.

    If answers have nothing to do with the targets of their samples, an exchange changes the loss by chance only (a
    permutation test: Fisher 1935, "The design of experiments"). No threshold on the loss is needed, whatever computes
    it; the spread of the exchanges is its own yardstick.
    """

    looks: deque[Exchanged] = field(default_factory=lambda: deque(maxlen=_MOST))

    def learn(self, events: Iterable[Event], loss: float | None) -> bool:
        """Take the looks of a record, of which those of the given loss count if there is one; return whether any did.

        Args:
            loss: The loss of the learner whose looks are wanted; None takes them all.
        """
        found = [_exchanged(event) for event in events if event.kind == "exchange" and number(event, "spread") > 0.0]
        mine = [look for look in found if loss is None or abs(look.loss - loss) <= _SAME * max(abs(loss), 1e-12)]
        if mine:
            self.looks.append(max(mine, key=lambda look: look.score))
        return bool(mine)

    @property
    def knows_nothing(self) -> bool:
        """True if the answers of several looks were worth no more in their own order than in any other."""
        newest = self.looks[-1] if self.looks else None
        if newest is None or len(self.looks) < _FEWEST or newest.step < _EARLIEST:
            return False
        if newest.score > _SURE and newest.gain > _USELESS:
            return False
        samples = sum(look.samples for look in self.looks)
        correlation = self._correlation + _QUANTILE / sqrt(samples)
        is_chance = self.score < _UNKNOWN and correlation < _CORRELATED
        mean = sum(look.score for look in self.looks) / len(self.looks)
        is_useless = median(look.gain for look in self.looks) < _USELESS and mean < _SCORE
        is_useless &= min(look.loss for look in self.looks) > 0.0 and not self.has_fallen
        return is_chance or is_useless

    @property
    def has_fallen(self) -> bool:
        """True if the loss fell from the first look to the last: of what is worth little, and not of nothing."""
        first, last = self.looks[0].loss, self.looks[-1].loss
        return (first - last) * (-1 if self.looks[-1].is_raised else 1) > _FALLEN * abs(first)

    @property
    def learns_after_all(self) -> bool:
        """True if the newest two looks, alone, show what earlier ones did not."""
        return len(self.looks) >= 2 and all(look.score > _SURE for look in list(self.looks)[-2:])

    @property
    def has_learned(self) -> bool:
        """True if the answers belong to their samples beyond any doubt."""
        return len(self.looks) >= 2 and self.score > _KNOWN and self._correlation > _CLEAR

    @property
    def score(self) -> float:
        """How much better the loss was than after exchanges, of all looks together, in standard deviations."""
        return sum(look.score for look in self.looks) / sqrt(len(self.looks)) if self.looks else 0.0

    @property
    def _correlation(self) -> float:
        return sum(look.score / sqrt(look.samples) for look in self.looks) / len(self.looks)


def _exchanged(event: Event) -> Exchanged:
    loss, exchanged, spread, samples = (number(event, name) for name in ("loss", "exchanged", "spread", "samples"))
    return Exchanged(event.step, loss, exchanged, spread, samples, is_raised=event.data.get("is_raised") is True)
