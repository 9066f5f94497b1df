"""Steps towards the class that the model thinks least likely: one, or many small ones."""

from dataclasses import dataclass

from ..arrays import Array, namespace
from ..contract.attack import Attack
from ..contract.registry import attack
from ..problem import Problem
from ..problem.criterion import Criterion, Targeted
from ..problem.objective import Objective, cross_entropy
from ..search.sparse import whole_step
from ..search.stepping import stepped
from .bim import BIM


@attack(
    "ll-fgsm",
    norms=("linf", "l2", "l1"),
    reference="Kurakin, Goodfellow and Bengio 2017, arXiv:1611.01236",
)
@dataclass(frozen=True)
class LeastLikelyFGSM(Attack):
    """One step of the whole budget towards the least likely class, which leaks no label into adversarial training."""

    def search(self, problem: Problem) -> Array:
        """The inputs, each one step away."""
        ascent = problem.ascend(problem.x, problem.rows, towards_least_likely(problem))
        return problem.x + whole_step(problem, problem.x, ascent.gradient, problem.rows)


@attack(
    "ll-bim",
    norms=("linf", "l2", "l1"),
    reference="Kurakin, Goodfellow and Bengio 2017, arXiv:1607.02533",
)
@dataclass(frozen=True)
class LeastLikelyBIM(BIM):
    """Equal steps towards the class that is least likely for the input itself, as those of `bim` otherwise.

    Args:
        steps: Gradient steps.
    """

    def search(self, problem: Problem) -> Array:
        """The first adversarial iterate of each sample, else the last one."""
        classes = least_likely(problem)
        return stepped(problem, lambda gradient, _: gradient, self.steps, lambda rows: _towards(classes[rows]))


def least_likely(problem: Problem) -> Array:
    """`(n,)` native classes that the clean inputs are least taken for; the targets when the criterion has some."""
    criterion = problem.criterion(problem.rows)
    if criterion.is_targeted:
        return criterion.anchor
    logits = problem.logits(problem.x, problem.rows)
    return namespace(logits).argmin(logits, axis=1)


def towards_least_likely(problem: Problem) -> Objective:
    """What rises as all samples of the batch come nearer to their least likely class."""
    return _towards(least_likely(problem))


def _towards(classes: Array) -> Objective:
    def objective(logits: Array, _: Criterion) -> tuple[Array, Array]:
        return cross_entropy(logits, Targeted(classes))

    return objective
