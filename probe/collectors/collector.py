"""The table of collectors: each is one quantity, the moment it waits for, and the columns it fills.

The moment decides how it is called:

    forward, backward          `measure(address, size, code, out_address)` fills one row, straight in a hook
    before_step, after_step    `collect(step)` returns the rows of all parameters, or scalars, in one call; at the steps
                               at which it is due, `collect.prepare(step)` comes before the update, if there is one
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...storage.errors import nearest
from ...storage.records import Histogram
from ..device_results import DeviceResults, HostFuture
from ..kernels import NO_MORE, STATISTICS, USUAL_BINS, Arrays, Bins, More
from ..late_scalars import LateScalar
from ..quantities.noise_scale import MicroBatches
from ..quantities.step_clock import StepTime

Stage = Literal["forward", "backward", "before_step", "after_step"]


class View(Protocol):
    """What a framework shows of its parameters and its optimizers at a step; one parameter a row, in model order.

    Attributes:
        stepping: The optimizer that is about to step; None where the training moves the weights itself.
    """

    stepping: Any

    @property
    def names(self) -> tuple[str, ...]:
        """The sites of the parameters that are recorded; may grow at the end."""

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Their shapes."""

    def weights(self) -> Arrays:
        """Return where the weights lie now."""

    def gradients(self) -> Arrays:
        """Return where the gradients lie now, as the optimizer is about to apply them; absent where there is none."""

    def arrays(self, subject: str) -> Iterator[tuple[str, NDArray[Any]]]:
        """Site and values, in their own shape, of every `weight` or `gradient` that is there."""

    def rows_of(self, optimizer: Any) -> frozenset[int]:
        """Return the parameters that the optimizer steps."""

    def slots(self) -> Mapping[str, Arrays]:
        """Return where each slot of the optimizers lies; the same object only if all are on the host and unmoved."""

    def learning_rates(self) -> tuple[float, ...]:
        """Return the rate of every group of every optimizer."""


@dataclass(frozen=True, slots=True)
class WrittenWeight:
    """A weight that changed between two steps.

    Args:
        site: Of the parameter.
        size: Its number of elements.
        largest: Largest change of an element, without its sign.
        change: L2 norm of the change.
        norm: L2 norm of the weight before it.
    """

    site: str
    size: int
    largest: float
    change: float
    norm: float


