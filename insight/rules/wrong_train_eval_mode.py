"""Training steps in evaluation mode, or validation in training mode."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from ...storage import ROOT_SITE, Event, Finding, Json, display_site
from ...storage.training_kinds import TrainingKind
from ..context.step_context import StepContext
from ..event_fields import as_number, number
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import FORWARD, rule

#: One forward of a step, as the probe describes it in an event.
_Forward = Mapping[str, Json]
_MODEL = chain("one:Dense", "drop:Dropout", "two:Dense")
_TUNED = replace(
    _MODEL, parameters=tuple(replace(item, requires_grad=item.site != "one.weight") for item in _MODEL.parameters)
)


def _modes(
    step: int, *forwards: tuple[bool, bool], others: tuple[str, ...] = (), sensitive: tuple[str, ...] = ("drop",)
) -> Event:
    described: list[Json] = [
        {
            "training": training,
            "gradients": gradients,
            "count": 1,
            "others": list(others),
            "others_count": len(others),
            "sensitive_others": [site for site in others if site in sensitive],
        }
        for training, gradients in forwards
    ]
    return Event("forward_modes", step, data={"forwards": described, "sensitive": list(sensitive)})


def _apart(step: int) -> Event:
    names = ("one.norm",)
    return _modes(step, (True, True), *[(True, False)] * (step > 0), others=names, sensitive=names)


def _once_in_training_mode(step: int) -> tuple[Event, Event]:
    return _modes(step, (True, True), (True, False)), _modes(step + 1, (True, True))


_DROPS, _DRAWS = "evaluation_is_without_dropout", "answers_are_repeatable"
_SWITCHED: Final = refuting_event(_DROPS, "", occasion=1, outcome="held")
_STATISTICS, _ASKED = "running_statistics_fit_the_batches", "asked_networks_are_in_evaluation_mode"
#: What follows if a check of a copy, or of a teacher, is broken; what to do; and how sure that is.
_TOLD: Final = {
    _DROPS: (
        "what it answers after the training is random, and worse than it could be",
        "pass training=self.training to functional dropout, and dropout_p=0.0 to attention unless self.training; or "
        "use the modules nn.Dropout, which know their mode",
        0.95,
    ),
    _STATISTICS: (
        "evaluated now, the model would not be the one that is trained",
        "set the momentum of batch norms to 0.1 or 0.01 (it is the share of the new batch, and not that of the old "
        "mean), or train on before evaluating",
        0.8,
    ),
    _ASKED: (
        "its answers are random, or depend on the batch, and its running statistics move",
        "call eval() on the network before the loop, and again where train() is called on what holds it",
        0.8,
    ),
}
#: Share of the steps up to which forwards without gradients in training mode are taken for a validation, and the fewest
#: steps before it (our choice).
_RARE, _FEWEST_STEPS = 0.1, 8
#: Times from which on single calls are no sample to look at but a validation, of what has no other use for them. Our
#: choice.
_OFTEN: Final = 3
_VALIDATED: Final = ("classification", "regression")


def _drawn(*occasions: int, kind: str = "regression") -> Recording:
    words = "a copy in evaluation mode draws random numbers (2, 64) in its forward"
    drawn = [
        replace(refuting_event(_DRAWS, words, occasion=at, is_shared=1.0, moved=1.0, spread=0.5), step=at)
        for at in occasions
    ]
    events = (Event("training_kind", 0, data=TrainingKind(kind).to_data()), *drawn)
    return Recording(structure=chain("one:Dense", "two:Dense"), events=events, steps=4)


def _evaluated(*steps: int, kind: str = "classification") -> Recording:
    """One forward without gradients at each of these steps, of a model with functional dropout."""
    modes = [
        event
        for step in steps
        for event in (
            _modes(step, (True, True), (True, False), sensitive=()),
            _modes(step + 1, (True, True), sensitive=()),
        )
    ]
    first = _modes(0, (True, True), sensitive=())
    events = (Event("training_kind", 0, data=TrainingKind(kind).to_data()), _SWITCHED, first, *modes)
    return Recording(structure=chain("one:Dense", "two:Dense"), events=events, steps=max(steps) + 2)


@dataclass(slots=True)
class _WrongTrainEvalModeState:
    """What was reported, and the newest step with forwards in training mode and without gradients.

    Args:
        taken, times: Steps with such forwards so far, and how many times they began.
        has_function: Whether the model calls a function for dropout that it switches off itself.
    """

    reported: set[str] = field(default_factory=set)
    first: int | None = None
    has_trained: bool = False
    validating: Event | None = None
    taken: int = 0
    times: int = 0
    has_function: bool = False
    drawn: set[str] = field(default_factory=set)


@rule(
    "wrong-train-eval-mode",
    needs=("record",),
    triggers=("event/forward_modes", "event/check"),
    phase=FORWARD,
    memory=_WrongTrainEvalModeState,
    asks="intent",
    fires_on=(
        _drawn(1, 2),
        _evaluated(20, 40, 60),
        Recording(structure=_MODEL, events=(refuting_event(_DROPS, "in evaluation mode the model calls dropout"),)),
        Recording(structure=_MODEL, events=(refuting_event(_ASKED, "teacher is asked in training mode"),)),
        Recording(structure=_MODEL, events=(refuting_event(_STATISTICS, "in 3 of 3 batch norms", occasion=3),)),
        Recording(structure=_MODEL, events=(_modes(0, (False, True)),)),
        Recording(structure=_MODEL, events=(_modes(0, (True, True)), _modes(4, (False, True))), steps=5),
        Recording(structure=_MODEL, events=(_modes(0, (True, True)), *_once_in_training_mode(20)), steps=22),
        Recording(structure=_MODEL, events=(_modes(0, (True, True), others=("drop",)),)),
    ),
    silent_on=(
        _drawn(1),
        _drawn(1, 2, kind="diffusion"),  # which samples
        Recording(structure=_MODEL, events=(refuting_event(_DROPS, "", outcome="held"),)),
        Recording(structure=_MODEL, events=(_modes(0, (True, True)),)),
        # a frozen part is kept in evaluation mode
        Recording(structure=_TUNED, events=(_modes(0, (True, True), others=("one.norm",), sensitive=("one.norm",)),)),
        Recording(structure=_MODEL, events=(_modes(0, (True, True), (False, False)),)),
        # a key encoder, a teacher or a first guess: part of every step
        Recording(structure=_MODEL, events=(_modes(0, (True, True), (True, False)),), steps=30),
        # one player's answer for the other, in every third step
        Recording(
            structure=_MODEL,
            events=(_modes(0, (True, True)), *(one for at in range(9) for one in _once_in_training_mode(3 * at + 1))),
            steps=30,
        ),
        # nothing but the frozen part behaves as after the training
        Recording(structure=_TUNED, events=(_modes(0, (False, True), sensitive=("one.norm",)),)),
        # validated in training mode, which nothing in it has: the norms of its frozen part are in evaluation mode
        Recording(structure=_TUNED, events=tuple(_apart(step) for step in (0, 20, 40, 60)), steps=70),
        # an adversarial example, made in evaluation mode on the way to a step in training mode
        Recording(structure=_MODEL, events=(_modes(0, (False, True), (True, True)),)),
        # nothing in the model depends on the mode
        Recording(structure=_MODEL, events=(_modes(0, (False, True), sensitive=()),)),
        Recording(
            structure=_MODEL, events=(_modes(0, (True, True), others=("drop",)),), config={"expected_frozen": ["drop"]}
        ),
    ),
)
def check(context: StepContext, memory: _WrongTrainEvalModeState) -> Iterator[Finding]:
    """Report a model, or one of its modules, in the wrong mode.

    Only models whose behaviour depends on the mode are judged, such as those with dropout or running statistics. Three
    cases count. All forwards with gradients of a step are in evaluation mode: an error if the model had trained in
    training mode before, since a validation then forgot to switch back, else a warning. Now and then, in at most a
    tenth of the steps, the model is called without gradients in training mode, which draws dropout masks and moves
    running statistics; where that is part of every step or every few steps, it belongs to the method (a key encoder, a
    teacher, a generator's answers for its critic) and nothing is said. A single such call, as for a sample to look at,
    is a question. Parts whose parameters are all frozen are left out, and so are forwards without gradients of agents
    and generators. A single module is in evaluation mode while the
    model trains: that is often meant, as in fine-tuning with frozen statistics, so it is a question; declare it with
    `expected_frozen`.

    Checks on copies tell more: a model in evaluation mode that still drops out, since functional dropout and attention
    do not know the mode; batch norms with running statistics that cannot have settled and are far from those of a
    batch; a network that is asked without gradients, such as a teacher, and left in training mode; and features or
    layers that are drawn anew in each forward. The last is looked for in regression and classification: a copy in
    evaluation mode that answers the same call otherwise with other random numbers, at steps 1 and 25, by more than half
    of what samples differ, is a warning if all samples share the numbers, else a question. Call `model.train()` before
    the loop, and `model.eval()` before validation.
    """
    asked = (event for event in context.events("check") if event.data.get("check") == _DROPS)
    memory.has_function |= any(event.data.get("outcome") == "held" for event in asked)
    yield from _of_copies(context, memory)
    yield from _random(context, memory)
    for event in context.events("forward_modes"):
        forwards = [forward for forward in _list(event.data.get("forwards")) if isinstance(forward, dict)]
        sensitive = _list(event.data.get("sensitive"))
        memory.first = event.step if memory.first is None else memory.first
        if (sensitive or memory.has_function) and forwards:
            whole = [forward for forward in forwards if memory.has_function or not _is_apart(forward, sensitive)]
            yield from _whole(context, memory, event, whole, sensitive) if whole else ()
            yield from _parts(context, memory, forwards)


def _is_apart(forward: _Forward, sensitive: Sequence[object]) -> bool:
    """Return whether all that depends on the mode is in another one than the model, whose own then means nothing."""
    return bool(sensitive) and set(map(str, sensitive)) <= set(map(str, _list(forward.get("sensitive_others"))))


def _of_copies(context: StepContext, memory: _WrongTrainEvalModeState) -> Iterator[Finding]:
    """Yield a finding for each check of copies and teachers that is broken for the first time."""
    for event in refuted(context, *_TOLD):
        check = str(event.data.get("check"))
        if check in memory.reported:
            continue
        memory.reported.add(check)
        consequence, advice, confidence = _TOLD[check]
        found = refutation(
            context, event, consequence=consequence, advice=advice, severity="warning", confidence=confidence
        )
        yield replace(found, site=str(event.data.get("subject"))) if check == _ASKED else found


def _random(context: StepContext, memory: _WrongTrainEvalModeState) -> Iterator[Finding]:
    """Yield a finding for a model whose answers in evaluation mode hang on what it draws, at both occasions."""
    for event in refuted(context, _DRAWS):
        if number(event, "occasion") == 1:
            memory.drawn.add(event.site)
        elif event.site in memory.drawn and context.kind.name in ("regression", "classification"):
            memory.drawn.discard(event.site)
            found = refutation(
                context,
                event,
                consequence="what it answers after the training is as random",
                advice="draw fixed features and layers once, in __init__, and keep them in a buffer or a module; add "
                "noise only if self.training",
                severity="warning",
                confidence=0.9,
            )
            measured = event.data.get("numbers")
            is_shared = isinstance(measured, dict) and measured.get("is_shared") == 1.0
            question = f"{found.explanation}: is that meant?"
            yield found if is_shared else replace(found, severity="info", confidence=0.5, explanation=question)


def _whole(
    context: StepContext,
    memory: _WrongTrainEvalModeState,
    event: Event,
    forwards: Sequence[_Forward],
    named: Sequence[object],
) -> Iterator[Finding]:
    sensitive, is_kept = len(named), all(_is_frozen(context, str(site)) for site in named) and bool(named)
    with_gradients = [forward for forward in forwards if forward.get("gradients")]
    trains = any(forward.get("training") for forward in with_gradients)
    if with_gradients and not trains and not is_kept and "eval" not in memory.reported:
        memory.reported.add("eval")
        evidence = {"forwards": sum(_count(forward) for forward in forwards), "sensitive_modules": sensitive}
        yield context.finding(
            ROOT_SITE,
            "",
            evidence,
            severity="error" if memory.has_trained else "warning",
            position=0,
            first_step=event.step,
            explanation=f"step {event.step} trains in evaluation mode"
            f"{', as no step before did' * memory.has_trained}: {_whose(sensitive)} as after the training",
            advice="call model.train() before the loop, and again after every validation; to keep the statistics "
            "fixed, put only those modules into evaluation mode",
            confidence=0.95,
        )
    memory.has_trained |= trains
    yield from _validation(context, memory, event, forwards, sensitive, has_gradients=bool(with_gradients))


def _whose(sensitive: int) -> str:
    """Return what behaves as the mode says, for a sentence."""
    if not sensitive:
        return "its functional dropout behaves"
    return f"{sensitive} module{'s' * (sensitive > 1)} with dropout or running statistics behave"


def _validation(
    context: StepContext,
    memory: _WrongTrainEvalModeState,
    event: Event,
    forwards: Sequence[_Forward],
    sensitive: int,
    *,
    has_gradients: bool,
) -> Iterator[Finding]:
    """Yield a finding for a step, by then over, that called the model without gradients in training mode.

    Modes are told when they change: how many steps had them is known when the next ones come.
    """
    last, memory.validating = memory.validating, None
    if last is not None:
        memory.taken += event.step - last.step
        memory.times += 1
        past = event.step - (memory.first or 0)
        described = [forward for forward in _list(last.data.get("forwards")) if isinstance(forward, dict)]
        count = sum(_count(forward) for forward in described if _is_validating(forward))
        is_often = memory.times >= _OFTEN and context.kind.name in _VALIDATED
        told = "validations" if is_often or count > 1 else "validation"
        if past >= _FEWEST_STEPS and memory.taken <= _RARE * past and memory.reported.isdisjoint((told, "validations")):
            memory.reported.add(told)
            yield context.finding(
                ROOT_SITE,
                "",
                {"without_gradients": count, "sensitive_modules": sensitive, "steps_with_such": memory.taken},
                severity="warning" if told != "validation" and len(context.model.structure.optimizers) <= 1 else "info",
                position=0,
                first_step=last.step,
                explanation=f"step {last.step} calls the model without gradients in training mode, {count:.0f} "
                f"time{'s' * (count > 1)}{f', as {memory.times - 1} steps before did' * is_often}: dropout falsifies "
                "its output, or running statistics take in data that it is not trained on"
                f"{'; is that meant?' * (told == 'validation')}",
                advice="call model.eval() before the validation or the sampling, and model.train() after it",
                confidence=0.9,
            )
    if has_gradients and any(map(_is_validating, forwards)) and not _acts(context):
        memory.validating = event


def _is_validating(forward: _Forward) -> bool:
    return bool(forward.get("training")) and not forward.get("gradients")


def _is_frozen(context: StepContext, site: str) -> bool:
    """Return whether the module lies in a part of the model whose parameters are all frozen, which is on purpose."""
    while site:
        inside = [item for name, item in context.model.parameters.items() if name.startswith(f"{site}.")]
        if inside:
            return not any(item.requires_grad for item in inside)
        site = site.rpartition(".")[0]
    return False


def _acts(context: StepContext) -> bool:
    """Return whether forwards without gradients belong to the training: an agent acts, a generator makes samples."""
    return context.kind.name in ("policy", "value", "preference", "adversarial", "diffusion")


def _parts(context: StepContext, memory: _WrongTrainEvalModeState, forwards: Sequence[_Forward]) -> Iterator[Finding]:
    for forward in forwards:
        if not (forward.get("training") and forward.get("gradients")):
            continue
        for site in map(str, _list(forward.get("sensitive_others"))[:4]):
            if site in memory.reported or context.model.is_expected_frozen(site) or _is_frozen(context, site):
                continue
            memory.reported.add(site)
            yield context.finding(
                site,
                "",
                {"others": as_number(forward.get("others_count"), 1.0) or 1.0},
                severity="info",
                explanation=f"{display_site(site)} is in evaluation mode while the model trains: it keeps its "
                "running statistics, or drops nothing; is that meant?",
                advice="decide what you intend: to train it, call model.train(); to keep it in evaluation mode, "
                f"declare expected_frozen: [{site!r}] in the configuration",
                confidence=0.5,
            )


def _list(value: Json | None) -> list[Json]:
    return value if isinstance(value, list) else []


def _count(forward: _Forward) -> float:
    return as_number(forward.get("count"), 1.0)
