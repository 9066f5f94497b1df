"""A loss that is the same for different batches from the start."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite

from ...storage import ROOT_SITE, Event, Finding
from ..context.step_context import StepContext
from ..recording import Recording, chain
from ..rule import LOSS, rule

_MODEL = chain("one:Dense", "two:Dense")
#: Records in a row with one value of the loss, of how many different batches, and the record by which it must begin.
_LASTING, _BATCHES, _FIRST = 20, 10, 3
#: Relative difference up to which two values are the same: single precision.
_SAME = 1e-7


@dataclass(slots=True)
class _ConstantLossState:
    """The value that the loss has had from the start, and the batches that gave it."""

    value: float = float("nan")
    records: int = 0
    seen: int = 0
    since: int = 0
    batches: set[float] = field(default_factory=set)
    is_known: bool = False
    is_over: bool = False


def _run(losses: float | tuple[float, ...], batches: float | tuple[float, ...], *events: Event) -> Recording:
    return Recording({"scalar/loss": losses, "scalar/batch/checksum": batches}, _MODEL, events=events, steps=30)


_CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "constant"})
_DIFFERENT = tuple(float(step) for step in range(30))


@rule(
    "constant-loss",
    needs=("scalar/loss",),
    phase=LOSS,
    memory=_ConstantLossState,
    warm_up=_LASTING,
    fires_on=(_run(0.0, _DIFFERENT, _CALLED), _run(0.6931472, _DIFFERENT)),
    silent_on=(
        # a margin that was kept from the start
        _run(0.0, _DIFFERENT),
        # the same batch again and again, a loss that moves, and one that has come to rest
        _run(0.5, 7.0),
        _run(tuple(0.5 + 1e-4 * (step % 2) for step in range(30)), _DIFFERENT),
        _run((*(1.0 - 0.2 * step for step in range(5)), *(0.0,) * 25), _DIFFERENT),
    ),
)
def check(context: StepContext, memory: _ConstantLossState) -> Iterator[Finding]:
    """Report a loss that has the same value for 20 records from the start, for at least 10 different batches.

    Such a loss depends neither on the input nor on the weights: a softmax over an axis of length one, targets that are
    all ignored, a mask that removes everything, a clamp, or a prediction that is compared with itself. Zero counts only
    for losses that are known: a margin may be kept from the start.
    """
    loss = context.scalar("loss")
    memory.is_known |= bool(context.events("loss_input"))
    if loss is None or memory.is_over or not isfinite(loss):
        return
    memory.seen += 1
    if not abs(loss - memory.value) <= _SAME * max(abs(memory.value), 1e-30):
        memory.value, memory.records, memory.since = loss, 0, context.step
        memory.batches.clear()
        memory.is_over = memory.seen > _FIRST
    memory.records += 1
    checksum = context.scalar("batch/checksum")
    if checksum is not None:
        memory.batches.add(checksum)
    if memory.records < _LASTING or len(memory.batches) < _BATCHES:
        return
    if memory.value == 0.0 and not memory.is_known:
        return
    memory.is_over = True
    yield context.finding(
        ROOT_SITE,
        "scalar/loss",
        {"loss": loss, "records": memory.records, "batches": len(memory.batches)},
        first_step=memory.since,
        position=0,
        explanation=f"the loss was {loss:.6g} in each of {memory.records} records, for {len(memory.batches)} different "
        "batches; it depends neither on the input nor on the weights",
        advice="look for a softmax over an axis of length one, targets that the loss ignores, a mask or clamp that "
        "removes everything, and a prediction compared with itself",
        confidence=0.95,
    )
