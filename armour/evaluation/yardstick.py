"""Plain PGD with 40 steps, as most papers report it: what an evaluation is compared with, no part of it."""

from ..attacks import PGD
from ..contract.attack import Sweep
from ..contract.registry import ATTACKS
from ..contract.samples import Samples
from ..distances import Norm
from ..model import Model


def plain_accuracy(
    model: Model, samples: Samples, norm: Norm, budgets: tuple[float, ...], sweep: Sweep
) -> dict[float, float]:
    """Accuracy by budget; empty in a norm that PGD does not know.

    Reference:
        Madry et al. 2018, arXiv:1706.06083: a random start and steps of 2.5 / 40 of the budget.
    """
    if norm not in ATTACKS[PGD.name].norms:
        return {}
    attack = PGD(norm=norm, steps=40, step_size=2.5 / 40, random_start=True)
    attempts = attack.attempts(model, samples, budgets, sweep)
    return {
        budget: float((~(attempt.success | samples.solved)).mean())
        for budget, attempt in zip(budgets, attempts, strict=True)
    }
