"""How far rounding alone can take two correct computations of one step apart.

A sum of n products whose roundings are independent is off by about u sqrt(n) of its size (Higham and Mary 2019,
doi:10.1137/18M1226312: the probabilistic bound, u half the distance from 1 to the next number), and what k tensors have
added to a step grows as sqrt(k) where nothing amplifies it. The bound of the k-th tensor of a step is 4 u sqrt(n k), n
being the longest sum that a weight of the model asks for.

Measured with sums in another order on dense networks of 4 to 40 layers, convolutions with batch norm and transformers
of 4 and 12 blocks, float32: at most 0.03 of the bound, but for what is rounding altogether. The gradient of a bias
before a batch norm, or of the keys' bias in an attention, is zero but for rounding, so that its own size says nothing;
neither does the size of what is made of it. Numbers of zeros hang on single elements and have no bound. Dtypes of
activations are not recorded: under autocast nobody can tell from statistics alone.
"""

from collections.abc import Iterator, Sequence
from math import isfinite, prod, sqrt

import numpy as np
from numpy.typing import NDArray

from ...storage import Structure
from .pairing import Tensor

__all__ = ["CERTAIN", "Rounding"]

_UNITS = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}
#: What a sum of a run that does not tell its parameters may have; our choice, above most networks'.
_LONG = 2**14
#: Room for other machines and networks than those measured; our choice.
_MARGIN = 4.0
#: More than this, and more than rounding explains, is another computation for certain; our choice: the largest bound of
#: the networks above is a tenth of it.
CERTAIN = 1e-3
#: Subjects of a parameter that are made of its gradient.
_OF_PARAMETERS = frozenset({"gradient", "optimizer", "update", "weight"})
#: Statistics whose distance is measured against the size of the tensor already, or has none.
_RELATIVE = frozenset({"l2_norm", "mean", "min", "max", "zeros", "nans", "pos_infs", "neg_infs", "size", "abs_max"})


class Rounding:
    """What rounding explains in the first step that two runs have in common.

    Args:
        structures: Of both runs: dtypes and shapes of their parameters. The coarsest dtype counts.
    """

    def __init__(self, structures: Sequence[Structure]) -> None:
        parameters = [one for structure in structures for one in structure.parameters]
        units = [_UNITS[one.dtype] for one in parameters if one.dtype in _UNITS]
        self._unit = max(units, default=_UNITS["float32"])
        self._terms = max((prod(one.shape[1:]) for one in parameters), default=_LONG)

    def explains(self, found: Sequence[Tensor]) -> Iterator[NDArray[np.float64]]:
        """What rounding explains of each tensor: `(statistics,)`, relative as in `divergence`, infinity for all of it.

        Args:
            found: The tensors of the step in its order.
        """
        noise = frozenset(self._noise(found))
        for place, one in enumerate(found, 1):
            if one.key[1] in noise and one.key[0].partition("/")[0] in _OF_PARAMETERS:
                yield np.full(len(one.statistics), np.inf)
                continue
            bound = np.full(len(one.statistics), self._bound(place))
            bound[[name == "zeros" for name in one.statistics]] = max(self._bound(place), CERTAIN)
            yield bound * _stretched(one)

    def _bound(self, place: int) -> float:
        return _MARGIN * self._unit * sqrt(self._terms * place)

    def _noise(self, found: Sequence[Tensor]) -> Iterator[str]:
        """Parameters whose gradients are rounding altogether: below what rounding makes of the largest of the step."""
        norms = {one.key[1]: _largest(one, "l2_norm") for one in found if one.key[0] == "gradient"}
        least = self._bound(len(found)) * max(norms.values(), default=0.0)
        return (site for site, norm in norms.items() if norm < least)


def _stretched(one: Tensor) -> NDArray[np.float64]:
    """How many times the relative error of a tensor's elements each statistic may be off, relative to itself.

    A spread, a sum, a quantile may be far smaller than the elements; an update than the weights that it is read from.
    """
    reach = max(_largest(one, "min"), _largest(one, "max"), _largest(one, "abs_max"))
    share = _largest(one, "ratio_to_weight")
    factors = np.full(len(one.statistics), max(1.0, 1.0 / share) if share > 0.0 else 1.0)
    for place, name in enumerate(one.statistics):
        size = max(abs(one.first[place]), abs(one.second[place]))
        if name not in _RELATIVE and 0.0 < size < np.inf:
            terms = _largest(one, "size") if name == "sum" else 1.0
            factors[place] *= max(1.0, terms * reach / size)
    return factors


def _largest(one: Tensor, statistic: str) -> float:
    """The larger absolute value of both, 0 where there is none or it is not finite."""
    if statistic not in one.statistics:
        return 0.0
    place = one.statistics.index(statistic)
    value = max(abs(float(one.first[place])), abs(float(one.second[place])))
    return value if isfinite(value) else 0.0
