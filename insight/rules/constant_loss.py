"""A loss that is the same for different batches, from the start or but for a thousandth."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite, isnan
from statistics import median

from ...storage import ROOT_SITE, Event, Finding
from ..context.step_context import StepContext
from ..indicators.lowered_findings import withdrawn
from ..recording import Recording, chain
from ..rule import LOSS, rule

_MODEL = chain("one:Dense", "two:Dense")
#: Records in a row with one value of the loss, of how many different batches, and the record by which it must begin.
_LASTING, _BATCHES, _FIRST = 20, 10, 3
#: Relative difference up to which two values are the same: single precision.
_SAME = 1e-7
#: Relative difference by which a loss has left such a value, if it lasts as long. Our choice.
_LEAVES = 0.05
#: Records in a row, range and distance from the first loss as shares of the level, different batches among the records,
#: and sum of updates over weights, from which on a loss that nearly stands tells nothing of its batches; and records
#: between two looks. Our choice: the noise between batches of healthy trainings is ten times as large.
_STANDING, _RANGE, _LEFT, _OTHERS, _PATH, _JUDGED = 60, 1e-3, 0.01, 30, 0.3, 10


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
    found: Finding | None = None
    moved: int = 0
    is_standing: bool = False
    first: float = float("nan")
    lowest: float = float("inf")
    path: float = 0.0
    began: int = 0
    all_records: int = 0
    newest: deque[float] = field(default_factory=lambda: deque(maxlen=_STANDING))
    checksums: deque[float | None] = field(default_factory=lambda: deque(maxlen=_STANDING))


def _run(losses: float | tuple[float, ...], batches: float | tuple[float, ...], *events: Event) -> Recording:
    return Recording({"scalar/loss": losses, "scalar/batch/checksum": batches}, _MODEL, events=events, steps=30)


def _standing(losses: tuple[float, ...], update: float) -> Recording:
    scalars = {"scalar/loss": losses, "scalar/batch/checksum": tuple(float(step) for step in range(len(losses)))}
    return Recording({**scalars, "one.weight update/ratio_to_weight": update}, _MODEL)


_CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "constant"})
_DIFFERENT = tuple(float(step) for step in range(30))


@rule(
    "constant-loss",
    needs=("scalar/loss",),
    phase=LOSS,
    memory=_ConstantLossState,
    warm_up=_LASTING,
    fires_on=(
        _run(0.0, _DIFFERENT, _CALLED),
        _run(0.6931472, _DIFFERENT),
        # embeddings that have collapsed: what is left is the margin
        _standing(tuple(1.0 + 2e-4 * (-1) ** step for step in range(90)), update=0.02),
    ),
    silent_on=(
        # a loss that falls by little, one whose batches differ, and one of weights that hardly move
        _standing(tuple(1.0 - 5e-4 * step for step in range(90)), update=0.02),
        _standing(tuple(1.0 + 5e-3 * (-1) ** step for step in range(90)), update=0.02),
        _standing(tuple(1.0 + 2e-4 * (-1) ** step for step in range(90)), update=1e-4),
        # a network that had learned something, exploded, and died
        _standing((1.0, 0.7, 0.3, 9.0, *(1.0 + 2e-4 * (-1) ** step for step in range(90))), update=0.02),
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
    for losses that are known: a margin may be kept from the start. If the loss leaves this value for 20 records, by 5 %
    or more, the finding becomes a notice: spikes that begin late, a threshold that is passed.

    A loss that keeps within a thousandth of its value for 60 records, half of them of different batches, and is where
    it was at first, although the weights have moved by a third of their norm, tells as little of its batches:
    embeddings that have collapsed leave the margin of their loss. Losses without a floor are left out, and those that
    were lower in between.
    """
    loss = context.scalar("loss")
    memory.is_known |= bool(context.events("loss_input"))
    if loss is None or not isfinite(loss):
        return
    yield from _stays(context, memory, loss)
    yield from _stands(context, memory, loss)


def _stays(context: StepContext, memory: _ConstantLossState, loss: float) -> Iterator[Finding]:
    """Yield a finding for a loss that is the same from the start."""
    yield from _has_moved(context, memory, loss)
    if memory.is_over:
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
    memory.is_over = memory.is_standing = True
    memory.found = context.finding(
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
    yield memory.found


def _has_moved(context: StepContext, memory: _ConstantLossState, loss: float) -> Iterator[Finding]:
    """Yield the finding once more, as a notice, once the loss has left its value for good."""
    if memory.found is None:
        return
    memory.moved = memory.moved + 1 if abs(loss - memory.value) > _LEAVES * abs(memory.value) else 0
    if memory.moved == _LASTING:
        words = f"the loss stood at {memory.value:.6g} at first, and is {loss:.4g} by step {context.step}"
        yield withdrawn(memory.found, context, words)
        memory.found = None


def _stands(context: StepContext, memory: _ConstantLossState, loss: float) -> Iterator[Finding]:
    """Yield a finding for a loss that nearly stands where it was at first, whatever the batch."""
    if memory.is_standing:
        return
    if isnan(memory.first):
        memory.first, memory.began = loss, context.step
    memory.newest.append(loss)
    memory.lowest = min(memory.lowest, loss)
    memory.checksums.append(context.scalar("batch/checksum"))
    memory.path += update if isfinite(update := context.typical_update) else 0.0
    memory.all_records += 1
    if memory.all_records % _JUDGED or len(memory.newest) < _STANDING or memory.path < _PATH:
        return
    level, batches = median(memory.newest), len({each for each in memory.checksums if each is not None})
    is_flat = max(memory.newest) - min(memory.newest) < _RANGE * abs(level)
    has_learned = level - memory.lowest > _LEAVES * abs(level)  # and has died since
    if (
        not is_flat
        or has_learned
        or abs(level - memory.first) > _LEFT * abs(level)
        or batches < _OTHERS
        or context.has_a_surrogate_loss
    ):
        return
    memory.is_standing = True
    yield context.finding(
        ROOT_SITE,
        "scalar/loss",
        {"loss": level, "first_loss": memory.first, "records": _STANDING, "batches": batches, "path": memory.path},
        severity="warning",
        first_step=memory.began,
        position=0,
        explanation=f"for {_STANDING} records, of {batches} different batches, the loss has been {level:.4g} within a "
        f"thousandth, as it was at first, although the updates sum to {memory.path:.2g} times the norm of the typical "
        "weight matrix; it tells nothing of its batches",
        advice="see whether the outputs of different samples differ: embeddings that have collapsed leave the margin "
        "of their loss; look for distances, negatives or a sign exchanged in it",
        confidence=0.8,
    )
