"""Does a model reshape a tensor where it would have to permute its axes?"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise, permutations
from math import prod
from typing import Final, NamedTuple

from .check_result import CheckResult, broken, held

RESHAPED = "reshapes_keep_the_order_of_axes"
_CLAIM = "a reshape joins neighbouring axes or splits one; it exchanges none"
#: Functions that reshape.
RESHAPES: Final = frozenset({"view", "reshape", "view_as", "reshape_as"})
#: Functions that give the axes of a tensor another order, and those that leave it as it is.
PERMUTES: Final = frozenset({"transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis"})
PASSES: Final = frozenset({"contiguous", "clone"})
#: Numbers of axes whose orders are tried.
_FEWEST_AXES, _MOST_AXES = 2, 5
#: Axes of a batch of pictures.
_PICTURES: Final = 4


class Reshape(NamedTuple):
    """The shapes of a tensor before and after, and the name of the module that reshapes it; empty for the model."""

    before: Sequence[int]
    after: Sequence[int]
    module: str = ""


def axes_are_not_exchanged_by_reshaping(
    reshapes: Iterable[Reshape], samples: set[int], subject: str = ""
) -> CheckResult:
    """Return whether tensors are reshaped so that axes seem exchanged while their elements are not.

    `(B, C, H, W)` to `(B, H W, C)` joins no neighbours and splits nothing; with the axes in another order it would.
    What keeps the batch apart is looked at, what no joining and splitting could make, and pictures that become rows of
    as many values as they have channels. A tensor that is shifted by
    one along the other axis on purpose, `(T, T + 1)` to `(T + 1, T)` (Dai et al. 2019, arXiv:1901.02860, appendix B),
    is left out, and pairs of steps that are joined, `(T, C)` to `(T / 2, 2 C)` where `T` is `2 C`.

    Args:
        reshapes: All of them, in order.
        samples: Sizes that a batch may have.
        subject: What reshapes; empty for a model.
    """
    for before, after, module in reshapes:
        if _spreads_channels(before, after, samples):
            words = (
                f"a tensor {_shape(before)} is reshaped to pictures {_shape(after)}: each channel becomes some rows "
                "of it; a pixel shuffle puts channels beside each other"
            )
            return broken(RESHAPED, _CLAIM, words, subject=subject, axes=float(len(before))).at(module)
        order = exchanged_axes(before, after, samples)
        if order is not None:
            words = (
                f"a tensor {_shape(before)} is reshaped to {_shape(after)}, which its axes have in the order "
                f"{_shape([before[axis] for axis in order])}: its elements stay in the order of {_shape(before)}"
            )
            return broken(RESHAPED, _CLAIM, words, subject=subject, axes=float(len(before))).at(module)
    return held(RESHAPED, _CLAIM, subject=subject)


def is_meant(before: Sequence[int], after: Sequence[int]) -> bool:
    """Return whether a tensor that was permuted could have been reshaped as it was: the mixture was made on purpose.

    Args:
        before: Its shape before the permutation.
        after: Its shape in the end.
    """
    return prod(before) == prod(after) and _fits(before, after)


def exchanged_axes(before: Sequence[int], after: Sequence[int], samples: set[int]) -> tuple[int, ...] | None:
    """Return the order of the axes of `before` that `after` is made for; None where it is their own, or no order."""
    if not _FEWEST_AXES <= len(before) <= _MOST_AXES or not 0 < prod(before) == prod(after) or _fits(before, after):
        return None
    moved, made = _moved(before, after)
    is_exchange = len(moved) == _FEWEST_AXES and moved == made[::-1]
    if is_exchange and (abs(moved[0] - moved[1]) <= 1 or moved[0] == 2 * moved[1]):
        return None
    keeps_batch = before[0] == after[0] and before[0] in samples
    if not keeps_batch and _divides(before, after) and not _takes_channels_for_last(before, after, samples):
        return None
    for order in permutations(range(len(before))):
        if _fits([before[axis] for axis in order], after):
            return order
    return None


def _fits(before: Sequence[int], after: Sequence[int]) -> bool:
    """Return whether `after` comes of joining neighbouring axes of `before` and of splitting single ones."""
    return all(len(few) == 1 or len(others) == 1 for few, others in _segments(before, after))


def _moved(before: Sequence[int], after: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the first axes that neither joining nor splitting explains."""
    return next((one, other) for one, other in _segments(before, after) if len(one) > 1 and len(other) > 1)


def _segments(before: Sequence[int], after: Sequence[int]) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the shortest neighbouring axes of both that hold the same number of elements."""
    ones, others = [size for size in before if size != 1], [size for size in after if size != 1]
    while ones and others:
        one, other = [ones.pop(0)], [others.pop(0)]
        while (left := prod(one)) != (right := prod(other)):
            if left < right:
                one.append(ones.pop(0))
            else:
                other.append(others.pop(0))
        yield one, other


def _divides(before: Sequence[int], after: Sequence[int]) -> bool:
    """Return whether axes are split and their parts joined with neighbours, as heads are with the batch."""
    strides = sorted({prod(shape[at:]) for shape in (before, after) for at in range(len(shape))})
    return all(larger % smaller == 0 for smaller, larger in pairwise(strides))


def _takes_channels_for_last(before: Sequence[int], after: Sequence[int], samples: set[int]) -> bool:
    """Return whether pictures become rows of as many values as they have channels, `(B, C, H, W)` to `(B H W, C)`."""
    is_of_pictures = len(before) >= _PICTURES and before[0] in samples
    return is_of_pictures and len(after) == _FEWEST_AXES and after[1] == before[1]


def _spreads_channels(before: Sequence[int], after: Sequence[int], samples: set[int]) -> bool:
    """Return whether channels of pictures are spread over larger ones, `(B, C r r, H, W)` to `(B, C, r H, r W)`.

    A pixel shuffle exchanges axes for that (Shi et al. 2016, arXiv:1609.05158, equation 4).
    """
    if not len(before) == len(after) == _PICTURES or before[0] != after[0] or before[0] not in samples:
        return False
    times = after[2] // max(before[2], 1)
    is_larger = times > 1 and before[2] > 1 and before[3] > 1
    return is_larger and [after[1] * times**2, *after[2:]] == [before[1], times * before[2], times * before[3]]


def _shape(sizes: Sequence[int]) -> str:
    return f"({', '.join(map(str, sizes))})"
