"""A single batch that is unlike the others."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite, isnan, sqrt

import numpy as np

from ...storage import ROOT_SITE, Event, Finding, Severity
from ..context.step_context import StepContext
from ..indicators.loss_anchor import LossAnchor
from ..indicators.non_finite_sources import MissingValues
from ..indicators.update_stability import LastStep, has_begun_anew
from ..recording import Recording, chain
from ..rule import FORWARD, rule
from ..running_statistics import RobustBaseline, Window

_MODEL = chain("one:Dense", "two:Dense")
_CALM = tuple(2.0 - 0.03 * step + 0.02 * (-1) ** step for step in range(40))
#: Deviations of input and loss from their history, and times the largest deviation before, so that data with many
#: strange batches is not reported.
_STRANGE, _UNHEARD = 8.0, 2.0
#: Deviations of the loss if the input is as usual.
_ALONE = 20.0
_WARM_UP, _PATIENCE = 16, 3
#: Batches that are reported; data with more strange ones is like that.
_MOST = 3
#: Share of the usual number of samples below which a batch, such as the last one of an epoch, is not judged.
_SMALL = 0.5
_CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})


@dataclass(slots=True)
class _Suspect:
    """A batch that may be bad, until later batches are known."""

    step: int
    loss: float
    usual: float
    loss_deviates: float
    input_deviates: float
    what: str
    batch: float | None
    waited: int = 0

    @property
    def is_strange(self) -> bool:
        """True if the input is strange, and not the loss alone."""
        return self.input_deviates > _STRANGE


@dataclass(slots=True)
class _BadBatchState:
    """The histories of loss and input, their largest deviations, and the suspected batch."""

    loss: RobustBaseline = field(default_factory=lambda: RobustBaseline(warm_up=_WARM_UP))
    inputs: dict[str, RobustBaseline] = field(default_factory=dict)
    farthest_loss: float = 0.0
    farthest_input: float = 0.0
    highest: float = -np.inf
    first: float = float("nan")
    last_step: LastStep = field(default_factory=LastStep)
    missing: MissingValues = field(default_factory=MissingValues)
    anchor: LossAnchor = field(default_factory=LossAnchor)
    samples: Window = field(default_factory=lambda: Window(32))
    suspect: _Suspect | None = None
    reported: int = 0


@rule(
    "bad-batch",
    needs=("scalar/loss", "batch"),
    phase=FORWARD,
    memory=_BadBatchState,
    warm_up=_WARM_UP,
    is_optional=True,
    fires_on=(
        Recording(
            {"scalar/loss": (*_CALM, 4.0, 0.8, 0.8), " batch/l2_norm": (*(8.0, 8.2) * 20, 90.0, 8.0, 8.1)}, _MODEL
        ),
        # its labels
        Recording(
            {"scalar/loss": (*_CALM, 7.0, 0.8, 0.8), " batch/l2_norm": (*(8.0, 8.2) * 20, 8.0, 8.1, 8.1)},
            _MODEL,
            (_CALLED,),
        ),
        # a missing value in the data
        Recording({"scalar/loss": (2.0, 1.9, np.nan), " batch/nans": (0.0, 0.0, 1.0)}, _MODEL),
    ),
    silent_on=(
        # the last batch of an epoch, of two samples
        Recording(
            {
                "scalar/loss": (*_CALM, 7.0, 0.8, 0.8),
                "scalar/batch/samples": (*(8.0,) * 40, 2.0, 8.0, 8.0),
                " batch/l2_norm": (*(8.0, 8.2) * 20, 2.0, 8.1, 8.1),
            },
            _MODEL,
            (_CALLED,),
        ),
        Recording({"scalar/loss": (*_CALM, 0.8, 0.8), " batch/l2_norm": (*(8.0, 8.2) * 20, 90.0, 8.0)}, _MODEL),
        Recording({"scalar/loss": (*_CALM, 1.2, 0.8), " batch/l2_norm": (*(8.0, 8.2) * 20, 8.0, 8.0)}, _MODEL),
        # the loss stays, and nothing is strange about the input: no single batch
        Recording({"scalar/loss": (*_CALM, *(7.0,) * 9), " batch/l2_norm": (*(8.0, 8.2) * 20, *(8.0,) * 9)}, _MODEL),
        # the first batch of a second phase: other data, another loss
        Recording({"scalar/loss": (*_CALM, *(7.0,) * 9), " batch/l2_norm": (*(8.0, 8.2) * 20, *(90.0,) * 9)}, _MODEL),
        # a model that acts, on one sample at a time, and learns from what came of it
        Recording(
            {
                "scalar/loss": (*_CALM, 7.0, 0.8, 0.8, 0.8, 0.8),
                " batch/l2_norm": (*(8.0, 8.2) * 20, *(8.0,) * 5),
                " batch/size": 640.0,
                " batch/eval/size": (None, 10.0) * 22,
            },
            _MODEL,
        ),
        # missing values that the model knows about; later its loss is lost for another reason
        Recording({"scalar/loss": (2.0, 1.9, np.nan), " batch/nans": (3.0, 0.0, 1.0)}, _MODEL),
    ),
)
def check(context: StepContext, memory: _BadBatchState) -> Iterator[Finding]:
    """Report a single batch that throws the loss.

    The rule fires when input and loss are both 8 deviations from their history in the same step, and come back within
    three. It looks at the scale and the mean of the input; of tokens, at their divergence from earlier batches and the
    share of the most frequent one. If the input is as usual, the labels may be wrong: then the loss alone must be 20
    deviations out and above everything before. The finding waits until input or loss are as usual: where they stay
    for three records, another phase has begun; of a loss it must be within three steps, since it is soon learned. A
    loss alone that is no known function of predictions and targets is a notice: the losses of policies and opponents
    have heavy tails. Batches with less than half of the usual samples are not judged.

    Input with NaN or infinity needs no history if the loss stops being finite in the same step. If the loss was finite
    over such input before, the model is made for missing values, and nothing is reported. Batches that a model collects
    by its own acts are left out: they change with the model.

    Look at the batch: unscaled values, a broken file, shifted labels.
    """
    loss = context.scalar("loss")
    if loss is None:
        return
    yield from memory.missing.look(context, isfinite(loss))
    memory.anchor.learn(context)
    if context.has_a_surrogate_loss or memory.anchor.self_made.is_self_made or _is_small(context, memory):
        return
    deviates, what = _inputs(context, memory)
    usual, known = memory.loss.value, len(memory.loss.history) >= _WARM_UP
    loss_deviates = memory.loss.update(loss) if isfinite(loss) else (np.inf if known else np.nan)
    memory.first = loss if isnan(memory.first) else memory.first
    rises = not loss - usual < 0.5 * max(memory.first - usual, 0.1 * abs(memory.first))
    was_ordinary = memory.last_step.is_ordinary and not has_begun_anew(context)
    memory.last_step.learn(context)
    yield from _judge(context, memory, loss, deviates)
    candidate = known and rises and was_ordinary and memory.suspect is None
    if candidate and _is_suspect(memory, loss, deviates, loss_deviates):
        batch = context.scalar("batch/id")
        memory.suspect = _Suspect(
            step=context.step,
            loss=loss,
            usual=usual,
            loss_deviates=loss_deviates,
            input_deviates=deviates,
            what=what,
            batch=batch,
        )
        return
    if isfinite(loss_deviates):
        memory.farthest_loss = max(memory.farthest_loss, loss_deviates)
    memory.farthest_input = max(memory.farthest_input, deviates)
    memory.highest = max(memory.highest, loss) if isfinite(loss) else memory.highest


def _is_small(context: StepContext, memory: _BadBatchState) -> bool:
    samples = context.scalar("batch/samples")
    if samples is None:
        return False
    usual = memory.samples.median()
    memory.samples.add(samples)
    return samples < _SMALL * usual


def _inputs(context: StepContext, memory: _BadBatchState) -> tuple[float, str]:
    """Return the largest deviation of the input from its history, and the name of that figure."""
    found = [(0.0, "")]
    for name, value, is_log in _figures(context):
        if name not in memory.inputs:
            memory.inputs[name] = RobustBaseline(is_log=is_log, warm_up=_WARM_UP)
        deviates = abs(memory.inputs[name].update(value))
        if isfinite(deviates):
            found.append((deviates, name))
    return max(found)


def _figures(context: StepContext) -> Iterator[tuple[str, float, bool]]:
    tokens, table = context.table("batch/tokens"), context.table("batch")
    if tokens is not None and ROOT_SITE in tokens.rows.sites:
        row = tokens.rows.sites.index(ROOT_SITE)
        yield "divergence", tokens.value(row, "divergence"), True
        yield "top_share", tokens.value(row, "top_share"), True
    elif table is not None and ROOT_SITE in table.rows.sites:
        row = table.rows.sites.index(ROOT_SITE)
        size = max(table.value(row, "size"), 1.0)
        scale = table.value(row, "l2_norm") / sqrt(size)
        yield "scale", scale, True
        yield "mean", table.value(row, "mean") / max(scale, 1e-30), False


def _is_suspect(memory: _BadBatchState, loss: float, deviates: float, loss_deviates: float) -> bool:
    strange_loss = loss_deviates > max(_STRANGE, _UNHEARD * memory.farthest_loss)
    strange_input = deviates > max(_STRANGE, _UNHEARD * memory.farthest_input)
    alone = loss_deviates > max(_ALONE, _UNHEARD * memory.farthest_loss) and loss > memory.highest
    return (strange_loss and strange_input) or alone


def _judge(context: StepContext, memory: _BadBatchState, loss: float, deviates: float) -> Iterator[Finding]:
    suspect = memory.suspect
    if suspect is None:
        return
    suspect.waited += 1
    is_soon = context.step <= suspect.step + _PATIENCE  # later, the model may have learned another phase's data
    is_back = is_soon and np.isfinite(loss) and loss - suspect.usual < 0.1 * (suspect.loss - suspect.usual)
    input_is_back = suspect.is_strange and deviates < _STRANGE
    if is_back or input_is_back:
        memory.suspect = None
        if memory.reported < _MOST:
            memory.reported += 1
            matters = suspect.is_strange or memory.anchor.is_one_known_loss(context)
            yield _report(
                context,
                suspect,
                severity="warning" if matters else "info",
                confidence=0.9 if suspect.is_strange else 0.6,
            )
    elif suspect.waited >= _PATIENCE or not is_soon:  # the first batch of another phase, and no single one
        memory.suspect = None
    memory.farthest_loss = max(memory.farthest_loss, suspect.loss_deviates)


def _report(context: StepContext, suspect: _Suspect, *, severity: Severity, confidence: float) -> Finding:
    strange = suspect.is_strange
    which = "" if suspect.batch is None else f" (batch {suspect.batch:.0f})"
    known = {} if suspect.batch is None else {"batch_id": suspect.batch}
    return context.finding(
        ROOT_SITE,
        "batch/l2_norm" if strange else "scalar/loss",
        {
            "loss": suspect.loss,
            "usual_loss": suspect.usual,
            "loss_deviations": suspect.loss_deviates,
            "input_deviations": suspect.input_deviates,
            **known,
        },
        severity=severity,
        first_step=suspect.step,
        position=0,
        explanation=f"the batch of step {suspect.step}{which} is an outlier: its loss is {suspect.loss:.4g}, and "
        f"{suspect.usual:.4g} is usual; "
        + (
            f"the {suspect.what} of its input is {suspect.input_deviates:.0f} deviations from its history"
            if strange
            else "its input is as usual, so its labels may be wrong"
        ),
        advice="look at this batch for unscaled values, a broken file, repeated or empty text, or shifted labels; "
        "clip gradients so that one batch can do little harm",
        confidence=confidence,
    )
