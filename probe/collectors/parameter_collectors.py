"""Collectors of parameters: gradients, weights, updates and the optimizer's state at every step."""

import ctypes
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..device_results import DeviceResults, Future, HostFuture, LateScalar
from ..kernels import (
    NO_MORE,
    STATISTICS,
    Arrays,
    More,
    are_same,
    measure,
    measure_updates,
    readable,
    table_of,
    together,
    values_at,
)
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


_NORM = STATISTICS.index("l2_norm")
_RATIO = len(STATISTICS)


class DeviceUpdates:
    """Copies of the weights on their device, and the requested norms of what was copied."""

    def __init__(self) -> None:
        self._copies: Any = None  # of the framework's tensors
        self._norms: Mapping[int, Future] = {}

    def fit(self, now: Mapping[int, Any]) -> bool:
        """Return whether there is a copy of every one of these tensors."""
        if not now:
            return not self._norms
        return self._copies is not None and now.keys() == self._norms.keys() and self._copies.fit([*now.values()])

    def are_of(self, now: Mapping[int, Any]) -> bool:
        """Return whether these tensors, of which there are copies, were copied and are unchanged since."""
        return not now or bool(self._copies.are_of([*now.values()]))

    def take(self, now: Mapping[int, Any], device_results: DeviceResults) -> None:
        """Copy the tensors as they are now."""
        if not now:
            self._copies, self._norms = None, {}
            return
        assert device_results.device is not None, "tensors are remote only where there is a device"
        if self._copies is None:
            self._copies = device_results.device.copies()
        self._copies.take([*now.values()])
        self._norms = device_results.request_rows(now, np.empty((max(now) + 1, _RATIO)))

    def fill(
        self,
        now: Mapping[int, Any],
        device_results: DeviceResults,
        weights: NDArray[np.float64],
        moved: NDArray[np.float64],
        more: More = NO_MORE,
    ) -> None:
        """Request the tensors' rows of `weights` and of `moved`, and copy the tensors as they are now.

        Args:
            weights: `(n, 10 and more)`.
            moved: `(n, 11 and more)`, the eleventh column for the ratio of the change to the weight before it.
            more: Statistics on request, in the last columns of both.
        """
        if not now:
            return
        changes = self._copies.changes([*now.values()])
        device_results.request_rows(dict(zip(now, changes, strict=True)), moved, more)
        before, self._norms = self._norms, device_results.request_rows(now, weights, more)

        def divide() -> None:
            for number, future in before.items():
                if future.row is not None:
                    moved[number, _RATIO] = moved[number, _NORM] / (future.row[_NORM] + 1e-30)

        device_results.when_ready(divide)


_UPDATE_COLUMNS = len(STATISTICS) + 1
_ITEM_BYTES = np.array([4, 8, 2, 2], np.int64)


