"""DI-FGSM: momentum steps along gradients at shrunk and shifted copies of the input, for attacks that transfer."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..arrays import Array, Rows, copy, namespace
from ..arrays.images import as_images, image_shape
from ..contract.attack import Attack
from ..contract.options import at_least, fraction
from ..contract.registry import attack
from ..problem import Problem
from ..problem.objective import cross_entropy
from .momentum import of_mean_one

_REACH = 2.0  # all steps together, in budgets, as those of `stepped`


@attack(
    "di-fgsm",
    norms=("linf", "l2"),
    reference="Xie et al. 2019, arXiv:1803.06978",
)
@dataclass(frozen=True)
class DIFGSM(Attack):
    """Equal steps along the sum of gradients, most of them taken at a copy that is shrunk and padded at random.

    The last two axes of an input are taken for a picture; a flat input is one row of pixels. Copies keep the input's
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
        """The first adversarial iterate of each sample, else the last one."""
        found, rows, iterates = copy(problem.x), problem.rows, problem.x
        memory = namespace(iterates).zeros_like(iterates)
        for step in range(self.steps):
            down, across = self._resizing(problem, rows, step)
            ascent = problem.ascend(_applied(down, iterates, across), rows, cross_entropy)
            back = namespace(down).matrix_transpose
            gradient = _applied(back(down), ascent.gradient, back(across))
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
        """`(n, 1, height, height)` and `(n, 1, width, width)` matrices that shrink and shift columns and rows."""
        draws = problem.uniform(rows, (4,), step)
        _, height, width = image_shape(problem.x)
        scale = np.where(draws[:, 0] < self.diversity, self.smallest + (1 - self.smallest) * draws[:, 1], 1.0)
        down = _bilinear(height, scale, draws[:, 2])
        return problem.native(down[:, None]), problem.native(_bilinear(width, scale, draws[:, 3])[:, None])


def _bilinear(size: int, scale: NDArray[np.float64], shift: NDArray[np.float64]) -> NDArray[np.float64]:
    """`(n, size, size)` matrices: an axis shrunk to a share of itself, at a place from 0 (first) to 1 (last)."""
    length = np.maximum(np.round(scale * size), 1.0)[:, None]
    first = np.floor(shift[:, None] * (size - length + 1))
    place = np.arange(size) - first
    source = np.clip((place + 0.5) * size / length - 0.5, 0, size - 1)
    weights = np.clip(1.0 - np.abs(source[:, :, None] - np.arange(size)), 0.0, None)
    return np.asarray(weights * ((place >= 0) & (place < length))[:, :, None], np.float64)


def _applied(down: Array, x: Array, across: Array) -> Array:
    """Columns and rows of every picture multiplied by these matrices, in the shape of `x`."""
    xp = namespace(x)
    return xp.matmul(xp.matmul(down, as_images(x)), xp.matrix_transpose(across)).reshape(x.shape)
