"""Optimizer state that does not fit the parameters or the steps."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from ...storage import ROOT_SITE, Event, Finding, Json, OptimizerInfo, Structure
from ..context.model_index import ModelIndex
from ..context.optimizer_state import ADAMS, betas_of, is_bit_flip
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..event_fields import NAN, items, number, words
from ..indicators.drowned_moment import APART, LOOKS, MOST_LOOKS, drowned_moment
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule
from ..running_statistics import Streak

#: Position in the phase: the state was wrong before the step that it makes too large.
_BEFORE = -1


def _adam() -> Structure:
    groups: Mapping[str, Json] = {"lr": 0.001, "betas": [0.9, 0.999], "weight_decay": 0.0}
    return replace(chain("one:Dense", "two:Dense"), optimizers=(OptimizerInfo("Adam", (groups,)),))


def _moved(*by: float) -> dict[str, float | tuple[float, ...]]:
    return {
        "one.weight update/max": by,
        "one.weight update/min": tuple(-0.5 * value for value in by),
        "one.weight weight/max": 1.0,
        "one.weight weight/min": -1.0,
        "scalar/learning_rate": 0.001,
    }


def _squared(*means: float) -> Recording:
    """Return the means of a second moment under constant gradients."""
    series: dict[str, float | tuple[float, ...]] = {
        "one.weight optimizer/exp_avg_sq/mean": means,
        "one.weight optimizer/exp_avg_sq/l2_norm": tuple(8 * value for value in means),
        "one.weight optimizer/exp_avg_sq/max": means,
        "one.weight optimizer/exp_avg_sq/min": 0.0,
        "one.weight gradient/l2_norm": 4.0,
        "one.weight update/max": 0.0005,
        "one.weight update/min": 0.0,
        "one.weight weight/max": 1.0,
        "scalar/learning_rate": 0.001,
    }
    return Recording(series, _adam())


def _drowned(epsilon: float, ratio: float) -> Recording:
    """Return second moments of 1e-6 beside an epsilon, with steps of that size."""
    groups: Mapping[str, Json] = {"lr": 0.001, "betas": [0.9, 0.999], "eps": epsilon}
    structure = replace(chain("one:Dense", "two:Dense"), optimizers=(OptimizerInfo("Adam", (groups,)),))
    series: dict[str, float | tuple[float, ...]] = {}
    for site in ("one.weight", "two.weight"):
        series |= {f"{site} optimizer/exp_avg_sq/mean": 1e-6, f"{site} update/ratio_to_weight": (ratio,) * 60}
    return Recording(series, structure)


def _averaging(first: float, second: float) -> Recording:
    groups: Mapping[str, Json] = {"lr": 0.001, "betas": [first, second]}
    return Recording(_moved(0.001), replace(_adam(), optimizers=(OptimizerInfo("Adam", (groups,)),)))


def _changed(before: str) -> Event:
    return Event("optimizer_changed", 0, data={"optimizer_kind": "Adam", "before": [before]})


_LOST = Event("optimizer_state_lost", 0, data={"optimizer": 0, "count": 0, "count_before": 30})
_TAKEN_OVER = Event(
    "optimizer_state_lost", 0, data={"optimizer": 0, "count": 15, "count_before": 800, "is_another": True}
)
#: Adam's second moments of 64 squares of 0.25.
_KEPT = tuple(0.25 * (1 - 0.999 ** (step + 1)) for step in range(10))


#: Factor of the rate from which a step, at which all state starts from nothing, begins a new stage. Our choice.
_NEW_RATE = 1.5


@dataclass(slots=True)
class _StaleOptimizerState:
    """The parameters beyond the bound in the record before, since when, and which were reported."""

    before: dict[str, int] = field(default_factory=dict)
    reported: set[str] = field(default_factory=set)
    rate: float = NAN
    written: tuple[int, frozenset[str]] = (-1, frozenset())
    drowned: Streak = field(default_factory=Streak)
    looks: int = 0
    checked: ModelIndex | None = None
    next_look: int = 0


def _skip_window(lookahead: Lookahead, memory: _StaleOptimizerState) -> SkipWindow | None:
    def learn(records: int) -> None:
        memory.rate = [memory.rate, *lookahead.known("learning_rate", records)][-1]

    window = None if memory.before else lookahead.within_bounds(learn)
    if window is None or memory.looks >= MOST_LOOKS:
        return window
    before = sum(record.step < memory.next_look for record in lookahead.records)
    return SkipWindow(min(window.records, before), learn)


@rule(
    "optimizer-state-stale",
    needs=("update",),
    phase=OPTIMIZER,
    skip_window=_skip_window,
    memory=_StaleOptimizerState,
    is_fact=True,
    fires_on=(
        # an old second moment is put back between two steps
        _squared(*_KEPT[:8], 0.4 * _KEPT[8]),
        Recording(_moved(0.001, 0.001, 0.02, 0.018), _adam()),
        Recording(_moved(0.001), _adam(), events=(_LOST,)),
        # the optimizer was made anew
        Recording(_moved(0.001), _adam(), events=(_changed("Adam"), _LOST)),
        _drowned(1.0, 1e-6),
        # the first moment averages longer than the second
        _averaging(0.999, 0.9),
    ),
    silent_on=(
        *(_averaging(*betas) for betas in ((0.0, 0.99), (0.5, 0.9), (0.9, 0.95), (0.9, 0.9), (0.99, 0.99))),
        # the rate is as large as such an epsilon asks for; and an epsilon that is small beside the moments
        _drowned(1.0, 1e-3),
        _drowned(1e-3, 1e-6),
        Recording(_moved(0.001, 0.001, 0.0009), _adam()),
        # it follows from what was; and it never did, for something that is not recorded changes the gradient
        _squared(*_KEPT),
        _squared(*(1.3 * value for value in _KEPT[:8]), 0.4 * _KEPT[8]),
        # written by somebody else, once
        Recording(_moved(0.001, 0.001, 0.5, 0.0009), _adam()),
        # the rate has grown, and the updates with it
        Recording(_moved(0.001, 0.009) | {"scalar/learning_rate": (0.001, 0.01)}, _adam()),
        # one of another kind has nothing to go on with
        Recording(_moved(0.001), _adam(), events=(_changed("SGD"), _LOST)),
        # another one took its place some steps ago, which thinned records do not hold
        Recording(_moved(0.001), _adam(), events=(_TAKEN_OVER,)),
        # plain gradient descent has no bound
        Recording(_moved(0.001, 0.02), chain("one:Dense", "two:Dense")),
    ),
)
def check(context: StepContext, memory: _StaleOptimizerState) -> Iterator[Finding]:
    """Report optimizer state that does not fit the parameters.

    By the inequality of Cauchy and Schwarz no gradients can make |update| / rate of Adam larger than `(1 - b1) / (1 -
    b1^t) * sqrt((1 - b2^t) / (1 - b2) * (1 - q^t) / (1 - q))` with `q = b1^2 / b2`: 1 in the first step, 7.3 in the
    long run for (0.9, 0.999); Kingma and Ba 2015, arXiv:1412.6980, section 2.1, give 3.2 for a gradient that comes
    once. The rule fires when updates exceed twice that bound in two steps in a row: first and second moment do not
    belong together, since one was lost, loaded from elsewhere, or not updated. The bound allows for weight decay and
    rounding. A single such move was written by someone else than the optimizer and is left to other rules.

    The state itself has a recurrence: the mean of the second moment is beta2 times the one before plus (1 - beta2)
    times the mean squared gradient, and momentum likewise. If it held for five steps and breaks in this one, and
    neither a changed option nor scaled gradients explain it, the state was replaced between the steps. The rule also
    fires when the optimizer's own step count goes back.

    Where all of it starts from nothing in the very step in which the rate is set anew, or in which the weights of just
    these parameters were made anew, a new stage begins, and the finding only asks. If a new optimizer took the place of
    the watched one, with the state of a first step, the finding is a warning: it may be meant. Save and load model and
    optimizer state together.

    From the start: epsilon is ten times the root of the typical second moment or more, and above all of them, in four
    looks in a row, and the typical step is below 5e-4 of its weight. Then the second moment scales nothing. Or the
    betas break what the proof of Adam asks for, b1^2 < sqrt(b2) (theorem 4.1): the second moment forgets too soon.
    """
    if memory.checked is not context.model:
        memory.checked = context.model
        yield from _short_memory(context, memory)
    if memory.looks < MOST_LOOKS and context.step >= memory.next_look:
        memory.looks, memory.next_look = memory.looks + 1, context.step + APART
        yield from _drowning(context, memory)
    anew = list(_made_anew(context))
    lost = list(_lost(context))
    yield from (*anew, *lost)
    if not anew:
        yield from _broken(context, memory, is_reported=bool(lost))
    beyond = {excess.site: excess for excess in context.beyond_adam if excess.is_of_adam}
    if context.table("update") is None:
        return
    lasting = [excess for site, excess in beyond.items() if site in memory.before and site not in memory.reported]
    memory.reported.update(excess.site for excess in lasting)
    for excess in lasting[:1]:
        others = f" (and {len(lasting) - 1} more parameters like it)" if len(lasting) > 1 else ""
        yield context.finding(
            excess.site,
            "update/max",
            {"update_over_rate": excess.ratio, "bound": excess.bound, "rate": excess.rate, "parameters": len(lasting)},
            first_step=memory.before[excess.site],
            position=_BEFORE,
            explanation=f"an element of {excess.site}{others} moved {excess.ratio:.3g} times the rate, and as far in "
            f"the step before; no gradients can make Adam move more than {excess.bound:.3g} times the rate, so its "
            "two moments do not belong together",
            advice="look for state that was loaded in part, reset, or kept while the parameters were replaced; save "
            "and load the whole optimizer.state_dict(), or make the optimizer anew",
        )
    memory.before = {site: memory.before.get(site, context.step) for site in beyond}


def _short_memory(context: StepContext, memory: _StaleOptimizerState) -> Iterator[Finding]:
    """Yield a finding for betas with which the second moment does not bound the first."""
    for optimizer in context.model.structure.optimizers if "betas" not in memory.reported else ():
        for group in optimizer.groups:
            first, second = betas_of(group)
            if optimizer.kind.lower() not in ADAMS or not (1.0 > first >= second**0.25 > 0.0):
                continue
            memory.reported.add("betas")
            yield context.finding(
                ROOT_SITE,
                "update/l2_norm",
                {"beta1": first, "beta2": second, "ratio": first**2 / second**0.5},
                severity="warning",
                position=_BEFORE,
                explanation=f"{optimizer.kind} has betas=({first:g}, {second:g}): its first moment averages "
                f"{1 / (1 - first):.3g} steps, and the second, which is to bound it, {1 / (1 - second):.3g}; beta1^2 "
                f"over the root of beta2 is {first**2 / second**0.5:.3g}, and must be below 1",
                advice="exchange the two if they are the wrong way round; usual are (0.9, 0.999), and (0.9, 0.95) for "
                "language models",
            )
            return


def _drowning(context: StepContext, memory: _StaleOptimizerState) -> Iterator[Finding]:
    """Yield a finding for an epsilon that takes the place of the second moments."""
    found = drowned_moment(context)
    if memory.drowned.update(found is not None, context.step) != LOOKS or found is None:
        return
    memory.looks = MOST_LOOKS
    yield context.finding(
        ROOT_SITE,
        "optimizer/exp_avg_sq/mean",
        {
            "epsilon": found.epsilon,
            "typical_root": found.root,
            "update_over_weight": found.ratio,
            "matrices": found.matrices,
        },
        severity="warning",
        first_step=memory.drowned.since,
        position=_BEFORE,
        explanation=f"the optimizer adds an epsilon of {found.epsilon:.3g} to the roots of its second moments, and the "
        f"typical one of these, of {found.matrices} matrices, is {found.root:.2g}; so they scale nothing: each step is "
        f"the gradient times the rate over {found.epsilon:.3g}, and moves the typical matrix by {found.ratio:.1g} of "
        "its norm",
        advice="set eps to its default, 1e-8; if a large one is meant, raise the rate to match",
    )


def _broken(context: StepContext, memory: _StaleOptimizerState, *, is_reported: bool) -> Iterator[Finding]:
    """Yield a finding for replaced state; a single element of a single parameter is left to another rule."""
    for event in context.events("weights_written"):
        memory.written = context.step, frozenset(str(each["site"]) for each in items(event, "weights"))
    rate, before = context.rate, memory.rate
    memory.rate = before if rate is None else rate
    is_new_rate = rate is not None and not 1 / _NEW_RATE < rate / before < _NEW_RATE if before > 0 else False
    broken = [fault for fault in context.broken_state if fault.site not in memory.reported]
    if is_reported or not broken or is_bit_flip(broken):
        memory.reported.update(fault.site for fault in broken)
        return
    memory.reported.update(fault.site for fault in broken)
    worst = max(broken, key=lambda fault: abs(fault.value - fault.expected) / max(abs(fault.expected), 1e-300))
    known = tuple(context.model.parameters[fault.site] for fault in broken if fault.site in context.model.parameters)
    site = "" if len(broken) > 1 and len(known) == len(context.model.parameters) else worst.site
    others = f" and of {len(broken) - 1} more parameters" if len(broken) > 1 else ""
    at, written = memory.written
    has_new_weights = context.step - at <= 1 and {fault.site for fault in broken} <= written
    is_restart = (is_new_rate or has_new_weights) and all(fault.is_of_a_first_step for fault in broken)
    yield context.finding(
        site,
        f"optimizer/{worst.slot}/mean",
        {"mean": worst.value, "expected": worst.expected, "parameters": len(broken)},
        severity="info" if is_restart else "error",
        position=_BEFORE,
        explanation=f"the {worst.slot} of {worst.site}{others} has a mean of {worst.value:.4g} after step "
        f"{context.step}, but the state before and this step's gradient give {worst.expected:.4g}; something other "
        "than the optimizer wrote its state between the two steps",
        advice="look for load_state_dict() on the optimizer inside the loop, state that is cleared, scaled or "
        "copied, and a second optimizer or process that shares it; load model and optimizer of the same step",
    )


def _made_anew(context: StepContext) -> Iterator[Finding]:
    """Yield a warning for state that starts from nothing because the optimizer is new."""
    for event in context.events("optimizer_changed")[:1]:
        kind, before, broken = event.data.get("optimizer_kind"), words(event, "before"), context.broken_state
        lost = context.events("optimizer_state_lost")
        counts = [number(event_lost, "count_before") for event_lost in lost if number(event_lost, "count") == 0]
        if not (counts and kind in before) and not (broken and all(fault.is_of_a_first_step for fault in broken)):
            continue
        after = f", after {counts[0]:.0f} steps" if counts else ""
        yield context.finding(
            "",
            "update/l2_norm",
            {"count": 0.0, "count_before": counts[0]} if counts else {"parameters": len(broken)},
            severity="info",
            first_step=event.step,
            position=_BEFORE,
            explanation=f"the optimizer was made anew at step {event.step}: {kind} in the place of "
            f"{', '.join(before)}{after}; its state started from nothing; is that meant?",
            advice="to continue the training, make the optimizer once, before the loop, or load the state_dict() of "
            "the one before; if a new beginning is meant, as for a new stage or task, do nothing",
            confidence=0.5,
        )


def _lost(context: StepContext) -> Iterator[Finding]:
    is_another = bool(context.events("optimizer_changed"))
    for event in context.events("optimizer_state_lost"):
        if event.data.get("is_another") or (is_another and number(event, "count") == 0):
            continue  # it has not gone back: another one counts
        numbers = {name: float(v) for name in ("count", "count_before") if isinstance(v := event.data.get(name), int)}
        yield context.finding(
            "",
            "update/l2_norm",
            numbers or {"count": 0.0},
            first_step=event.step,
            position=_BEFORE,
            explanation=f"at step {event.step} the optimizer counts fewer steps than before; its state was lost, or "
            "replaced by an older one, in the middle of the run",
            advice="look for optimizer.state being cleared, or load_state_dict() of an old checkpoint inside the loop",
        )
