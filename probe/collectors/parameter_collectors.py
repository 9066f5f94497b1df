"""Collectors of parameters: gradients, weights, updates and the optimizer's state at every step."""

import math
from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..device_results import HostFuture
from ..kernels import (
    STATISTICS,
    Arrays,
    measure,
    together,
)
from ..late_scalars import LateScalar
from ..quantities.noise_scale import MicroBatches, NoiseScale
from ..quantities.tensor_samples import Sample, elements_of, samples_of
from .collector import Collected, Rows, SiteRows, Step, array_collector, collector

_NANS = STATISTICS.index("nans")
_NOT_FINITE = slice(_NANS, STATISTICS.index("neg_infs") + 1)


@collector("gradient", at="before_step", columns=STATISTICS)
class Gradient:
    """Statistics of every parameter's gradient as the optimizer gets it: after clipping, without loss scale."""

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Return the rows of `gradient`; a parameter without gradient has none."""
        arrays = step.view.gradients()
        rows, norm = step.statistics_and_norm(arrays) if arrays.remote else arrays.statistics_and_norm(step.more)
        present = arrays.present
        step.gradient_norm = norm
        if norm is None:
            step.gradient_norm = lambda: _norm(rows[present])
        elif norm == 0.0 and not present.any():
            step.gradient_norm = None
        return {"gradient": Rows(rows, present)}


def _norm(rows: NDArray[np.float64]) -> float | None:
    """Return the norm over all parameters; NaN or infinity if a gradient holds one, None of no gradient."""
    if not len(rows):
        return None
    if rows[:, _NOT_FINITE].any():
        return math.nan if rows[:, _NANS].any() else math.inf
    norms = rows[:, 0]
    return math.sqrt(norms @ norms)


@collector("gradient_norm", at="before_step")
class GradientNorm:
    """L2 norm over the gradients of all recorded parameters as the optimizer gets them; not finite where one is not.

    Made of the norms that `gradient` has measured in the same step, so it costs nothing; nothing where that is not due.
    Several optimizers that step one after the other in a step bring each the gradients of its own parameters.
    """

    def __init__(self) -> None:
        self._number = -1
        self._norms: list[float | LateScalar] = []

    def __call__(self, step: Step) -> Mapping[str, float | LateScalar]:
        """Return the scalar `gradient_norm`."""
        if step.gradient_norm is None:
            return {}
        if step.number != self._number:
            self._number, self._norms = step.number, []
        self._norms.append(step.gradient_norm)
        if len(self._norms) == 1 and not callable(step.gradient_norm):
            return {"gradient_norm": step.gradient_norm}
        norms = [*self._norms]
        if any(callable(one) for one in norms):
            return {"gradient_norm": lambda: _together([one() if callable(one) else one for one in norms])}
        return {"gradient_norm": _together([one for one in norms if not callable(one)]) or 0.0}


def _together(norms: Sequence[float | None]) -> float | None:
    """Over all parameters of all optimizers; None where no gradient was there."""
    known = [one for one in norms if one is not None]
    return math.fsum(one * one for one in known) ** 0.5 if known else None


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
        """Return one number of every parameter whose window is full."""
        found: dict[str, tuple[float, ...] | HostFuture] = {}
        gradients, device_results = step.view.gradients(), step.device_results
        is_late = step.may_be_late(gradients)
        for site, sample in zip(step.view.names, samples_of(gradients, device_results), strict=True):
            if sample is None:
                continue
            look = partial(self._look, site, sample)
            numbers = device_results.make(_NAME, look) if device_results is not None and is_late else look()
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


@collector("gradient_noise_scale", at="after_step", is_optional=True)
class GradientNoiseScale:
    """Noise of the gradient over its square, in micro-batches: batches much smaller are noisy, much larger wasteful.

    Multiply by the samples of a micro-batch for the number of samples. Needs two backward passes a step or more, of
    equal size, whose gradients `backward` adds up; nothing is recorded of other steps. Averaged over steps; of about a
    quarter of a million elements, evenly spread. Gradients must be zero or None when a step begins. Off unless the
    configuration names it.

    Reference:
        McCandlish et al. 2018, arXiv:1812.06162, appendix A.1.
    """

    def __init__(self) -> None:
        self._scale = NoiseScale()

    def __call__(self, step: Step) -> Collected:
        """Return the scalar if the step had micro-batches; late if a device has them."""
        batches = step.micro_batches
        if batches.late:
            return {"gradient_noise_scale": partial(self._of, batches)}
        found = self._of(batches)
        return {} if found is None else {"gradient_noise_scale": found}

    def _of(self, batches: MicroBatches) -> float | None:
        batches.settle()
        squares = list(batches.squares.values())
        return self._scale.add(squares, batches.square_of_sum) if len(squares) > 1 else None


GRADIENT_UNREDUCED = array_collector(
    "gradient/unreduced",
    measure,
    at="backward",
    columns=STATISTICS,
    is_optional=True,
    doc="""Statistics of the gradient that one backward pass of this process found for every parameter.

    Read before it is added to what earlier micro-batches left and before ranks reduce it; one row a micro-step. Off
    unless the configuration names it.""",
)


@collector("weight", at="after_step", columns=STATISTICS)
class Weight:
    """Statistics of every parameter after the optimizer has moved it; whole tensors of `dump` are those before it."""

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Return the rows of `weight`."""
        arrays, rows = step.known_weights or step.weights(), step.weight_rows
        if rows is None or rows.shape[1] != len(STATISTICS) + len(step.more.columns):
            rows = step.statistics(arrays, rows)
        return {"weight": Rows(rows, arrays.present)}


@collector("weight/before", at="before_step", columns=STATISTICS, is_optional=True)
class WeightBefore:
    """Statistics of every parameter before the optimizer moves it, the same as `weight` one step earlier.

    Off unless the configuration names it: where `weight` is recorded at every step it says nothing new.
    """

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Return the rows of `weight/before`."""
        arrays = step.weights()
        return {"weight/before": Rows(step.statistics(arrays), arrays.present)}


@collector("optimizer", at="after_step", columns=STATISTICS)
class OptimizerSlots:
    """Statistics of every slot after the step, as subject `optimizer/<slot>`; counters are left out.

    Of a slot that is a list or a mapping each tensor is one, `optimizer/<slot>[key]`, up to 8. Of a list that grows, or
    is longer, the newest entry alone is: `optimizer/<slot>[-1]`. L-BFGS keeps one state for all parameters, which
    stands at the first of them: `d`, `H_diag`, `prev_flat_grad`, and the newest of its histories, `old_dirs[-1]`,
    `old_stps[-1]`, `ro[-1]` and `al[-1]`.
    """

    def __init__(self) -> None:
        self._slots: Mapping[str, Arrays] = {}
        self._all: Arrays | None = None
        self._parts: list[tuple[str, slice, NDArray[np.bool_]]] = []

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Return the rows of each slot; slots that have not moved are measured together."""
        slots = step.view.slots()
        if slots is not self._slots or not slots:
            self._slots, self._all = slots, None
            return {
                f"optimizer/{slot}": Rows(step.statistics(arrays), arrays.present) for slot, arrays in slots.items()
            }
        if self._all is None:
            self._all, self._parts = together(slots.values()), []
            for slot, arrays in slots.items():
                begin = self._parts[-1][1].stop if self._parts else 0
                self._parts.append((f"optimizer/{slot}", slice(begin, begin + arrays.sizes.size), arrays.present))
        rows, _ = self._all.statistics_and_norm(step.more)
        found = {}
        for subject, part, present in self._parts:
            found[subject] = Rows(rows[part], present)
        return found
