"""Training steps in evaluation mode, or validation in training mode."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...storage import ROOT_SITE, Event, Finding, Json, display_site
from ..context.step_context import StepContext
from ..event_fields import as_number
from ..recording import Recording, chain
from ..rule import FORWARD, rule

#: One forward of a step, as the probe describes it in an event.
_Forward = Mapping[str, Json]
_MODEL = chain("one:Dense", "drop:Dropout", "two:Dense")


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


@dataclass(slots=True)
class _WrongTrainEvalModeState:
    """What was reported."""

    reported: set[str] = field(default_factory=set)


@rule(
    "wrong-train-eval-mode",
    needs=("record",),
    triggers=("event/forward_modes",),
    phase=FORWARD,
    memory=_WrongTrainEvalModeState,
    is_fact=True,
    asks="intent",
    fires_on=(
        Recording(structure=_MODEL, events=(_modes(0, (False, True)),)),
        Recording(structure=_MODEL, events=(_modes(0, (True, True)), _modes(4, (False, True))), steps=5),
        Recording(structure=_MODEL, events=(_modes(0, (True, True), (True, False)),)),
        Recording(structure=_MODEL, events=(_modes(0, (True, True), others=("drop",)),)),
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(_modes(0, (True, True)),)),
        Recording(structure=_MODEL, events=(_modes(0, (True, True), (False, False)),)),
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
    facts count: a step whose only forwards with gradients are in evaluation mode; a forward without gradients in
    training mode, which draws dropout masks and moves running statistics; and a module in evaluation mode while the
    model trains. The last may be meant, as in fine-tuning with frozen statistics: declare it with `expected_frozen`.
    Call `model.train()` before the loop, and `model.eval()` before validation.
    """
    for event in context.events("forward_modes"):
        forwards = [forward for forward in _list(event.data.get("forwards")) if isinstance(forward, dict)]
        sensitive = _list(event.data.get("sensitive"))
        if sensitive and forwards:
            yield from _whole(context, memory, event, forwards, len(sensitive))
            yield from _parts(context, memory, forwards)


def _whole(
    context: StepContext,
    memory: _WrongTrainEvalModeState,
    event: Event,
    forwards: Sequence[_Forward],
    sensitive: int,
) -> Iterator[Finding]:
    with_gradients = [forward for forward in forwards if forward.get("gradients")]
    evidence = {"forwards": sum(_count(forward) for forward in forwards), "sensitive_modules": sensitive}
    if (
        with_gradients
        and not any(forward.get("training") for forward in with_gradients)
        and "eval" not in memory.reported
    ):
        memory.reported.add("eval")
        yield context.finding(
            ROOT_SITE,
            "",
            evidence,
            position=0,
            first_step=event.step,
            explanation=f"step {event.step} trains in evaluation mode: {sensitive} module{'s' * (sensitive > 1)} with "
            "dropout or running statistics behave as after the training",
            advice="call model.train() before the loop, and again after every validation; to keep the statistics "
            "fixed, put only those modules into evaluation mode",
        )
    validating = [forward for forward in forwards if forward.get("training") and not forward.get("gradients")]
    if validating and with_gradients and "validation" not in memory.reported:
        memory.reported.add("validation")
        yield context.finding(
            ROOT_SITE,
            "",
            {**evidence, "without_gradients": sum(_count(forward) for forward in validating)},
            severity="warning",
            position=0,
            first_step=event.step,
            explanation=f"step {event.step} calls the model without gradients in training mode: dropout falsifies "
            "its output, and running statistics take in data that it is not trained on",
            advice="call model.eval() before the validation or the sampling, and model.train() after it",
        )


def _parts(context: StepContext, memory: _WrongTrainEvalModeState, forwards: Sequence[_Forward]) -> Iterator[Finding]:
    for forward in forwards:
        if not (forward.get("training") and forward.get("gradients")):
            continue
        for site in map(str, _list(forward.get("sensitive_others"))[:4]):
            if site in memory.reported or context.model.is_expected_frozen(site):
                continue
            memory.reported.add(site)
            yield context.finding(
                site,
                "",
                {"others": as_number(forward.get("others_count"), 1.0) or 1.0},
                severity="warning",
                explanation=f"{display_site(site)} is in evaluation mode while the model trains: it keeps its "
                "running statistics, or drops nothing",
                advice="decide what you intend: to train it, call model.train(); to keep it in evaluation mode, "
                f"declare expected_frozen: [{site!r}] in the configuration",
            )


def _list(value: Json | None) -> list[Json]:
    return value if isinstance(value, list) else []


def _count(forward: _Forward) -> float:
    return as_number(forward.get("count"), 1.0)
