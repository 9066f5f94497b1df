"""Empirical robustness: how large the smallest change is that fools a model, in proportion to the input."""

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Array
from ..attacks import DeepFool
from ..contract.attack import Attack
from ..distances import distance_named
from ..model import Model


def empirical_robustness(model: Model, x: Array, y: ArrayLike, *, attack: Attack | None = None, seed: int = 0) -> float:
    """The mean over samples of the smallest change found, as a share of the input's own length.

    Samples that are wrong from the start count as 0; samples for which nothing is found, or whose input is zero
    everywhere, are left out. NaN where none is left.

    Args:
        x: `(n, ...)` inputs.
        y: `(n,)` their classes.
        attack: Finds the change and says in which norm; DeepFool in L2, as in the paper, by default.

    Reference:
        Moosavi-Dezfooli, Fawzi and Frossard 2016, arXiv:1511.04599, equation 15.
    """
    search = attack or DeepFool(norm="l2")
    found = search(model, x, y, epsilons=None, seed=seed).minimum_norms
    inputs = model.native(x)
    lengths = distance_named(search.norm).measure(0.0 * inputs, inputs)
    counts = np.isfinite(found) & (lengths > 0)
    return float(np.mean(found[counts] / lengths[counts])) if counts.any() else float("nan")