@dataclass(slots=True)
class Step:
    """What a collector sees of the step in progress, and may leave for the next one.

    Args:
        view: The framework's parameters.
        number: Of the step.
        loss: The loss as found, None when it was not; late where a device has it.
        loss_scale: Of mixed precision, None without; late as the loss.
        elapsed_s: Since the end of the previous step.
        gradient_norm: Over all parameters, when `gradient` has just read them; late where a device has them.
        weight_rows: Statistics of the weights when `update` has just read them, so that they are read once.
        known_weights: What `weights` returns again; None after they have moved.
        bins: Of histograms.
        histogram_subjects: Those of which histograms are wanted.
        more: Statistics on request.
        micro_batches: What the backward passes have added, when the gradient noise scale is due.
        clip: Norm before the gradients were clipped by norm, late where a device has it, and the limit; None without.
        time: What the steps' wall time is spent on.
        device_results: Where numbers of tensors on a device are asked for; None where they must be known at once.
        written: The weights that something other than a step has changed since the last step, as `update` sees it.
        held_bytes: Returns the bytes of host memory that monitors hold in this process, as far as they are counted.
    """

    view: View
    number: int
    loss: float | LateScalar | None = None
    loss_scale: float | LateScalar | None = None
    elapsed_s: float = 0.0
    gradient_norm: float | LateScalar | None = None
    weight_rows: NDArray[np.float64] | None = None
    bins: Bins = USUAL_BINS
    histogram_subjects: tuple[str, ...] = ()
    more: More = NO_MORE
    micro_batches: MicroBatches = field(default_factory=MicroBatches)
    clip: tuple[float | LateScalar, float] | None = None
    time: StepTime = field(default_factory=StepTime)
    device_results: DeviceResults | None = None
    known_weights: Arrays | None = None
    written: Sequence[WrittenWeight] = ()
    held_bytes: Callable[[], int] = int

    def weights(self) -> Arrays:
        """Return where the weights lie, asked of the framework once before and once after they move."""
        if self.known_weights is None:
            self.known_weights = self.view.weights()
        return self.known_weights

    def statistics(self, arrays: Arrays, known: NDArray[np.float64] | None = None) -> NDArray[np.float64]:
        """`(n, 10 and those on request)`, one row an array; the ten are taken as known where they are given."""
        if known is None:
            is_late = arrays.remote and self.may_be_late(arrays)
            return self._late_statistics(arrays) if is_late else arrays.statistics_and_norm(self.more)[0]
        is_whole = known.shape[1] == len(STATISTICS) + len(self.more.columns)
        return known if is_whole else self.add_more(arrays, known)

    def statistics_and_norm(self, arrays: Arrays) -> tuple[NDArray[np.float64], float | None]:
        """Return the statistics of arrays, and the norm over all of them; None if they come late."""
        if arrays.remote and self.may_be_late(arrays):
            return self.statistics(arrays), None
        return arrays.statistics_and_norm(self.more)

    def may_be_late(self, arrays: Arrays) -> bool:
        """Return whether rows of these arrays are filled after the step."""
        return bool(arrays.remote) and self.device_results is not None and self.device_results.accepts_requests

    def _late_statistics(self, arrays: Arrays) -> NDArray[np.float64]:
        rows = replace(arrays, remote={}).statistics(self.more)
        if self.device_results is not None:
            self.device_results.request_rows([*arrays.remote], arrays.remote.values(), rows, self.more)
        return rows

    def add_more(self, arrays: Arrays, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the rows with the statistics on request of their arrays in further columns."""
        wider = np.full((len(rows), rows.shape[1] + len(self.more.columns)), np.nan)
        wider[:, : rows.shape[1]] = rows
        return arrays.add(self.more, wider, rows.shape[1])


@dataclass(frozen=True, slots=True)
class SiteRows:
    """Numbers of some sites.

    Args:
        columns: Their statistics.
        values: As many numbers for each site, or the future of them.
    """

    columns: tuple[str, ...]
    values: Mapping[str, "tuple[float, ...] | HostFuture"]


@dataclass(frozen=True, slots=True)
class Rows:
    """One row a parameter, and which of them hold something."""

    values: NDArray[np.float64]
    present: NDArray[np.bool_]


#: What `collect` may return: rows, sites or scalars by their names, or histograms.
Collected = (
    Mapping[str, Rows]
    | Mapping[str, Rows | SiteRows | float]
    | Mapping[str, float]
    | Mapping[str, float | LateScalar]
    | tuple[Histogram, ...]
)
Measure = Callable[[int, int, int, int], None]


class Collect(Protocol):
    """A quantity of all parameters at once; one instance a monitor, so it may remember."""

    def __call__(self, step: Step) -> Collected:
        """Return the rows by subject, or the scalars by name."""


@dataclass(frozen=True, slots=True)
class Collector:
    """One entry of the table.

    Args:
        name: The subject, or the scalar's name.
        at: The moment it waits for.
        columns: Statistics of a row; empty for scalars and histograms.
        measure: For forward and backward: the kernel of one array.
        build: For the steps: makes the monitor's own instance.
        is_optional: Off unless the configuration names it.
        rarity: How many times less often than `every` says it is due, unless the configuration names it.
        pace: It tells something at one of so many steps at which it is due.
    """

    name: str
    at: Stage
    columns: tuple[str, ...]
    doc: str
    measure: Measure | None = None
    build: Callable[[], Collect] | None = None
    is_optional: bool = False
    rarity: int = 1
    pace: int = 1


COLLECTORS: Final[dict[str, Collector]] = {}

_Built = TypeVar("_Built", bound=Callable[[], Collect])


def collector(
    name: str, *, at: Stage, columns: tuple[str, ...] = (), is_optional: bool = False, pace: int = 1
) -> Callable[[_Built], _Built]:
    """Register a class whose instances are `Collect` in the table, under this name.

    Raises:
        ValueError: The name is taken.
    """

    def put(build: _Built) -> _Built:
        _add(Collector(name, at, columns, build.__doc__ or "", build=build, is_optional=is_optional, pace=pace))
        return build

    return put


def array_collector(
    name: str,
    measure: Measure | None,
    *,
    at: Stage,
    columns: tuple[str, ...],
    doc: str,
    is_optional: bool = False,
    rarity: int = 1,
) -> Collector:
    """Register a quantity that one kernel, or a hook of its own, computes from one array; return its entry."""
    return _add(Collector(name, at, columns, doc, measure=measure, is_optional=is_optional, rarity=rarity))


def _add(entry: Collector) -> Collector:
    if entry.name in COLLECTORS:
        raise ValueError(f"collector {entry.name!r} is there already; choose another name{nearest(entry.name, ())}")
    COLLECTORS[entry.name] = entry
    return entry
