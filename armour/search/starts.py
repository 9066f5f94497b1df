"""Points where searches that ask for decisions alone begin: anywhere in the box, as long as they are adversarial."""

import numpy as np

from ..arrays import Array, Rows, namespace
from ..arrays.images import image_shape
from ..problem import Problem
from .closest import Closest

_KEY = 900  # tells these draws from those of the searches
#: Blocks of the picture that share a value, as shares of its sides: noise of single pixels, patches, one flat colour.
_COARSENESS = (0.0, 0.25, 0.5, 1.0)


def find_starts(problem: Problem, closest: Closest, tries: int) -> Rows:
    """Offers `closest` an adversarial point of the box for each sample that has none yet.

    An input of the data set with the class to be reached comes first: noise alone may well be of one class whatever its
    draw. Then comes noise of pixels, of patches, and of flat colours, between the
    ends of the box and at them.

    Args:
        tries: Draws of noise at most.

    Returns:
        The rows for which there is an adversarial point now.

    Reference:
        Brendel et al. 2018, arXiv:1712.04248, section 3.1; the patches are our choice.
    """
    if not closest.found.all():
        candidates, rows = problem.examples(np.flatnonzero(~closest.found), _KEY)
        if len(rows):
            closest.offer(candidates, rows, problem.is_adversarial(candidates, rows))
    for number in range(tries):
        rows = np.flatnonzero(~closest.found)
        if not len(rows):
            break
        candidates = _noise(problem, rows, number)
        closest.offer(candidates, rows, problem.is_adversarial(candidates, rows))
    return np.flatnonzero(closest.found)


def _noise(problem: Problem, rows: Rows, number: int) -> Array:
    x = problem.x[rows]
    channels, height, width = image_shape(x)
    is_binary, share = number % 2 == 1, _COARSENESS[number // 2 % len(_COARSENESS)]
    tall, wide = (max(1, round(share * side)) for side in (height, width))
    down, across = -(-height // tall), -(-width // wide)
    drawn = problem.uniform(rows, (channels, down, across), _KEY, number)
    values = np.round(drawn) if is_binary else drawn
    filled = np.asarray(np.kron(values, np.ones((1, 1, tall, wide)))[:, :, :height, :width], np.float64)
    low, high = problem.bounds
    return namespace(x).clip(problem.native(low + (high - low) * filled).reshape(x.shape), low, high)
