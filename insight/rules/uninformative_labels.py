"""Labels that carry no information about the inputs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import inf, isfinite, log
from typing import Final

import numpy as np

from ...storage import Event, Finding, Json
from ..context.step_context import StepContext
from ..event_fields import number
from ..indicators.alike_labels import AlikeLabels
from ..indicators.changed_targets import ChangedTargets
from ..indicators.exchanged_answers import ExchangedAnswers
from ..indicators.executable_checks import at_two_occasions, refuting_event
from ..indicators.label_findings import report
from ..indicators.loss_anchor import LossAnchor
from ..indicators.lowered_findings import asked, withdrawn
from ..indicators.own_targets import ALIGNED, FIT, TriedTargets, may_still_bind, tried_targets
from ..indicators.small_batches import SmallBatches
from ..indicators.strange_targets import STRANGE, TWICE, strange_targets
from ..indicators.update_stability import Path
from ..recording import Recording, chain
from ..rule import LOSS, rule
from ..running_statistics import StepWindow, Streak, trend

_MODEL = chain("one:Dense", "two:Dense")
_CALLED = Event("loss_input", 0, data={"loss": "cross_entropy", "domain": "logits", "columns": 10})
#: What to do where the target is the input, which nobody has exchanged.
_OF_THE_CODE: Final = (
    "look at what lies between the input and the answer: a code that is detached or never read, noise that drowns it, "
    "or a prior that weighs more than all that it says"
)
#: Share of the entropy of the labels within which a model has learned nothing, and share of it below which it has
#: learned something after all.
_NEAR, _LEARNED = 0.03, 0.9
#: Factor of that entropy up to which a loss that does not fall counts as guessing, badly.
_WORSE = 2.0
#: Mann-Kendall score over the newest records, and the records between two judgements; a loss that falls by one of its
#: spreads in that time scores below; and the score of one that still learns,
#: with the part of itself by which it falls.
_FALLS, _WINDOW, _JUDGED, _CLEARLY, _PART = -1.0, 24, 10, -3.0, 0.2
#: Times as many records after which it is said, and not asked; step of a look at exchanged answers from which on it is.
#: Our choice: slow starts of healthy programs of other people had ended by then.
_SURE, _LATE = 3, 200
_SO_FAR = " so far; is it a slow start?"
#: Records, and sum of updates over weights, after which our healthy trainings had left the entropy of their labels.
_RECORDS, _PATH = 40, 0.3
#: What makes scores of pairs, of which the first may be the right one by design.
_OF_PAIRS = ("mul", "div", "cat")
#: Times longer for tokens: text models stay at the entropy of their symbols until attention learns.
_PATIENCE = 6
#: Records with updates, of which a thinned run has few, before exchanged answers are judged (our choice).
_EXCHANGED_RECORDS = 20
#: Score of exchanged answers beyond which something may have been learned, and how many times longer is waited then.
_HINT, _HINTED = 1.64, 3
#: Score beyond which answers belong to their samples, as all looks together show.
_BOUND = 2.0
#: Looks at labels that are all the same; a rare class shows later than in the first few.
_LOOKS = 8
#: Relative error within which the loss is the value of the loss function alone.
_EXACT = 1e-3


def _alike(*labels: float) -> dict[str, float | tuple[float, ...]]:
    """Return batches of 64 labels each, all of which are this one."""
    series: dict[str, float | tuple[float, ...]] = {"scalar/target/own_top": labels, "scalar/target/own_counted": 64.0}
    return series | {"scalar/target/own_entropy": 0.0, "scalar/target/entropy": 1.0, "scalar/loss": 2.0}


def _exchange(step: int, exchanged: float) -> Event:
    data: dict[str, Json] = {"loss": 0.9, "exchanged": exchanged, "spread": 0.05, "samples": 64}
    return Event("exchange", step, data=data)


_NOISE = tuple(2.31 + 0.02 * (-1) ** step for step in range(60))
_FALLING = tuple(2.3 * 0.96**step + 0.01 * (-1) ** step for step in range(40))
_UNBOUND = refuting_event(FIT, "the targets of other samples fit the predictions as well as their own", best=0.01)


@dataclass(slots=True)
class _UninformativeLabelsState:
    """The entropy of the labels, how far the weights have moved, and the usual loss and activations."""

    entropy: float = float("nan")
    columns: int = 0
    factor: float = 1.0
    same: Streak = field(default_factory=Streak)
    alike: AlikeLabels = field(default_factory=AlikeLabels)
    path: Path = field(default_factory=Path)
    recent: StepWindow = field(default_factory=lambda: StepWindow(24))
    small: SmallBatches = field(default_factory=SmallBatches)
    anchor: LossAnchor = field(default_factory=LossAnchor)
    exchanged: ExchangedAnswers = field(default_factory=ExchangedAnswers)
    changed: ChangedTargets = field(default_factory=ChangedTargets)
    found: Finding | None = None
    slow: Finding | None = None
    reported: set[str] = field(default_factory=set)
    tried: TriedTargets = field(default_factory=TriedTargets)
    judges: set[tuple[str, str, str]] = field(default_factory=set)


@rule(
    "uninformative-labels",
    needs=("scalar/loss", "activation", "update"),
    triggers=("scalar/loss", "activation", "update", "event/check", "event/resume_point"),
    phase=LOSS,
    memory=_UninformativeLabelsState,
    warm_up=_RECORDS,
    asks="reference",
    fires_on=(
        # each batch has one label, another one from batch to batch
        Recording(_alike(17.0, 3.0, 54.0, 3.0, 20.0, 9.0), _MODEL, events=(_CALLED,)),
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
        # real targets: as good as their mean
        Recording(
            {
                "scalar/loss": tuple(1.01 + 0.02 * (-1) ** step for step in range(60)),
                "scalar/target/constant_loss": 1.0,
                "one.weight update/ratio_to_weight": 0.02,
                "one activation/mean": 0.1,
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
        Recording({"scalar/loss": 0.5, "scalar/target/entropy": (0.0,) * 9}, _MODEL, events=(_CALLED,)),
        # a discriminator that is told that fakes are real, too; rows of a batch that do not belong together
        *(
            Recording({"scalar/loss": 0.5}, _MODEL, events=at_two_occasions(refuting_event(name, "")), steps=2)
            for name in TWICE
        ),
        # tried on the terms of single batches
        Recording({"scalar/loss": 0.5, "one.weight update/ratio_to_weight": 0.02}, _MODEL, (_UNBOUND,), steps=30),
        Recording({"scalar/loss": 0.5}, _MODEL, events=(refuting_event(ALIGNED, "mirrored", share=0.4),)),
        # any loss: as low when the answers are exchanged
        Recording(
            {"scalar/loss": (0.9,) * 120, "one.weight update/ratio_to_weight": 0.02, "one activation/mean": 0.1},
            _MODEL,
            events=tuple(_exchange(step, 0.9 + 0.02 * (-1) ** step) for step in (42, 58, 81, 113)),
        ),
        *(Recording({"scalar/loss": 0.5}, _MODEL, events=(refuting_event(name, "words"),)) for name in STRANGE),
    ),
    silent_on=(
        # weights that have hardly moved: it is no fault of the targets
        Recording({"scalar/loss": 0.5, "one.weight update/ratio_to_weight": 1e-5}, _MODEL, (_UNBOUND,), steps=30),
        # one class after another
        Recording(_alike(0.0, 0.0, 1.0, 1.0, 2.0, 3.0), _MODEL, events=(_CALLED,)),
        *(Recording({"scalar/loss": 0.5}, _MODEL, events=(refuting_event(name, ""),)) for name in TWICE),
        Recording({"scalar/loss": 0.5}, _MODEL, events=(refuting_event(next(iter(STRANGE)), "", outcome="held"),)),
        Recording({"scalar/loss": 0.5}, _MODEL, events=(refuting_event(FIT, "", outcome="held", best=2.0),)),
        # the values of a policy may mean nothing for long
        Recording({"scalar/loss": 0.5}, _MODEL, events=(Event("training_kind", 0, data={"name": "value"}), _UNBOUND)),
        # answers that belong to their samples, however slowly the loss falls
        Recording(
            {"scalar/loss": (0.9,) * 120, "one.weight update/ratio_to_weight": 0.02, "one activation/mean": 0.1},
            _MODEL,
            events=tuple(_exchange(step, 1.1) for step in (42, 58, 81, 113)),
        ),
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

    From the start: the loss stays within 3 % of the entropy of the labels after 120 records and updates that sum to
    0.3 of the weights, and does not fall; after 40 the rule asks. The entropy is that of the labels given to the
    loss, or of an even distribution; of real targets the loss of the best constant answer counts instead. A sum of
    terms has no such level. Whatever computes the loss, the probe computes it again with the model's answers
    exchanged among the samples of the batch. If that costs no more in four looks by step 100 or later, the answers
    have nothing to do with their targets.

    After an update that is too large both counts start again. Labels that are all equal are a fact, in the
    whole run, or in each batch of six.

    From some step on: the loss rises within one step by 8 deviations and half of its progress and stays up, although
    every layer puts out what it usually does and the step before was ordinary. Inputs and weights have not changed
    then, so the targets have, or the loss itself. Models that make their own targets by acting are left out, and losses
    that have been below zero; where the loss has several terms, the rule asks.

    Of sequences it is a fact if predictions and targets are flattened in another order, if a reshape stands for a
    transpose between the output and the loss, or if the targets are the tokens two or three positions later. Of a full
    batch it is a fact if each row foretells the label of the next row, or of the kth, and its own is at chance; if it
    foretells its own, the labels are not blamed for a loss that does not fall.

    Of a discriminator it is a fact if data, what the generator makes, and the generator's own loss have the same target
    at steps 1 and 25. So it is if a batch joins drawn rows of one tensor with rows of another one in their order, or
    if one column of a store is read some rows beside all others that are written with it.

    A loss that leaves the entropy of the labels later withdraws the finding. Each term alone, from step 40 on: the
    targets of other samples fit the predictions as well as their own over five looks and 64 samples, though updates sum
    to 0.3 of the weights, or those of the next fit better; or an eighth of those that are pictures fit better mirrored.
    It is withdrawn when they come to fit.

    A network can memorise such labels if it sees them often enough (Zhang et al. 2017, arXiv:1611.03530); this rule
    does not see that. Print a few inputs beside their labels.
    """
    memory.anchor.learn(context)
    yield from strange_targets(context, memory.reported, memory.judges)
    is_falling = _falls_far(memory.recent.newest(_WINDOW))
    has_moved = memory.path.length >= _PATH
    # one loss: what the whole of it has shown holds of its only term
    is_bound = memory.exchanged.score > _BOUND and memory.anchor.is_one_known_loss(context)
    yield from tried_targets(
        context, memory.tried, memory.reported, is_falling=is_falling or is_bound, has_moved=has_moved
    )
    loss = context.scalar("loss")
    for event in context.events("loss_input"):
        columns = event.data.get("columns")
        if event.data.get("loss") in ("cross_entropy", "nll_loss") and isinstance(columns, int) and columns > 1:
            memory.columns = 0 if event.data.get("made_by") in _OF_PAIRS else columns
            memory.entropy = log(columns) if np.isnan(memory.entropy) else memory.entropy
    yield from _at_the_end(context, memory)
    if loss is None or not isfinite(loss):
        return
    entropy = context.scalar("target/entropy")
    if entropy is not None:
        memory.entropy = _unbiased(context, entropy, memory)
    for event in context.events("accumulation"):
        memory.factor = number(event, "factor")
    constant = context.scalar("target/constant_loss")
    memory.entropy = memory.entropy if constant is None or abs(memory.factor - 1.0) >= _EXACT else constant
    memory.path.learn(context)
    if context.has_a_surrogate_loss:
        return
    yield from _exchanged(context, memory, loss)
    if context.kind.name == "preference":
        return
    yield from _constant(context, memory)
    yield from _from_the_start(context, memory, loss)
    yield from memory.changed.check(context, loss, memory.recent, memory.anchor, memory.reported)


