"""Labels that carry no information about the inputs."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import inf, isfinite, isnan, log

import numpy as np

from ...storage import ROOT_SITE, Event, Finding
from ..context.step_context import StepContext
from ..context.subject_table import Table
from ..indicators.policy_training import SelfMadeData
from ..indicators.update_stability import LastStep, Path
from ..recording import Recording, chain
from ..rule import LOSS, rule
from ..running_statistics import Floats, RobustBaseline, Streak, Window, trend

_MODEL = chain("one:Dense", "two:Dense")
_CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
#: Share of the entropy of the labels within which a model has learned nothing.
_NEAR = 0.03
#: Mann-Kendall score over the newest records, and the records between two judgements; a loss that falls by one of its
#: spreads in that time scores below.
_FALLS, _WINDOW, _JUDGED = -1.0, 24, 10
#: Records, and sum of updates over weights, after which our healthy trainings had left the entropy of their labels.
_RECORDS, _PATH = 40, 0.3
#: Times longer for tokens: text models stay at the entropy of their symbols until attention learns.
_PATIENCE = 6
_LASTING, _STRANGE = 3, 8.0
_HISTORY = 8
_NOISE = tuple(2.31 + 0.02 * (-1) ** step for step in range(60))
_FALLING = tuple(2.3 * 0.96**step + 0.01 * (-1) ** step for step in range(40))


@dataclass(slots=True)
class _UninformativeLabelsState:
    """The entropy of the labels, how far the weights have moved, and the usual loss and activations."""

    entropy: float = float("nan")
    columns: int = 0
    same: Streak = field(default_factory=Streak)
    path: Path = field(default_factory=Path)
    recent: Window = field(default_factory=lambda: Window(24))
    loss: RobustBaseline = field(default_factory=RobustBaseline)
    first: float = float("nan")
    last_step: LastStep = field(default_factory=LastStep)
    norms: deque[Floats] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    above: Streak = field(default_factory=Streak)
    is_forward_usual: bool = False
    usual: float = float("nan")
    self_made: SelfMadeData = field(default_factory=SelfMadeData)
    reported: set[str] = field(default_factory=set)


@rule(
    "uninformative-labels",
    needs=("scalar/loss", "activation", "update"),
    phase=LOSS,
    memory=_UninformativeLabelsState,
    warm_up=_RECORDS,
    asks="reference",
    fires_on=(
        Recording(
            {"scalar/loss": _NOISE, "one.weight update/ratio_to_weight": 0.02, "one activation/mean": 0.1},
            _MODEL,
            events=(_CALLED,),
        ),
        Recording(
            {
                "scalar/loss": (*_FALLING, 3.0, 2.9, 2.8, 2.8),
                "one activation/l2_norm": 8.0,
                "one.weight update/ratio_to_weight": 0.01,
            },
            _MODEL,
        ),
        # the entropy of 64 labels is below that of all
        Recording(
            {
                "scalar/loss": _NOISE,
                "scalar/target/entropy": (2.22,),
                "scalar/target/classes": (10.0,),
                "scalar/target/counted": (64.0,),
                "one.weight update/ratio_to_weight": 0.02,
                "one activation/mean": 0.1,
            },
            _MODEL,
            events=(_CALLED,),
        ),
        Recording({"scalar/loss": 0.5, "scalar/target/entropy": (0.0,) * 4}, _MODEL, events=(_CALLED,)),
    ),
    silent_on=(
        Recording(
            {"scalar/loss": _FALLING, "one.weight update/ratio_to_weight": 0.02, "one activation/mean": 0.1},
            _MODEL,
            events=(_CALLED,),
        ),
        # on its way through the entropy of its labels
        Recording(
            {"scalar/loss": tuple(2.4 - 0.003 * step for step in range(60)), "one.weight update/ratio_to_weight": 0.02},
            _MODEL,
            events=(_CALLED,),
        ),
        # hardly anything has moved yet: warm-up
        Recording(
            {"scalar/loss": _NOISE, "one.weight update/ratio_to_weight": 1e-4, "one activation/mean": 0.1},
            _MODEL,
            events=(_CALLED,),
        ),
        # thrown back to where it began by steps that no weights bear
        Recording(
            {
                "scalar/loss": _NOISE,
                "one.weight update/ratio_to_weight": (*(0.005,) * 30, 2.0, 0.5, *(0.0,) * 30),
                "one activation/mean": 0.1,
            },
            _MODEL,
            events=(_CALLED,),
        ),
        # what the layers put out has changed with the loss: the inputs or the weights, not the labels
        Recording(
            {
                "scalar/loss": (*_FALLING, 3.0, 2.9, 2.8, 2.8),
                "one activation/l2_norm": (*(8.0,) * 40, 30.0, 30.0, 30.0, 30.0),
                "one.weight update/ratio_to_weight": 0.01,
            },
            _MODEL,
        ),
        # the targets are of a model that acts
        Recording(
            {
                "scalar/loss": (*_FALLING, 3.0, 2.9, 2.8, 2.8),
                "one activation/l2_norm": 8.0,
                "one.weight update/ratio_to_weight": 0.01,
                " batch/size": 640.0,
                " batch/eval/size": (None, 10.0) * 22,
            },
            _MODEL,
        ),
        # one batch only
        Recording(
            {
                "scalar/loss": (*_FALLING, 3.0, 0.5, 0.5, 0.5),
                "one activation/l2_norm": 8.0,
                "one.weight update/ratio_to_weight": 0.01,
            },
            _MODEL,
        ),
    ),
)
def check(context: StepContext, memory: _UninformativeLabelsState) -> Iterator[Finding]:
    """Report labels that carry no information about the inputs.

    From the start: the loss stays within 3 % of the entropy of the labels after 40 records and updates that sum to 0.3
    of the weights, and does not fall. The entropy is that of the labels given to the loss, or of an even distribution.
    After an update that is too large both counts start again. Labels that are all equal are a fact.

    From some step on: the loss rises within one step by 8 deviations and half of its progress and stays up, although
    every layer puts out what it usually does and the step before was ordinary. Inputs and weights have not changed
    then, so the targets have, or the loss itself. Models that make their own targets by acting are left out.

    A network can memorise such labels if it sees them often enough (Zhang et al. 2017, arXiv:1611.03530); this rule
    does not see that. Print a few inputs beside their labels.
    """
    memory.self_made.learn(context)
    loss = context.scalar("loss")
    for event in context.events("loss_input"):
        columns = event.data.get("columns")
        if event.data.get("loss") in ("cross_entropy", "nll_loss") and isinstance(columns, int) and columns > 1:
            memory.columns = columns
            memory.entropy = log(columns) if np.isnan(memory.entropy) else memory.entropy
    if loss is None or not isfinite(loss):
        return
    entropy = context.scalar("target/entropy")
    if entropy is not None:
        memory.entropy = _unbiased(context, entropy, memory)
    if context.has_a_surrogate_loss:
        return
    yield from _constant(context, memory)
    yield from _from_the_start(context, memory, loss)
    yield from _from_here(context, memory, loss)
    memory.last_step.learn(context)


def _from_the_start(context: StepContext, memory: _UninformativeLabelsState, loss: float) -> Iterator[Finding]:
    memory.recent.add(loss)
    memory.path.learn(context)
    if "start" in memory.reported or isnan(memory.entropy) or memory.entropy == 0.0:
        return
    patience = _PATIENCE if context.known_sites("batch/tokens") else 1
    path = memory.path
    if path.records < patience * _RECORDS or path.length < patience * _PATH or path.records % _JUDGED:
        return
    newest, level = memory.recent.newest(_WINDOW), memory.recent.median()
    if trend(newest) < _FALLS or abs(level - memory.entropy) > _NEAR * memory.entropy:
        return
    memory.reported.add("start")
    yield _report(
        context,
        {"loss": level, "label_entropy": memory.entropy, "records": path.records, "path": path.length},
        f"after {path.records} records, with updates that sum to {path.length:.2g} times the weights' norm, the loss "
        f"is {level:.4g}; guessing gives {memory.entropy:.4g}, so the model has learned nothing",
        path.since,
        0.6,
    )


def _unbiased(context: StepContext, entropy: float, memory: _UninformativeLabelsState) -> float:
    """Return the entropy of the labels with Miller's correction, at most that of an even distribution.

    Reference:
        Miller 1955, "Note on the bias of information estimates".
    """
    classes, counted = context.scalar("target/classes") or 1.0, context.scalar("target/counted")
    most = log(memory.columns) if memory.columns > 1 else inf
    return min(entropy + (classes - 1) / (2 * counted), max(most, entropy)) if counted else entropy


def _constant(context: StepContext, memory: _UninformativeLabelsState) -> Iterator[Finding]:
    """Yield a finding for labels of several classes that have all been the same."""
    entropy = context.scalar("target/entropy")
    if entropy is None or memory.columns < 2 or "start" in memory.reported:
        return
    if memory.same.update(entropy == 0.0, context.step) < _LASTING:
        return
    memory.reported.add("start")
    yield _report(
        context,
        {"label_entropy": entropy, "classes": memory.columns, "looks": memory.same.length},
        f"all labels so far are the same one of {memory.columns} classes, so the answer does not depend on the input",
        memory.same.since,
        1.0,
    )


def _from_here(context: StepContext, memory: _UninformativeLabelsState, loss: float) -> Iterator[Finding]:
    table = context.table("activation")
    memory.first = loss if isnan(memory.first) else memory.first
    usual = memory.loss.value
    progress = max(memory.first - usual, 0.1 * abs(memory.first))
    rises = memory.loss.update(loss) > _STRANGE and loss - usual > 0.5 * progress
    if rises and memory.above.length == 0 and table is not None:
        memory.is_forward_usual = memory.last_step.is_ordinary and _is_usual(memory, table)
        memory.usual = usual
    length = memory.above.update(rises, context.step)
    if table is not None and not rises:
        memory.norms.append(table.column("l2_norm").copy())
    if (
        length == _LASTING
        and memory.is_forward_usual
        and "step" not in memory.reported
        and not memory.self_made.is_self_made
    ):
        memory.reported.add("step")
        yield _report(
            context,
            {"loss": loss, "usual_loss": memory.usual, "records": length},
            f"the loss went from {memory.usual:.4g} to {loss:.4g} at step {memory.above.since} and stays up, although "
            "every layer's output was as usual in that step; inputs and weights have not changed, so the labels have",
            memory.above.since,
            0.7,
        )


def _is_usual(memory: _UninformativeLabelsState, table: Table) -> bool:
    """True when the norms of 95 % of the outputs are within 25 % of their usual size or 6 deviations."""
    norms = table.column("l2_norm")
    kept = [row for row in memory.norms if len(row) == len(norms)]
    if len(kept) < 4:
        return False
    with np.errstate(divide="ignore", invalid="ignore"):
        history, newest = np.log10(np.stack(kept)), np.log10(norms)
        center = np.median(history, axis=0)
        spread = np.maximum(1.4826 * np.median(np.abs(history - center), axis=0), 0.016)
        deviates = np.abs(newest - center) / spread
    judged = table.present & np.isfinite(deviates) & (table.column("size") > 1)
    return bool(judged.any()) and float((deviates[judged] < 6).mean()) >= 0.95


def _report(context: StepContext, evidence: dict[str, float], words: str, since: int, confidence: float) -> Finding:
    return context.finding(
        ROOT_SITE,
        "scalar/loss",
        evidence,
        severity="warning",
        first_step=since,
        position=0,
        explanation=words,
        advice="print a few inputs beside their labels; look for one shuffled without the other, labels read from "
        "another file or split, an index that is off by one, and a constant target",
        confidence=confidence,
    )
