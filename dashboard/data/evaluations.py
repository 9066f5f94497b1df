"""What the evaluations of one training found, by what they measured; of two that measured the same, the newer."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...storage import Outcome, Run
from .outcomes import outcomes
from .reader import Reader

WORST_CASE: Final = "worst-case"


@dataclass(frozen=True, slots=True)
class Evaluations:
    """Outcomes with the run that holds each, newest run first; `kind` is what `details["kind"]` says."""

    pairs: tuple[tuple[Run, Outcome], ...]

    def of(self, kind: str, norm: str | None = None) -> tuple[Outcome, ...]:
        """Those of one kind, and of one norm if wanted, by attack and growing epsilon."""
        found = [one for _, one in self.pairs if kind_of(one) == kind and norm in (None, one.norm)]
        return tuple(sorted(found, key=lambda one: (one.attack, one.norm, one.epsilon)))

    @property
    def norms(self) -> tuple[str, ...]:
        """The norms in which something was attacked or certified; the most often measured first."""
        measured = [one.norm for kind in ("attack", WORST_CASE, "certificate") for one in self.of(kind)]
        return tuple(sorted(set(measured), key=lambda norm: (-measured.count(norm), norm)))


def evaluations(reader: Reader, run: str) -> Evaluations:
    """All evaluations of a run, the run itself among them."""
    newest: dict[tuple[str, str, float], tuple[Run, Outcome]] = {}
    for one, found in outcomes(reader, run):
        for outcome in found:
            newest.setdefault((outcome.attack, outcome.norm, outcome.epsilon), (one, outcome))
    return Evaluations(tuple(newest.values()))


def kind_of(outcome: Outcome) -> str:
    """What was measured; outcomes of older stores say nothing and are of attacks."""
    said = outcome.details.get("kind", WORST_CASE if outcome.attack == WORST_CASE else "attack")
    return said if isinstance(said, str) else "attack"


def number_in(details: Mapping[str, object], name: str) -> float:
    """The number under that name; NaN when there is none, for a store may be older than what reads it."""
    value = details.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def numbers_in(details: Mapping[str, object], name: str) -> tuple[float, ...]:
    """The numbers in the list of that name; what is none is NaN, and no list is an empty one."""
    values = details.get(name)
    listed: Sequence[object] = values if isinstance(values, list | tuple) else ()
    return tuple(number_in({"": value}, "") for value in listed)


def part_in(details: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The object under that name, an empty one when there is none."""
    value = details.get(name)
    return value if isinstance(value, Mapping) else {}
