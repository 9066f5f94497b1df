"""The classes that an input is most easily taken for: what attacks on several targets try, one after the other."""

from ..arrays import Array, Rows, namespace
from ..arrays.rows import is_class, take
from ..problem import Problem
from ..problem.objective import Objective, margin, targeted_logits_ratio


def rivals(problem: Problem, rows: Rows, count: int) -> list[Array]:
    """Up to `count` arrays of `(len(rows),)` native classes: the anchor's rivals by their logits, the largest first.

    When the criterion is targeted there is one array, the targets.
    """
    criterion = problem.criterion(rows)
    if criterion.is_targeted:
        return [criterion.anchor]
    logits = problem.logits(take(problem.x, rows), rows)
    xp = namespace(logits)
    others = xp.where(is_class(logits, criterion.anchor), -xp.inf, logits)
    order = xp.argsort(others, axis=1, descending=True, stable=True)
    return [order[:, place] for place in range(min(count, logits.shape[1] - 1))]


def towards(problem: Problem, rows: Rows, target: Array) -> Objective:
    """The ratio that rises as the target overtakes the anchor; the margin when the criterion itself is targeted."""
    return margin if problem.criterion(rows).is_targeted else targeted_logits_ratio(target)
