"""A resumed run that is not the one that stopped."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import isfinite

from ...storage import ROOT_SITE, Event, Finding, Json, OptimizerInfo
from ..context.step_context import Excess, Lookahead, SkipWindow, StepContext
from ..event_fields import NAN, as_number, items, number, numbers, words
from ..indicators.executable_checks import refutation, refuted, refuting_event
from ..recording import Recording, chain
from ..rule import CONFIGURATION, rule

_MODEL = chain("one:Dense", "two:Dense")
#: Factor of the rate between two steps; no schedule changes it by more, so the rate was lost or set anew (our choice).
_RATE = 1.5
#: Parameters that must move together; a single one may be a clamped weight or a buffer.
_TOGETHER = 3
#: The first step at which a part that is written anew has been trained before, how much of its norm the change is, and
#: how much larger the loss is for it. All our choice: what averages, clips or prunes weights does none of it at once.
_MIDST, _ANEW, _WORSE = 20, 0.5, 1.2
#: Steps after wrong optimizer state in which parameters may move too far because of it.
_QUIET = 20
_LOADED = "something_is_loaded"


def _seam(**changed: Json) -> Event:
    data: dict[str, Json] = {
        "run": "first",
        "step": 100,
        "is_declared": True,
        "is_same_parameters": True,
        "changed": [],
        "learning_rates_before": [0.001],
        "learning_rates": [0.001],
        "counts_before": [100],
        "counts": [100],
        "generators_changed": [],
    }
    return Event("resume_seam", 0, data=data | changed)


def _rewritten(*by: float, others: tuple[float, ...] = ()) -> Recording:
    groups: dict[str, Json] = {"lr": 0.001, "betas": [0.9, 0.999]}
    model = chain("one:Dense", "two:Dense", "three:Dense", "four:Dense")
    names = [f"{site}.weight" for site in ("one", "two", "three", "four")]
    moved = {f"{name} update/max": by for name in names} | {f"{name} update/min": 0.0 for name in names}
    moved["four.weight update/max"] = others or by
    return Recording(
        moved | {f"{name} weight/max": 1.0 for name in names} | {"scalar/learning_rate": 0.001},
        replace(model, optimizers=(OptimizerInfo("Adam", (groups,)),)),
    )


def _written_at(step: int, losses: tuple[float, ...], *, changes: float) -> Recording:
    """Return a recording of losses in which all weights of three layers are written by so much of their norms."""
    sites = ("one.weight", "two.weight", "three.weight")
    named: list[Json] = [{"site": site, "size": 400, "largest": 0.3, "change": changes, "norm": 1.0} for site in sites]
    data: dict[str, Json] = {"parameters": 3, "of": 4, "weights": named}
    return Recording(
        {"scalar/loss": losses, "one.weight update/max": 0.01},
        _MODEL,
        events=(Event("weights_written", step, data=data),),
    )


@dataclass(slots=True)
class _ResumeMismatchState:
    """The parameters that moved beyond their bound in the record before, and whether the rule has reported."""

    before: dict[str, Excess] = field(default_factory=dict)
    since: int = 0
    quiet_until: int = 0
    is_reported: bool = False
    has_written: bool = False
    loss: float = NAN


def _skip_window(lookahead: Lookahead, memory: _ResumeMismatchState) -> SkipWindow | None:
    if memory.is_reported or not lookahead.carries("update"):
        return SkipWindow(len(lookahead), lambda records: _remember(lookahead, records, memory))

    def learn(records: int) -> None:
        memory.since = lookahead.records[records - 1].step
        _remember(lookahead, records, memory)

    window = lookahead.within_bounds(learn)
    return None if memory.before else window


def _remember(lookahead: Lookahead, records: int, memory: _ResumeMismatchState) -> None:
    """Keep the last loss of these records."""
    memory.loss = [memory.loss, *lookahead.known("loss", records)][-1]


@rule(
    "resume-mismatch",
    needs=("event/resume_seam", "event/weights_written", "event/check", "update"),
    phase=CONFIGURATION,
    skip_window=_skip_window,
    memory=_ResumeMismatchState,
    is_fact=True,
    is_optional=True,
    fires_on=(
        Recording(structure=_MODEL, events=(_seam(is_same_parameters=False, changed=["one.weight"]),)),
        Recording(structure=_MODEL, events=(_seam(counts=[0]),)),
        Recording(structure=_MODEL, events=(_seam(learning_rates=[0.01]),)),
        # an old checkpoint is loaded in the middle of the run
        _rewritten(0.001, 0.001, 0.4, 0.001),
        # no name of the checkpoint fits
        Recording(structure=_MODEL, events=(refuting_event(_LOADED, "none of 4 tensors was loaded", given=4.0),)),
        # a block is made anew between two steps
        _written_at(30, (*[1.0] * 30, *[1.6] * 5), changes=1.2),
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(_seam(),)),
        # weights are written and the loss is as before; they are written a little, as an average does
        _written_at(30, (1.0,) * 35, changes=1.2),
        _written_at(30, (*[1.0] * 30, *[1.6] * 5), changes=0.1),
        # the optimizer's own state is wrong: another rule's case
        _rewritten(0.001, 0.001, 0.4, 0.3, 0.2),
        # and of some parameters it shows in one step only
        _rewritten(0.001, 0.001, 0.4, 0.001, others=(0.001, 0.001, 0.4, 0.3)),
        Recording(structure=_MODEL, events=(_seam(learning_rates=[0.00099], counts=[101]),)),
        # fine-tuning of another run's weights with an optimizer of its own, which nobody called a resumption
        Recording(structure=_MODEL, events=(_seam(is_declared=False, counts=[0], learning_rates=[1e-5]),)),
    ),
)
def check(context: StepContext, memory: _ResumeMismatchState) -> Iterator[Finding]:
    """Report a resumed run that differs from the run that stopped.

    The rule compares parameters, rate and the optimizer's step count. It judges declared resumptions only: a run that
    merely begins with another run's parameters may fine-tune them. Random generators that start anew are a notice,
    since repeated batches and masks are often accepted.

    In the middle of a run, the rule fires when three or more parameters move farther in a single step than their
    optimizer can move anything, or are written anew between two steps and the loss is larger for it: a checkpoint was
    loaded, or a part of the model was initialised again. Save and load
    model, optimizer, schedule, scaler and generators together.

    A network that was given a state and found none of its names in it has loaded nothing; of scripts under
    `mindscope run`, that is heard.
    """
    for event in refuted(context, _LOADED):
        yield refutation(
            context,
            event,
            consequence="the network keeps the weights that it was made with, and strict=False hides it",
            advice="make the names equal, as by removing a prefix such as 'module.', and leave strict=False out",
            metric="",
            severity="warning",
            confidence=0.95,
        )
    yield from _written(context, memory)
    yield from _written_between(context, memory)
    for event in context.events("resume_seam"):
        if event.data.get("is_declared") is not True:
            continue
        reasons = [*_parameters(event), *_rates(event), *_counts(event)]
        generators = words(event, "generators_changed")
        if reasons or generators:
            yield _report(context, event, reasons, generators)


def _written(context: StepContext, memory: _ResumeMismatchState) -> Iterator[Finding]:
    if context.table("update") is None or memory.is_reported:
        return
    beyond = {excess.site: excess for excess in context.beyond_adam}
    is_lasting = not memory.before.keys().isdisjoint(beyond)  # then the optimizer's own state is wrong
    if is_lasting or context.broken_state:
        memory.quiet_until = context.step + _QUIET
    once, step = {} if is_lasting else memory.before, memory.since
    if (
        not memory.before
        and len(beyond) >= _TOGETHER
        and all(context.keeps_its_state(excess) for excess in beyond.values())
    ):
        once, step = beyond, context.step  # which its state, that is as it should be, rules out at once
    memory.before, memory.since = (
        {site: excess for site, excess in beyond.items() if site not in memory.before},
        context.step,
    )
    if len(once) < _TOGETHER or context.step < memory.quiet_until:
        return
    memory.is_reported = True
    known = tuple(context.model.parameters[site] for site in once if site in context.model.parameters)
    largest = max(once.values(), key=lambda excess: excess.ratio)
    yield context.finding(
        next(iter(context.model.gather(known)), largest.site),
        "update/max",
        {"parameters": len(once), "update_over_rate": largest.ratio, "bound": largest.bound, "rate": largest.rate},
        first_step=step,
        position=0,
        explanation=f"in step {step}, {len(once)} parameters moved farther than their gradients can move them, for "
        f"the first time; an element of {largest.site} {largest.words}; something other than the optimizer has "
        "written them",
        advice="look for load_state_dict() or an initialisation in the middle of the run; load model, optimizer and "
        "schedule of the same step together, and strictly",
        confidence=0.9,
    )


def _written_between(context: StepContext, memory: _ResumeMismatchState) -> Iterator[Finding]:
    """Yield a finding where a part of the model is written anew between two steps, and the loss is worse for it."""
    loss, before = context.scalar("loss"), memory.loss
    if loss is not None:
        memory.loss = loss
    for event in context.events("weights_written"):
        is_first, memory.has_written = not memory.has_written, True
        weights, count = items(event, "weights"), number(event, "parameters")
        large = [str(each["site"]) for each in weights if _is_made_anew(each)]
        if not is_first or memory.is_reported or event.step < _MIDST or not _TOGETHER <= len(large) <= count:
            continue
        if loss is None or not loss > _WORSE * before > 0.0 or context.has_a_surrogate_loss:
            continue
        memory.is_reported = True
        known = tuple(context.model.parameters[site] for site in large if site in context.model.parameters)
        yield context.finding(
            next(iter(context.model.gather(known)), large[0]),
            "weight/l2_norm",
            {"parameters": count, "of": number(event, "of"), "loss": loss, "loss_before": before},
            position=0,
            explanation=f"between steps {event.step - 1} and {event.step} something that is no optimizer step wrote "
            f"{count:.0f} of {number(event, 'of'):.0f} parameters anew, among them {large[0]}; the loss went from "
            f"{before:.4g} to {loss:.4g}",
            advice="look for load_state_dict() or an initialisation in the middle of the run; load model, optimizer "
            "and schedule of the same step together, and strictly",
            confidence=0.8,
        )


def _is_made_anew(weight: Mapping[str, Json]) -> bool:
    return as_number(weight.get("change")) > _ANEW * as_number(weight.get("norm"))


def _parameters(event: Event) -> Iterator[str]:
    if event.data.get("is_same_parameters") is False:
        changed = words(event, "changed")
        yield f"its parameters differ from the saved ones ({', '.join(changed[:3]) or 'all of them'})"


def _rates(event: Event) -> Iterator[str]:
    pairs = zip(numbers(event, "learning_rates_before"), numbers(event, "learning_rates"), strict=False)
    for before, after in pairs:
        if before > 0 and after > 0 and not 1 / _RATE < after / before < _RATE:
            yield f"the learning rate was {before:.4g} and is now {after:.4g}"
            return


def _counts(event: Event) -> Iterator[str]:
    pairs = zip(numbers(event, "counts_before"), numbers(event, "counts"), strict=False)
    for before, after in pairs:
        if isfinite(before) and isfinite(after) and after < before:
            yield f"its optimizer counts {after:.0f} steps instead of {before:.0f}: the state was not loaded"
            return


def _report(context: StepContext, event: Event, reasons: list[str], generators: list[str]) -> Finding:
    changed = words(event, "changed")
    what = reasons or [f"the random generators {', '.join(generators[:4])} start from new states"]
    return context.finding(
        changed[0] if changed and reasons else ROOT_SITE,
        "",
        {
            "resumed_step": number(event, "step"),
            "parameters_changed": len(changed),
            "differences": len(reasons),
            "generators_changed": len(generators),
        },
        severity="error" if reasons else "info",
        first_step=event.step,
        position=0,
        explanation=f"this run resumes {str(event.data.get('run'))!r} from step {number(event, 'step'):.0f}, but "
        + "; ".join(what),
        advice="save and load model, optimizer, schedule, scaler and generators together; load them before the "
        "first forward, and strictly: load_state_dict(strict=True)",
    )
