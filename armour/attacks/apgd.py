"""Auto-PGD: gradient ascent with momentum whose step halves by itself when progress stalls."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ..arrays import Array, Rows, copy
from ..contract.attack import Attack
from ..contract.options import at_least
from ..contract.registry import attack
from ..problem import Problem
from ..problem.objective import Objective, cross_entropy, logits_ratio
from ..search.ascent import climb
from ..search.rivals import rivals, towards
from ..search.sparse_ascent import climb_sparsely

_PAPER: Final = "Croce and Hein 2020, arXiv:2003.01690; in L1 Croce and Hein 2021, arXiv:2103.01208"


@attack("apgd-ce", norms=("linf", "l2", "l1"), reference=_PAPER)
@dataclass(frozen=True)
class APGDCE(Attack):
    """Auto-PGD on the cross-entropy: momentum, and steps that halve when the loss stops rising.

    Args:
        steps: Gradient steps of each start.
        restarts: Random starts; later ones see only what still resists.
    """

    steps: int = 100
    restarts: int = 1

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "restarts")

    def search(self, problem: Problem) -> Array:
        """The first adversarial iterate of each sample, else the one of the highest loss."""
        return _climbed(problem, [lambda _: cross_entropy], self.steps, self.restarts)


@attack("apgd-dlr", norms=("linf", "l2", "l1"), reference=_PAPER)
@dataclass(frozen=True)
class APGDDLR(Attack):
    """Auto-PGD on the difference of logits ratio, which neither scale nor shift of the logits changes.

    Args:
        steps: Gradient steps of each start.
        restarts: Random starts; later ones see only what still resists.
    """

    steps: int = 100
    restarts: int = 1

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "restarts")

    def search(self, problem: Problem) -> Array:
        """The first adversarial iterate of each sample, else the one of the highest ratio."""
        return _climbed(problem, [lambda _: logits_ratio], self.steps, self.restarts)


@attack("apgd-t", norms=("linf", "l2", "l1"), reference=_PAPER)
@dataclass(frozen=True)
class APGDT(Attack):
    """Auto-PGD towards the likeliest other classes, one after the other, on the targeted logits ratio.

    Args:
        steps: Gradient steps of each start and target.
        restarts: Random starts for each target.
        classes: How many targets are tried.
    """

    steps: int = 100
    restarts: int = 1
    classes: int = 9

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps", "restarts", "classes")

    def search(self, problem: Problem) -> Array:
        """The first adversarial iterate of each sample, else the best of the last target."""

        def aimed(target: Array) -> Callable[[Rows], Objective]:
            return lambda rows: towards(problem, rows, target[rows])

        objectives = [aimed(target) for target in rivals(problem, problem.rows, self.classes)]
        return _climbed(problem, objectives, self.steps, self.restarts)


def _climbed(problem: Problem, objectives: Sequence[Callable[[Rows], Objective]], steps: int, restarts: int) -> Array:
    """One climb for each objective and start, on what still resists."""
    found, rows = copy(problem.x), problem.rows
    upward = climb_sparsely if problem.distance.name == "l1" else climb
    for number, objective in enumerate(objectives):
        for restart in range(restarts):
            if not len(rows):
                return found
            starts = problem.random_start(number * restarts + restart, rows)
            rows = upward(problem, found, rows, starts, objective, steps)
    return found
