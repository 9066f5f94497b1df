"""What a reduction did, told by what went in on every rank and what came out: which ranks are in it, and how much."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

_Numbers = NDArray[np.float64]
_MOST_SITES: Final = 4
#: A parameter whose projections are off by more than this share of the whole is named. Rounding of a reduction in
#: float32 stays below 1e-5, in bfloat16 below 2e-2 of the parameter's own (our choice).
_OFF: Final = 1e-2
_SMALLEST: Final = 1e-200


@dataclass(frozen=True, slots=True)
class Reduction:
    """How a reduced gradient is made of local ones.

    Args:
        weights: One a rank: how much of its gradient is in the result. 1/n each is a mean, 1 each a sum, 0 a rank that
            was dropped; 1 for the rank itself and 0 for the others says that nothing was reduced.
        residual: What these weights leave unexplained, as a share of the result.
        off: Places of the parameters that they do not explain, worst first.
    """

    weights: tuple[float, ...]
    residual: float
    off: tuple[int, ...]


def reduction_of(reduced: _Numbers, local: Sequence[_Numbers]) -> Reduction | None:
    """The weights that explain the result best, by least squares over the projections of all parameters.

    A parameter that is far off is left out of the fit, up to four of them, so that wrong bits in one do not hide what
    the others say.

    Args:
        reduced: `(n, 2)` projections of the result on one rank.
        local: `(n, 2)` projections of what each rank gave.

    Returns:
        None where there are fewer equations than ranks, or the result is as good as zero.
    """
    columns = np.stack(local, axis=-1)
    usable: NDArray[np.bool_] = np.isfinite(np.concatenate([columns, reduced[:, :, None]], axis=2)).all(axis=(1, 2))
    size = float(np.linalg.norm(reduced[usable]))
    if columns[usable].size < columns.shape[2] ** 2 or size < _SMALLEST:
        return None
    trusted, off = usable.copy(), []
    for _ in range(_MOST_SITES + 1):
        weights = np.linalg.lstsq(
            columns[trusted].reshape(-1, columns.shape[2]), reduced[trusted].reshape(-1), rcond=1e-9
        )[0]
        rest = np.where(usable[:, None], reduced - columns @ weights, 0.0)
        by_parameter = np.where(trusted, np.linalg.norm(rest, axis=1) / size, 0.0)
        worst = int(by_parameter.argmax())
        if by_parameter[worst] <= _OFF or trusted.sum() * 2 <= len(local) + 2:
            break
        trusted[worst] = False
        off.append(worst)
    return Reduction(tuple(weights.tolist()), float(np.linalg.norm(rest) / size), tuple(off[:_MOST_SITES]))