@collector("update", at="after_step", columns=(*STATISTICS, "ratio_to_weight"))
class Update:
    """Statistics of `w_after - w_before`, and `ratio_to_weight`, its norm over that of `w_before`.

    What changes weights between two steps, as clipping them or loading others does, is no part of it; on an accelerator
    it is where it is done through `.data`, which torch's version counters do not count.

    One copy of the weights is kept. The pass that reads the weights after a step reads the copy beside them and
    refreshes it; before the next step both are compared. The copy is taken anew where they differ, where the previous
    step was not recorded, and where weights have moved to other memory. Of several optimizers that step one after the
    other, each has the copy of its own weights compared before its step; what changes them before the last one has
    stepped is part of the update.
    """

    def __init__(self) -> None:
        self._copies: list[NDArray[np.uint8]] = []
        self._sizes = self._codes = self._addresses = self._copied = np.empty(0, np.int64)
        self._held = np.empty(0, np.bool_)
        self._norms = np.empty(0)
        self._step = self._prepared = -1
        self._known: Arrays | None = None
        self._on_device = DeviceUpdates()

    def prepare(self, step: Step) -> None:
        """Copy the weights unless the copy is of the end of the previous step."""
        step.known_weights = now = step.known_weights or step.view.weights()
        if now.remote:
            now = _weights(step)
        if self._prepared == step.number and self._fits(now):
            self._prepare_more(now, step.view.rows_of(step.view.stepping) if step.view.stepping is not None else ())
            return
        self._prepared = step.number
        is_next = self._step == step.number - 1
        if is_next and ((now is self._known and not now.remote) or self._fits(now)) and self._are_as_they_were(now):
            return
        self._known = None
        self._copied = now.addresses.copy()
        if step.device_results is not None:
            self._on_device.take(now.remote, step.device_results)
        if not (np.array_equal(now.sizes, self._sizes) and np.array_equal(now.codes, self._codes)):
            self._copies = [np.empty(n, np.uint8) for n in now.sizes * _ITEM_BYTES[now.codes]]
            self._addresses = np.array([copy.ctypes.data for copy in self._copies], np.int64)
            self._sizes, self._codes = now.sizes, now.codes
        for place, address, copy in zip(self._addresses.tolist(), now.addresses.tolist(), self._copies, strict=True):
            if address:
                ctypes.memmove(place, address, copy.nbytes)
        self._held = now.present
        self._norms = replace(now, remote={}).statistics()[:, 0].copy()

    def _prepare_more(self, now: Arrays, rows: Collection[int]) -> None:
        """Copy these weights on the host anew where they have changed since another optimizer stepped."""
        places = np.array([row for row in rows if now.addresses[row]], np.int64)
        if not len(places):
            return
        mine = Arrays(now.addresses[places], now.sizes[places], now.codes[places])
        if are_same(mine.addresses, mine.sizes, mine.codes, self._addresses[places]):
            return
        for row in places.tolist():
            ctypes.memmove(int(self._addresses[row]), int(now.addresses[row]), self._copies[row].nbytes)
        self._norms[places] = mine.statistics()[:, 0]

    def __call__(self, step: Step) -> dict[str, Rows]:
        """Return the rows of `update`; leave those of `weight` with the step."""
        step.known_weights = now = step.known_weights or step.view.weights()
        if now.remote:
            now = _weights(step)
        if (now is not self._known or now.remote) and not self._fits(now):
            raise RuntimeError(
                "the parameters changed their shapes or dtypes inside the step; updates cannot be computed"
            )
        more = step.more
        here = replace(now, remote={}) if now.remote else now
        changes = _changes(here, self._addresses) if more.flags else None
        make = np.empty if now.is_whole else _empty
        weights = make((now.addresses.size, len(STATISTICS) + len(more.columns)))
        moved = make((now.addresses.size, _UPDATE_COLUMNS + len(more.columns)))
        measure_updates(now.addresses, now.sizes, now.codes, self._addresses, self._norms, weights, moved)
        if changes is not None:
            changes.add(more, moved, _UPDATE_COLUMNS)
            here.add(more, weights, len(STATISTICS))
        if now.remote and step.device_results is not None:
            self._on_device.fill(now.remote, step.device_results, weights, moved, more)
        self._step = step.number
        step.weight_rows = weights
        return {"update": Rows(moved, now.present)}

    def _are_as_they_were(self, now: Arrays) -> bool:
        """Return whether the copies are of this memory, not of another layer's, and it has not changed."""
        is_here = np.array_equal(now.addresses, self._copied) and (not now.remote or self._on_device.are_of(now.remote))
        return is_here and are_same(now.addresses, now.sizes, now.codes, self._addresses)

    def _fits(self, now: Arrays) -> bool:
        pairs = ((now.sizes, self._sizes), (now.codes, self._codes), (now.present, self._held))
        fits = all(one is other or np.array_equal(one, other) for one, other in pairs)
        self._known = now if fits else None
        return fits and self._on_device.fit(now.remote)


def _empty(shape: tuple[int, int]) -> NDArray[np.float64]:
    """Return an array of NaN for rows some of which no kernel fills."""
    return np.full(shape, np.nan)


def _weights(step: Step) -> Arrays:
    """Return where the weights lie; on the host if they must be known within the step."""
    now = step.weights()
    return now if step.may_be_late(now) else now.local()


def _changes(now: Arrays, before: NDArray[np.int64]) -> Arrays:
    """Return what moved since the copies at these addresses; only statistics on request need it."""
    places: list[tuple[int, int, int]] = []
    owners: list[object] = []
    for address, size, code, held in zip(now.addresses.tolist(), now.sizes, now.codes, before.tolist(), strict=True):
        if address:
            difference = values_at(address, size, code) - values_at(held, size, code)
            array, kind = readable(difference)
            places.append((array.ctypes.data or 1, array.size, kind))
            owners.append(array)
        else:
            places.append((0, 0, 0))
    return table_of(places, owners)


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
