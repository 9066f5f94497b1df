"""Signal to noise of gradients over a window of steps."""

import math
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..outbox.promises import Made
from ..quantities.samples import Sample, elements_of, samples_of
from .collector import Collected, SiteRows, Step, collector

_NAME = "gradient/signal"
_COLUMNS = ("signal_to_noise",)
#: Due steps of one window: enough for a variance, few enough for the weights to stay about where they are. Our choice.
_WINDOW = 16


@collector(_NAME, at="before_step", columns=_COLUMNS, is_optional=True)
class GradientSignal:
    """Ratio of squared mean to variance of gradient elements over sixteen due steps, averaged over each parameter.

    The gradients of steps stand for those of samples, and the parameters drift a little in between: read it as a trend.
    A gradient that is nothing but noise has about 1/16. Of at most 4096 elements, evenly spread; recorded at the last
    step of every window. Off unless the configuration names it.

    Reference:
        Liu et al. 2020, arXiv:2001.07384, eq. 2.
    """

    def __init__(self) -> None:
        self._windows: dict[str, list[NDArray[np.float64]]] = {}

    def __call__(self, step: Step) -> Collected:
        """One number of every parameter whose window is full."""
        found: dict[str, tuple[float, ...] | Made] = {}
        gradients, outbox = step.view.gradients(), step.outbox
        is_late = step.may_be_late(gradients)
        for site, sample in zip(step.view.names, samples_of(gradients, outbox), strict=True):
            if sample is None:
                continue
            look = partial(self._look, site, sample)
            numbers = outbox.make(_NAME, look) if outbox is not None and is_late else look()
            if numbers is not None:
                found[site] = numbers
        return {_NAME: SiteRows(_COLUMNS, found)} if found else {}

    def _look(self, site: str, sample: Sample) -> tuple[float, ...] | None:
        window = self._windows.setdefault(site, [])
        window.append(elements_of(sample))
        if len(window) < _WINDOW:
            return None
        full, self._windows[site] = window, []
        return (signal_to_noise(np.stack(full)),)


def signal_to_noise(gradients: NDArray[np.float64]) -> float:
    """Mean over the elements of squared mean over variance; elements that never change are left out, NaN of none.

    Args:
        gradients: `(samples, elements)`, two samples or more.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        mean, variance = gradients.mean(0), gradients.var(0, ddof=1)
    varies = variance != 0.0
    return float((mean[varies] ** 2 / variance[varies]).mean()) if varies.any() else math.nan