def _falls_far(values: Sequence[float]) -> bool:
    """Return whether a loss still learns: it falls clearly, and by a good part of itself."""
    if (third := len(values) // 3) < 1 or trend(values) >= _CLEARLY:
        return False
    before = float(np.median(values[:third]))
    return float(np.median(values[-third:])) < before - _PART * abs(before)


def _from_the_start(context: StepContext, memory: _UninformativeLabelsState, loss: float) -> Iterator[Finding]:
    memory.recent.learn(context.step, loss)
    memory.small.learn(context, loss)
    if memory.slow is not None and (memory.recent.median() < _LEARNED * memory.entropy or memory.small.falls):
        words = f"the loss stood at the entropy of the labels at first, and is {memory.recent.median():.4g} by step"
        yield withdrawn(memory.slow, context, f"{words} {context.step}")
        memory.slow = None
    if "start" in memory.reported or not memory.entropy > 0.0 or not memory.anchor.is_of_guessing:
        return
    patience = _PATIENCE if context.known_sites("batch/tokens") else 1
    path = memory.path
    patience *= memory.small.patience * (_HINTED if memory.exchanged.score > _HINT else 1)
    if path.records < patience * _RECORDS or path.length < patience * _PATH or path.records % _JUDGED:
        return
    is_early = path.records < max(patience, _SURE) * _RECORDS
    if is_early and memory.slow is not None:
        return
    newest, level = memory.recent.newest(_WINDOW), memory.recent.median()
    worst = _WORSE if memory.anchor.is_one_known_loss(context) else 1 + _NEAR
    if (
        memory.small.falls
        or trend(newest) < _FALLS
        or not (1 - _NEAR) * memory.entropy <= level <= worst * memory.entropy
    ):
        return
    found = report(
        context,
        {"loss": level, "label_entropy": memory.entropy, "records": path.records, "path": path.length},
        f"after {path.records} records, with updates that sum to {path.length:.2g} times the weights' norm, the loss "
        f"is {level:.4g}; guessing gives {memory.entropy:.4g}, so the model has learned nothing",
        path.since,
        0.6,
    )
    memory.reported |= set() if is_early else {"start"}
    memory.slow = asked(found, f"{found.explanation}{_SO_FAR}") if is_early else found
    yield memory.slow


def _at_the_end(context: StepContext, memory: _UninformativeLabelsState) -> Iterator[Finding]:
    """Yield what was asked and is settled now: the training has ended, and learned nothing until then."""
    if not any(event.data.get("reason") == "close" for event in context.events("resume_point")):
        return
    is_slow = memory.recent.median() >= (1 - _NEAR) * memory.entropy
    for found, is_so_still in ((memory.slow, is_slow), (memory.found, memory.exchanged.knows_nothing)):
        if found is not None and found.severity == "info" and is_so_still:
            words = f"{found.explanation.removesuffix(_SO_FAR)}, until the training ended"
            yield replace(found, step=context.step, severity="warning", explanation=words, confidence=0.6)


def _exchanged(context: StepContext, memory: _UninformativeLabelsState, loss: float) -> Iterator[Finding]:
    """Yield a finding if the answers are worth no more in the order of their samples than in any other."""
    exchanged = memory.exchanged
    if not exchanged.learn(context.record.events, loss if context.learner else None):
        return
    if memory.found is not None and exchanged.learns_after_all:
        words = (
            f"the answers had nothing to do with their own samples' targets at first, and have by step {context.step}"
        )
        yield withdrawn(memory.found, context, words)
        memory.found = None
    if "start" in memory.reported:
        return
    has_ids = context.kind.name in ("contrastive", "preference", "regression")  # of users and items, and no text
    patience = _PATIENCE if context.known_sites("batch/tokens") and not has_ids else 1
    path = memory.path
    has_moved = path.records >= patience * _EXCHANGED_RECORDS and path.length >= patience * _PATH
    if may_still_bind(context) or not exchanged.knows_nothing or not has_moved or memory.anchor.self_made.is_self_made:
        return
    first, last = exchanged.looks[0], exchanged.looks[-1]
    if exchanged.has_fallen:  # something was learned, though not by what was exchanged
        return
    is_early = last.step < _LATE
    if is_early and memory.found is not None:
        return
    found = report(
        context,
        {"loss": last.loss, "exchanged_loss": last.exchanged, "score": exchanged.score, "path": path.length},
        f"at step {last.step} the loss of a batch was {last.loss:.5g}, and {last.exchanged:.5g} when the model's "
        f"answers were exchanged among the {last.samples:.0f} samples, which is as good; so it was "
        f"{len(exchanged.looks)} times since step {first.step}: the answers have nothing to do with the targets of "
        "their own samples, and the model tells no sample from another",
        path.since,
        0.7,
    )
    found = replace(found, advice=_OF_THE_CODE) if context.kind.name == "autoencoder" else found
    memory.reported |= set() if is_early else {"start"}
    memory.found = asked(found, f"{found.explanation}{_SO_FAR}") if is_early else found
    yield memory.found


def _unbiased(context: StepContext, entropy: float, memory: _UninformativeLabelsState) -> float:
    """Return the labels' entropy as Miller 1955 corrects it ("Note on the bias of information estimates")."""
    classes, counted = context.scalar("target/classes") or 1.0, context.scalar("target/counted")
    most = log(memory.columns) if memory.columns > 1 else inf
    return min(entropy + (classes - 1) / (2 * counted), max(most, entropy)) if counted else entropy


def _constant(context: StepContext, memory: _UninformativeLabelsState) -> Iterator[Finding]:
    """Yield a finding for labels of several classes that have all been the same, in the run or in each batch."""
    entropy = context.scalar("target/entropy")
    if entropy is None or memory.columns < 2 or "start" in memory.reported:
        return
    if memory.alike.differ(context):
        memory.reported.add("start")
        yield report(
            context,
            {"classes": memory.columns, "looks": len(memory.alike.tops), "labels": memory.alike.fewest},
            f"in each of {len(memory.alike.tops)} batches all labels, {memory.alike.fewest:.0f} or more, are the same "
            f"one of {memory.columns} classes, another one from batch to batch "
            f"({', '.join(f'{top:.0f}' for top in memory.alike.tops[-3:])}): within a batch the answer does not depend "
            "on the input",
            memory.alike.since,
            1.0,
        )
        return
    if memory.same.update(entropy == 0.0, context.step) < _LOOKS:
        return
    memory.reported.add("start")
    yield report(
        context,
        {"label_entropy": entropy, "classes": memory.columns, "looks": memory.same.length},
        f"all labels so far are the same one of {memory.columns} classes, so the answer does not depend on the input",
        memory.same.since,
        1.0,
    )
