"""Warnings of an evaluation that can run and is hardly meant: budgets on another scale, guesses, training mode."""

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ..distances import Norm

#: Budgets that the field reports: 8/255 and 0.5 (Croce et al. 2021, arXiv:2010.09670), 12 in L1 (Croce and Hein 2021,
#: arXiv:2103.01208), all on 3072 numbers between 0 and 1. In L2 and L1 a budget of other sizes grows as the box does.
_USUAL: Final[dict[Norm, float]] = {"linf": 8 / 255, "l2": 0.5, "l1": 12.0}
_GROWTH: Final[dict[Norm, float]] = {"linf": 0.0, "l2": 0.5, "l1": 1.0}
_ELEMENTS: Final = 3072
#: Below this share of the usual, half a grey level of 8 bits in Linf, a budget is taken for one of another scale. Our
#: choice, and only where the box is wider than 1: small budgets on data between 0 and 1 are meant.
_SMALL: Final = 1 / 16


def budget_warnings(norm: Norm, largest: float, bounds: tuple[ArrayLike, ArrayLike], elements: int) -> Iterator[str]:
    """Yield a sentence if the largest budget is on the wrong scale for inputs within the bounds.

    Args:
        largest: The largest budget, in the unit of the inputs.
        bounds: Smallest and largest value of an input, numbers or arrays of one shape.
        elements: Numbers in one input.
    """
    low, high = (float(np.min(bounds[0])), float(np.max(bounds[1])))
    width = float(np.max(np.subtract(bounds[1], bounds[0])))
    box = f"the bounds [{low:g}, {high:g}]"
    if norm == "l0":
        if largest >= elements:
            yield f"epsilon {largest:g} (l0) lets an attack change all {elements} numbers of an input"
        return
    across = width * elements ** _GROWTH[norm]
    usual = width * _USUAL[norm] * (elements / _ELEMENTS) ** _GROWTH[norm]
    share = "8/255 of their width, " if norm == "linf" else ""
    unit = "" if width == 1 else "epsilons are in the unit of x; "
    remedy = f"{unit}usual is {share}here about {usual:.3g}"
    if largest >= across:
        yield f"epsilon {largest:g} ({norm}) spans {box}, so that any input may become any other; {remedy}"
    elif width > 1 and 0 < largest < usual * _SMALL:
        yield f"epsilon {largest:g} ({norm}) is the largest, and next to nothing within {box}; {remedy}"


def clean_warnings(accuracy: float, classes: int) -> Iterator[str]:
    """Yield a sentence if the clean accuracy, from 0 to 1, is below that of a guess among so many classes."""
    if accuracy < 1 / classes:
        yield (
            f"the clean accuracy is {accuracy:.3f}, below the {1 / classes:.3f} of a guess among {classes} classes; "
            f"check that labels have the model's order and inputs the scale that it was trained on"
        )


def mode_warnings(count: int) -> Iterator[str]:
    """Yield a sentence if so many modules were left in training mode; the evaluation is of evaluation mode."""
    if count:
        yield (
            f"{count} modules were in training mode; they were switched to evaluation mode for the evaluation, "
            "and back afterwards"
        )
