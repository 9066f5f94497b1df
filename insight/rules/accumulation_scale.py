"""Micro-batch losses that are not divided by their number, or are divided twice."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite, log

from ...storage import ROOT_SITE, Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number
from ..recording import Recording, chain
from ..rule import LOSS, rule

_MODEL = chain("one:Dense", "two:Dense")
#: Tolerance in logarithms of the number of micro-batches around 1, m and 1/m; auxiliary losses may shift the factor.
_TOLERANCE = 0.25
#: Backward passes from which they are taken for micro-batches; two are as likely two losses.
_FEWEST = 3


def _accumulated(micro_batches: int, factor: float, reduction: str = "mean") -> Event:
    data: dict[str, Json] = {"micro_batches": micro_batches, "factor": factor, "reduction": reduction, "declared": 1}
    return Event("accumulation", 0, data=data)


@dataclass(slots=True)
class _AccumulationScaleState:
    """The kinds of wrong scale that were reported."""

    reported: set[str] = field(default_factory=set)


@rule(
    "accumulation-scale",
    needs=("event/accumulation",),
    phase=LOSS,
    memory=_AccumulationScaleState,
    is_fact=True,
    is_optional=True,
    fires_on=(
        Recording(structure=_MODEL, events=(_accumulated(4, 1.0),)),
        Recording(structure=_MODEL, events=(_accumulated(4, 1 / 16),)),
    ),
    silent_on=(
        # a critic's loss of real samples, and that of made ones, with a backward pass each
        Recording(structure=_MODEL, events=(_accumulated(2, 1.0),)),
        Recording(structure=_MODEL, events=(_accumulated(4, 0.25),)),
        Recording(structure=_MODEL, events=(_accumulated(1, 1.0),)),
        # an auxiliary loss is added before the division
        Recording(structure=_MODEL, events=(_accumulated(4, 0.27),)),
        # sums over samples add up to the sum over all
        Recording(structure=_MODEL, events=(_accumulated(4, 1.0, "sum"),)),
    ),
)
def check(context: StepContext, memory: _AccumulationScaleState) -> Iterator[Finding]:
    """Report micro-batch losses that are undivided, or divided twice by their number.

    The gradient of a batch's mean is the sum over its m micro-batches of the mean of each, divided by m. The probe
    knows the value of the loss function and the value from which backward started, so it reads the factor between them
    and estimates nothing. The rule fires when the factor is 1 or 1/m^2 instead of 1/m, of three passes or more: two are
    as likely two losses that are added. Divide the loss of each
    micro-batch by their number exactly once.
    """
    for event in context.events("accumulation"):
        count, factor = number(event, "micro_batches"), number(event, "factor")
        if not (isfinite(count) and count > 1 and isfinite(factor) and factor > 0):
            continue
        if event.data.get("reduction") == "sum":
            continue
        if len(context.model.structure.optimizers) > 1:
            continue  # networks beside each other, as of an ensemble, with a backward pass each
        if count < _FEWEST:
            continue  # two losses with a backward pass each, such as a critic's of real and of made samples
        power = log(factor * count) / log(count)  # 0 where it is right, 1 undivided, -1 divided twice
        kind = "undivided" if abs(power - 1) < _TOLERANCE else "divided twice" if abs(power + 1) < _TOLERANCE else ""
        if kind and kind not in memory.reported:
            memory.reported.add(kind)
            yield _report(context, event, count, factor, kind)


def _report(context: StepContext, event: Event, count: float, factor: float, kind: str) -> Finding:
    return context.finding(
        ROOT_SITE,
        "scalar/loss",
        {"micro_batches": count, "factor": factor, "expected_factor": 1 / count, "gradient_scale": factor * count},
        first_step=event.step,
        position=0,
        explanation=f"a step has {count:.0f} backward passes, and each starts from {factor:.4g} times the mean loss "
        f"of its micro-batch ({kind}); the gradient is {factor * count:.3g} times that of the whole batch",
        advice=f"divide the loss of each micro-batch by {count:.0f} exactly once before backward(); check whether "
        "the trainer divides it already",
    )
