"""A step that waits for data, or for other work between the optimizer and the next forward."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf

from ...storage import ROOT_SITE, Event, Finding
from ...storage.percent import percent
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..event_fields import items
from ..indicators.policy_training import small_evaluations
from ..recording import Recording
from ..rule import FORWARD, rule
from ..running_statistics import Streak

#: Share of the step, and seconds. A share of half is common when a small model trains on a laptop; the rule reports a
#: device that is idle most of the time (our choice), in steps long enough to matter.
_SHARE, _LEAST_S = 0.6, 0.015
_LASTING = 2
_WORK = ("time/forward_seconds", "time/backward_seconds", "time/optimizer_seconds")


@dataclass(slots=True)
class _DataloaderBoundState:
    """The number of measurements, for how many in a row the wait was too long, and the last evaluation.

    Attributes:
        least_work: Seconds that the work of a step took in the measurement in which it took least.
    """

    seen: int = 0
    least_work: float = inf
    evaluated: int = -2
    streak: Streak = field(default_factory=Streak)
    is_reported: bool = False
    is_elsewhere: bool = False


def _times(data: float, forward: float = 0.01) -> dict[str, tuple[float | None, ...]]:
    def tenth(value: float) -> tuple[float | None, ...]:
        return ((value, *([None] * 9)) * 5)[:42]

    work = {f"scalar/{name}": tenth(forward) for name in _WORK}
    return {"scalar/time/data_seconds": tenth(data), **work}


def _busy(data: float, forward: float, *, times: float) -> dict[str, tuple[float | None, ...]]:
    calm, busy = _times(data, forward), _times(times * data, times * forward)
    return {name: (*values[:20], *busy[name][20:]) for name, values in calm.items()}


def _skip_window(lookahead: Lookahead, memory: _DataloaderBoundState) -> SkipWindow | None:
    """Skip records until a time is measured or the model is evaluated."""
    validation = [name for name in lookahead.context.burst.logged if name.startswith("validation/")]
    return SkipWindow(lookahead.until_scalar("time/data_seconds", *validation))


@rule(
    "dataloader-bound",
    needs=("record", "scalar/time/data_seconds", "scalar/time/forward_seconds"),
    phase=FORWARD,
    skip_window=_skip_window,
    memory=_DataloaderBoundState,
    warm_up=_LASTING + 1,
    is_optional=True,
    fires_on=(Recording(_times(0.1)),),
    silent_on=(
        # made ready for an evaluation, which comes before every step that is measured
        Recording(_times(0.1) | {"scalar/validation/loss": (*[None] * 9, *([1.0, *[None] * 9] * 5))[:42]}),
        Recording(_times(0.01)),
        # the loop calls parts of the model: when they begin is not known
        Recording(_times(0.1) | {"scalar/time/forward_seconds": _times(0.1, 0.0)["scalar/time/forward_seconds"]}),
        # four other processes begin to work on the same cores
        Recording(_busy(0.006, 0.0006, times=4.0)),
        # another model is trained meanwhile
        Recording(_times(0.1), events=(Event("later_training", 0, "net", data={"networks": "net (Net)"}),)),
        # waits in collectives for a rank that works longer
        Recording(_times(0.1) | {"scalar/time/communication_seconds": _times(0.09)["scalar/time/data_seconds"]}),
        # steps of a millisecond
        Recording(_times(0.001, 0.0001)),
    ),
)
def check(context: StepContext, memory: _DataloaderBoundState) -> Iterator[Finding]:
    """Report steps that mostly wait between the optimizer and the next forward.

    The rule fires when, in two measurements in a row (means of ten steps), 60 % of a step and at least 15 ms passed
    between the end of the optimizer's step and the next forward. This time contains the loader and everything else that
    the loop does there, such as logs and checkpoints; the monitor cannot separate them, and the finding says so.

    Time in recorded collectives does not count: a rank waits for others there.

    A model that acts between its steps waits for its environment, and is left out, as is one beside which another is
    trained that is not recorded.

    The first measurement is left out: workers start and caches fill. Other processes on the same cores make every phase
    longer, so the 15 ms grow with the work of a step, relative to its fastest measurement. Evaluation is timed
    separately, but its preparation is not, so the step after an evaluation is not judged.

    Time the loader alone first; then load in the background, or do the other work more rarely.
    """
    data = context.scalar("time/data_seconds")
    if _evaluates(context):
        memory.evaluated = context.step
    forward = context.scalar("time/forward_seconds")
    memory.is_elsewhere |= bool(context.events("later_training"))
    if data is None or not forward or memory.is_reported or memory.is_elsewhere or context.step - memory.evaluated <= 1:
        return  # without a forward of the whole model nothing tells where its data was there
    memory.seen += 1
    work = sum(context.scalar(name) or 0.0 for name in _WORK)
    data = max(data - (context.scalar("time/communication_seconds") or 0.0), 0.0)
    step, memory.least_work = data + work, min(memory.least_work, work)
    is_bound = memory.seen > 1 and data > max(_SHARE * step, _LEAST_S * work / memory.least_work)
    if memory.streak.update(is_bound, context.step) < _LASTING or small_evaluations(context):
        return
    memory.is_reported = True
    yield context.finding(
        ROOT_SITE,
        "scalar/time/data_seconds",
        {"data_s": data, "step_s": step, "share": data / step, "limit": _SHARE},
        severity="warning",
        first_step=memory.streak.since,
        position=0,
        explanation=f"{data * 1e3:.3g} of the {step * 1e3:.3g} ms of a step ({percent(data / step)}) pass between the "
        "optimizer's step and the next forward: in the loader, or in whatever else the loop does there (logs, "
        "checkpoints, metrics); the monitor cannot tell the two apart",
        advice="time the loader's next() alone to see which it is; for the loader, load in the background "
        "(num_workers, prefetch_factor, pinned memory), decode and resize once and store the result, or move the "
        "augmentation to the device; for the loop, do that work more rarely, or in a thread",
        confidence=0.8,
    )


def _evaluates(context: StepContext) -> bool:
    """Return whether the model was evaluated in this record's step, or right after it."""
    modes = [mode for event in context.events("forward_modes") for mode in items(event, "forwards")]
    has_evaluated = any(mode.get("training") is False for mode in modes)
    return has_evaluated or any(name.startswith("validation/") for name in context.record.scalars)
