"""The fast gradient sign method and its variants: one step of the whole budget, or small equal steps."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..array_api import Array, Rows, as_images, copy, flat, image_shape, namespace, per_sample
from ..contract.attack import Attack, at_least, attack, fraction, positive
from ..problem import Problem
from ..problem.criterion import Criterion, Targeted
from ..problem.objective import Objective, cross_entropy
from ..search.gradient_steps import equal_steps, whole_step


@attack(
    "fgsm",
    norms=("linf", "l2", "l1"),
    reference="Goodfellow, Shlens and Szegedy 2015, arXiv:1412.6572",
)
@dataclass(frozen=True)
class FGSM(Attack):
    """One step of length epsilon in the direction that raises the loss most; optimal on linear models in Linf.

    In L2 the step follows the gradient itself (the fast gradient method); in L1 the steepest elements go to the edge of
    the box until the budget is spent. It costs one gradient a sample, and overstates robustness wherever the loss is
    not linear: it is a smoke test, not a verdict.

    Example:
        >>> FGSM()(wrap(network), x, y, epsilons=[0.1]).robust_accuracy  # doctest: +SKIP
    """

    def initial_objective(self) -> Objective:
        """Return the cross-entropy."""
        return cross_entropy

    def search(self, problem: Problem) -> Array:
        """Return the inputs, each moved by one step."""
        ascent = problem.ascend(problem.x, problem.rows, cross_entropy)
        return problem.x + whole_step(problem, problem.x, ascent.gradient, problem.rows)


@attack(
    "bim",
    norms=("linf", "l2", "l1"),
    reference="Kurakin, Goodfellow and Bengio 2017, arXiv:1607.02533",
)
@dataclass(frozen=True)
class BIM(Attack):
    """Equal steps from the input, each projected onto the budget; together they are as long as two budgets.

    Args:
        steps: Gradient steps.
    """

    steps: int = 20

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps")

    def search(self, problem: Problem) -> Array:
        """Return the first adversarial iterate of each sample, else the last one."""
        return equal_steps(problem, lambda gradient, _: gradient, self.steps)


@attack(
    "ll-fgsm",
    norms=("linf", "l2", "l1"),
    reference="Kurakin, Goodfellow and Bengio 2017, arXiv:1611.01236",
)
@dataclass(frozen=True)
class LeastLikelyFGSM(Attack):
    """One step of the whole budget towards the least likely class, so that adversarial training leaks no label."""

    def search(self, problem: Problem) -> Array:
        """Return the inputs, each moved by one step."""
        ascent = problem.ascend(problem.x, problem.rows, towards_least_likely(problem))
        return problem.x + whole_step(problem, problem.x, ascent.gradient, problem.rows)


@attack(
    "ll-bim",
    norms=("linf", "l2", "l1"),
    reference="Kurakin, Goodfellow and Bengio 2017, arXiv:1607.02533",
)
@dataclass(frozen=True)
class LeastLikelyBIM(BIM):
    """Equal steps towards the class that is least likely for the input; otherwise as `bim`.

    Args:
        steps: Gradient steps.
    """

    def search(self, problem: Problem) -> Array:
        """Return the first adversarial iterate of each sample, else the last one."""
        classes = least_likely(problem)
        return equal_steps(problem, lambda gradient, _: gradient, self.steps, lambda rows: _towards(classes[rows]))


def least_likely(problem: Problem) -> Array:
    """Return `(n,)` native classes that the model finds least likely for the clean inputs, or the targets."""
    criterion = problem.criterion(problem.rows)
    if criterion.is_targeted:
        return criterion.anchor
    logits = problem.logits(problem.x, problem.rows)
    return namespace(logits).argmin(logits, axis=1)


def towards_least_likely(problem: Problem) -> Objective:
    """Return the objective that rises as samples come nearer to their least likely class."""
    return _towards(least_likely(problem))


def _towards(classes: Array) -> Objective:
    def objective(logits: Array, _: Criterion) -> tuple[Array, Array]:
        return cross_entropy(logits, Targeted(classes))

    return objective


@attack(
    "r-fgsm",
    norms=("linf", "l2"),
    reference="Tramer et al. 2018, arXiv:1705.07204",
)
@dataclass(frozen=True)
class RandomFGSM(Attack):
    """A random step of part of the budget, then one gradient step of the rest.

    Args:
        share: Of the budget, that the random step has.
        least_likely: Whether the gradient step goes to the least likely class instead of away from the label.
    """

    share: float = 0.5
    least_likely: bool = False

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        fraction(self, "share")

    def search(self, problem: Problem) -> Array:
        """Return the inputs, each moved by a random step and a gradient step."""
        rows, budget = problem.rows, problem.budget(problem.rows)
        noise = problem.distance.steepest(problem.normal(rows, tuple(problem.x.shape[1:])))
        start = problem.project(problem.x + self.share * budget * noise, rows)
        ascent = problem.ascend(start, rows, towards_least_likely(problem) if self.least_likely else cross_entropy)
        return start + (1.0 - self.share) * budget * problem.distance.steepest(ascent.gradient)


@attack(
    "fast-fgsm",
    norms=("linf", "l2", "l1"),
    reference="Wong, Rice and Kolter 2020, arXiv:2001.03994",
)
@dataclass(frozen=True)
class FastFGSM(Attack):
    """One gradient step, somewhat longer than the budget, from a random point of it, projected onto it.

    Args:
        step_size: Length of the step in budgets.
    """

    step_size: float = 1.25

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        positive(self, "step_size")

    def search(self, problem: Problem) -> Array:
        """Return the inputs, each moved by a random step and a gradient step."""
        rows = problem.rows
        start = problem.random_start(0, rows)
        ascent = problem.ascend(start, rows, cross_entropy)
        step = self.step_size * whole_step(problem, start, ascent.gradient, rows)
        return problem.project(start + step, rows)


@attack(
    "mi-fgsm",
    norms=("linf", "l2"),
    reference="Dong et al. 2018, arXiv:1710.06081",
)
@dataclass(frozen=True)
class MIFGSM(Attack):
    """Equal steps along the sum of all gradients, each scaled to mean absolute value 1; old ones decay.

    Args:
        steps: Gradient steps.
        decay: What is left of the sum after each step.
    """

    steps: int = 20
    decay: float = 1.0

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps")
        positive(self, "decay")

    def search(self, problem: Problem) -> Array:
        """Return the first adversarial iterate of each sample, else the last one."""

        return equal_steps(problem, lambda gradient, memory: self.decay * memory + of_mean_one(gradient), self.steps)


def of_mean_one(gradient: Array) -> Array:
    """Scale the gradient to mean absolute value 1; it stays zero where it is zero."""
    xp = namespace(gradient)
    size = xp.mean(flat(xp.abs(gradient)), axis=1)
    return gradient / per_sample(xp.where(size > 0, size, xp.ones_like(size)), gradient)


_REACH = 2.0  # all steps together, in budgets, as those of `equal_steps`


@attack(
    "di-fgsm",
    norms=("linf", "l2"),
    reference="Xie et al. 2019, arXiv:1803.06978",
)
@dataclass(frozen=True)
class DIFGSM(Attack):
    """Equal steps along the sum of gradients, most of them taken at a randomly shrunk and padded copy.

    The last two axes of an input are taken as an image; a flat input is one row of pixels. Copies keep the input's
    size, as those of most implementations do; the paper's are a tenth larger.

    Args:
        steps: Gradient steps.
        decay: What is left of the sum after each step.
        diversity: Share of the steps at a changed copy.
        smallest: Size of the smallest copy, as a share of the input's.
    """

    steps: int = 20
    decay: float = 1.0
    diversity: float = 0.5
    smallest: float = 0.9

    def __post_init__(self) -> None:
        Attack.__post_init__(self)
        at_least(self, 1, "steps")
        fraction(self, "decay", "diversity", "smallest")

    def search(self, problem: Problem) -> Array:
        """Return the first adversarial iterate of each sample, else the last one."""
        found, rows, iterates = copy(problem.x), problem.rows, problem.x
        memory = namespace(iterates).zeros_like(iterates)
        for step in range(self.steps):
            down, across = self._resizing(problem, rows, step)
            ascent = problem.ascend(_resize(down, iterates, across), rows, cross_entropy)
            back = namespace(down).matrix_transpose
            gradient = _resize(back(down), ascent.gradient, back(across))
            memory = self.decay * memory + of_mean_one(gradient)
            ahead = iterates + problem.budget(rows) * (_REACH / self.steps) * problem.distance.steepest(memory)
            iterates = problem.project(ahead, rows)
            found[rows] = iterates
            going = np.flatnonzero(~problem.is_adversarial(iterates, rows))
            rows, iterates, memory = rows[going], iterates[going], memory[going]
            if not len(rows):
                break
        return found

    def _resizing(self, problem: Problem, rows: Rows, step: int) -> tuple[Array, Array]:
        """Return `(n, 1, height, height)` and `(n, 1, width, width)` matrices that shrink and shift the axes."""
        draws = problem.uniform(rows, (4,), step)
        _, height, width = image_shape(problem.x)
        scale = np.where(draws[:, 0] < self.diversity, self.smallest + (1 - self.smallest) * draws[:, 1], 1.0)
        down = _bilinear(height, scale, draws[:, 2])
        return problem.native(down[:, None]), problem.native(_bilinear(width, scale, draws[:, 3])[:, None])


def _bilinear(size: int, scale: NDArray[np.float64], shift: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `(n, size, size)` matrices that shrink an axis and put it at a position from 0 (first) to 1 (last)."""
    length = np.maximum(np.round(scale * size), 1.0)[:, None]
    first = np.floor(shift[:, None] * (size - length + 1))
    position = np.arange(size) - first
    source = np.clip((position + 0.5) * size / length - 0.5, 0, size - 1)
    weights = np.clip(1.0 - np.abs(source[:, :, None] - np.arange(size)), 0.0, None)
    return np.asarray(weights * ((position >= 0) & (position < length))[:, :, None], np.float64)


def _resize(down: Array, x: Array, across: Array) -> Array:
    """Multiply columns and rows of every image by these matrices, in the shape of `x`."""
    xp = namespace(x)
    return xp.matmul(xp.matmul(down, as_images(x)), xp.matrix_transpose(across)).reshape(x.shape)
