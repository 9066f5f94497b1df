"""A learning rate that breaks with its own schedule."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from math import cos, isfinite, pi

from ...storage import ROOT_SITE, Event, Finding
from ..context.step_context import StepContext
from ..indicators.ended_schedules import ended_schedules
from ..indicators.lowered_findings import withdrawn
from ..indicators.slow_path import GUESSES, SlowPath
from ..indicators.stepped_warm_up import SteppedWarmUp
from ..recording import Recording, chain
from ..rule import CONFIGURATION, rule

_STEPS = range(120)
_COSINE = tuple(0.05 * (1 + cos(pi * step / 120)) for step in _STEPS)
_COLLAPSED, _LASTING = 1e-4, 50
#: Share of the highest rate below which nothing is trained at all, and share of the fall's length for which it has then
#: been collapsed: a cosine is that low for a hundredth of its length (our choice).
_LOST, _LONG = 1e-6, 0.25
#: Relative error of a doubled change; within it six changes are proof enough.
_EXACT = 1e-3
#: Records in a row with a rate of exactly zero after another rate; a curve that touches zero has one or two.
_ZERO = 8
#: Records in a row, from the first one on, whose rates are all zero. Our choice: a warm-up that counts from zero has
#: one, and a first epoch at zero trains nothing either.
_NEVER = 30
#: First losses that are kept (our choice): an epoch of so many steps can be told from the mean of its losses.
_FIRST_LOSSES = 4096


def _schedule(kind: str, **values: float | str) -> tuple[Event]:
    return (Event("schedule", 99, data={"type": kind, **values}),)


@dataclass(slots=True)
class _ScheduleErrorState:
    """The newest rates, their largest and steepest values, and what was reported."""

    rates: deque[float] = field(default_factory=lambda: deque(maxlen=6))
    seen: int = 0
    losses: list[float] = field(default_factory=list)
    highest: float = 0.0
    falls: int = 0
    last_fall: float = 0.0
    steepest: float = 0.0
    tiny: int = 0
    tiny_since: int = 0
    extra: list[int] = field(default_factory=list)
    alternates: int = 0
    reported: set[str] = field(default_factory=set)
    step: int = -1
    distance: int = 1
    never: Finding | None = None
    path: SlowPath = field(default_factory=SlowPath)
    warm_up: SteppedWarmUp = field(default_factory=SteppedWarmUp)

    def learn_step(self, step: int) -> None:
        """Begin the newest rates anew where records are thinned: changes over other distances cannot be compared."""
        distance, self.step = step - self.step, step
        if distance != self.distance:
            self.rates.clear()
            self.alternates, self.last_fall, self.distance = 0, 0.0, distance


@rule(
    "schedule-error",
    needs=("scalar/learning_rate",),
    triggers=("scalar/learning_rate", "event/schedule"),
    phase=CONFIGURATION,
    memory=_ScheduleErrorState,
    is_fact=True,
    fires_on=(
        Recording({"scalar/learning_rate": (0.1, 0.05, -0.01)}),
        # restarted halfway: the state of the schedule was lost on resume
        Recording({"scalar/learning_rate": (*_COSINE[:60], *_COSINE[:40])}),
        # stepped once a batch, and once more at the end of each epoch of 20
        Recording({"scalar/learning_rate": tuple(0.1 * 0.99 ** (step + step // 20) for step in _STEPS)}),
        # stepped by a callback, and every second time by the loop as well
        Recording({"scalar/learning_rate": tuple(_COSINE[(3 * step + 1) // 2] for step in range(70))}),
        # a warm-up that counts batches, stepped once an epoch of 50
        Recording(
            {
                "scalar/loss": 2.3,
                "scalar/target/entropy": 2.3,
                "scalar/learning_rate": tuple(1e-5 * (1 + step // 50) for step in range(170)),
                "one.weight update/ratio_to_weight": 1e-4,
            },
            chain("one:Dense"),
        ),
        # a warm-up whose division rounds to zero
        Recording({"scalar/learning_rate": 0.0}, steps=40),
        # it has come to its end
        Recording({"scalar/learning_rate": (0.1, 0.05, *(0.0,) * 9)}),
        # a decay meant for epochs, stepped every batch
        Recording({"scalar/learning_rate": tuple(0.1 * 0.93**step for step in range(200))}),
        Recording({"scalar/learning_rate": tuple(0.1 * 0.5**step for step in _STEPS)}),
        # a cosine that has come up again, and one that has hardly begun
        Recording(
            {"scalar/learning_rate": 0.1},
            steps=100,
            events=_schedule("CosineAnnealingLR", stepped=100, length=60, rate=0.07, peak=0.1, lowest=0.0),
        ),
        Recording(
            {"scalar/learning_rate": 0.1},
            steps=100,
            events=_schedule("CosineAnnealingLR", stepped=5, length=100, rate=0.0994, peak=0.1, lowest=0.0),
        ),
    ),
    silent_on=(
        # a warm-up that counts from zero; and the rate of the first of two groups
        Recording({"scalar/learning_rate": tuple(0.001 * step for step in range(40))}),
        Recording({"scalar/learning_rate": 0.0, "scalar/learning_rate/1": 0.1}, steps=40),
        # a warm-up over epochs, in which the model learns
        Recording(
            {
                "scalar/loss": tuple(2.3 - 0.01 * step for step in range(170)),
                "scalar/target/entropy": 2.3,
                "scalar/learning_rate": tuple(1e-3 * (1 + step // 50) for step in range(170)),
                "one.weight update/ratio_to_weight": 2e-3,
            },
            chain("one:Dense"),
        ),
        Recording({"scalar/learning_rate": 0.1}, steps=60),
        Recording(
            {"scalar/learning_rate": 0.1},
            steps=100,
            events=_schedule("CosineAnnealingLR", stepped=100, length=100, rate=0.0, peak=0.1, lowest=0.0),
        ),
        Recording({"scalar/learning_rate": tuple(min(1, (step + 1) / 20) * _COSINE[step] for step in _STEPS)}),
        # the rate of an optimizer that rests, in a phase that another one trains
        Recording(
            {"scalar/learning_rate": (0.1, 0.05, *(0.0,) * 9), "scalar/learner/stepped": (1.0,) * 2 + (2.0,) * 9}
        ),
        # warm restarts at the bottom of the curve, and steps down by ten
        Recording({"scalar/learning_rate": _COSINE + _COSINE}),
        Recording({"scalar/learning_rate": tuple(0.02 + rate for rate in _COSINE + _COSINE)}),
        Recording({"scalar/learning_rate": tuple(0.001 + 0.009 * abs(step % 8 - 4) / 4 for step in _STEPS)}),
        Recording({"scalar/learning_rate": (0.1,) * 40 + (0.01,) * 40 + (0.001,) * 40}),
        Recording({"scalar/learning_rate": tuple(0.1 * 0.9 ** (step // 10) for step in _STEPS)}),
    ),
)
def check(context: StepContext, memory: _ScheduleErrorState) -> Iterator[Finding]:
    """Report a learning rate that no intended schedule would produce.

    The rule fires when the rate is negative or not finite, is zero from the start for 30 records, restarts in the
    middle of its curve, changes twice as much at regular intervals, or ends far too early; and when it rises at
    intervals of ten steps or more while the model hardly learns, by the measure of `learning-rate-too-low`, as a
    warm-up does that is stepped once an epoch.

    An optimizer that rests while another one steps is left alone. Intended schedules stay silent: warm restarts begin
    at the bottom of the curve, where it is flat or below a tenth of its highest (Loshchilov and Hutter 2017,
    arXiv:1608.03983), and decay by steps is level between the steps. A rate below 1e-4 of its highest trains nothing;
    it has ended too early if it stays there for as long as the fall took, at least 50 steps, a quarter of that if it
    falls on below 1e-6, or at exactly zero for 8. A jump above the highest rate so far is judged by its effect on the
    loss. Step the schedule in one place only, and restore its state when resuming.

    When a PyTorch training ends, its schedules are asked how far they have come. One whose length is that of the
    training in steps, and that was stepped once an epoch, has done nothing yet; one whose last milestone came in the
    first twentieth of its steps counted batches for epochs; `ReduceLROnPlateau(mode="max")` must
    not be told the loss. A cosine that has risen again behind its `T_max`, and a warm-up that has hardly begun, are
    questions.
    """
    rate, loss = context.rate, context.scalar("loss")
    if loss is not None and len(memory.losses) < _FIRST_LOSSES:
        memory.losses.append(loss)
    memory.path.learn_loss(loss)
    memory.path.learn_guess(map(context.scalar, GUESSES))
    memory.path.learn_update(context.typical_update)
    yield from _at_the_end(context, memory, rate or 0.0)
    if rate is None or _is_at_rest(context):
        return
    if not isfinite(rate) or rate < 0:
        words = f"the learning rate is {rate}, but a rate must be finite and not negative"
        yield from _once(
            context, memory, "sign", {"learning_rate": rate}, words, "check the schedule's formula at this step"
        )
        return
    memory.learn_step(context.step)
    yield from _never_begun(context, memory, rate)
    yield from _hardly_begun(context, memory, rate)
    yield from _restart(context, memory, rate)
    if memory.rates.count(rate) == len(memory.rates):  # nothing changes
        memory.alternates = 0
    else:
        yield from _double_tick(context, memory, rate)
        yield from _alternating(context, memory, rate)
    yield from _ended(context, memory, rate)
    memory.last_fall = max(memory.rates[-1] - rate, 0.0) if memory.rates else 0.0
    memory.falls += memory.last_fall > 0
    memory.steepest = max(memory.steepest, memory.last_fall)
    memory.highest = max(memory.highest, rate)
    memory.rates.append(rate)
    memory.seen += 1


def _is_at_rest(context: StepContext) -> bool:
    """Return whether the first optimizer, whose rate this is, does not step: it may be that of a phase that is over."""
    stepped = context.scalar("learner/stepped")
    return stepped is not None and not int(stepped) & 1


def _never_begun(context: StepContext, memory: _ScheduleErrorState, rate: float) -> Iterator[Finding]:
    """Yield a finding for rates that are zero from the start, and withdraw it when one no longer is."""
    is_zero = rate == 0.0 and memory.highest == 0.0 and not context.scalar("learning_rate/1")
    if memory.never is not None and not is_zero:
        yield withdrawn(memory.never, context, f"the rate was zero until step {context.step}")
        memory.never = None
    if is_zero and memory.seen == _NEVER:
        words = f"the rate has been zero in all {_NEVER} records so far: no step has changed a weight"
        advice = (
            "look for a division that rounds to zero, as step // warmup, and for a warm-up that is stepped once an "
        )
        advice += "epoch; start at a small rate"
        for found in _once(context, memory, "never", {"learning_rate": 0.0}, words, advice, first_step=0):
            memory.never = found
            yield found


def _hardly_begun(context: StepContext, memory: _ScheduleErrorState, rate: float) -> Iterator[Finding]:
    """Yield a finding for a rate that rises once an epoch, if by now the model has hardly learned."""
    warm_up, path = memory.warm_up, memory.path
    warm_up.learn(context.step, rate)
    if not (warm_up.is_one and path.is_due() and path.is_near_guessing(context)) or context.has_a_surrogate_loss:
        return
    words = (
        f"the rate has risen {warm_up.rises} times, {warm_up.apart:.0f} steps apart or more, from {warm_up.first:.4g} "
        f"to {rate:.4g}; meanwhile the updates sum to {path.length:.2g} times the norm of the typical weight matrix, "
        f"and the loss, {path.losses.median():.4g}, is near that of guessing, {path.guess:.4g}"
    )
    evidence = {"learning_rate": rate, "first_rate": warm_up.first, "rises": warm_up.rises, "path": path.length}
    advice = "step a warm-up that counts batches after every step of the optimizer, not once an epoch"
    yield from _once(context, memory, "warm-up", evidence, words, advice, first_step=0)


def _at_the_end(context: StepContext, memory: _ScheduleErrorState, rate: float) -> Iterator[Finding]:
    for event in context.events("schedule"):
        highest, losses = max(memory.highest, rate), tuple(memory.losses)
        for found in ended_schedules(event, steps=event.step, highest=highest, first_losses=losses):
            if "warm-up" in memory.reported and not found.is_certain:
                continue  # the question would take the place of what is known
            yield context.finding(
                ROOT_SITE,
                "scalar/learning_rate",
                found.evidence,
                severity="warning" if found.is_certain else "info",
                first_step=0,
                position=0,
                explanation=found.words,
                advice=found.advice,
                confidence=0.9 if found.is_certain else 0.5,
            )


def _restart(context: StepContext, memory: _ScheduleErrorState, rate: float) -> Iterator[Finding]:
    before = memory.rates[-1] if memory.rates else rate
    back = rate > 1.5 * before and 0.9 * memory.highest <= rate <= 1.001 * memory.highest
    is_falling = memory.last_fall > 0.3 * memory.steepest
    if back and is_falling and memory.falls >= 10 and before > 0.1 * memory.highest:
        yield from _once(
            context,
            memory,
            "restart",
            {"learning_rate": rate, "rate_before": before, "highest_rate": memory.highest},
            f"the rate jumped from {before:.4g} back to {rate:.4g} in the middle of its decay",
            "restore the schedule's state together with the optimizer's when resuming; look for a second schedule "
            "object",
        )


def _double_tick(context: StepContext, memory: _ScheduleErrorState, rate: float) -> Iterator[Finding]:
    """Yield a finding for changes twice as large as their neighbours, at regular distances."""
    if len(memory.rates) < 6:
        return
    values = [*memory.rates, rate]
    changes = [later / earlier - 1 if earlier else 0.0 for earlier, later in pairwise(values)]
    middle, others = changes[3], changes[:3] + changes[4:]
    usual = sum(others) / len(others)
    alike = usual != 0 and all(abs(change - usual) < 0.1 * abs(usual) for change in others)
    if not alike or not 1.7 < middle / usual < 2.3:
        return
    memory.extra.append(context.step - 2)
    if len(memory.extra) < 3:
        return
    first, second, third = memory.extra[-3:]
    if second - first == third - second:
        yield from _once(
            context,
            memory,
            "double",
            {"period": third - second, "change": middle, "usual_change": usual},
            f"every {third - second} steps the rate changes twice as much as in the steps around it",
            "step the schedule once a batch or once an epoch, not both",
            first_step=memory.extra[0],
        )


def _alternating(context: StepContext, memory: _ScheduleErrorState, rate: float) -> Iterator[Finding]:
    """Yield a finding if every second change is twice as large as those between."""
    values = [*memory.rates, rate]
    changes = [later - earlier for earlier, later in pairwise(values)]
    even, odd = changes[::2], changes[1::2]
    is_full = len(values) == 7 and all(changes) and len({change > 0 for change in changes}) == 1
    alike = is_full and all(max(map(abs, group)) < 1.2 * min(map(abs, group)) for group in (even, odd))
    ratio = abs(sum(even) / sum(odd)) if alike else 1.0
    memory.alternates = memory.alternates + 1 if not 0.6 < ratio < 1.7 and 0.4 < ratio < 2.5 else 0
    is_exact = (
        alike and any(abs(ratio - multiple) < _EXACT for multiple in (0.5, 2.0)) and _is_level(even) and _is_level(odd)
    )
    if memory.alternates < 3 and not is_exact:
        return
    yield from _once(
        context,
        memory,
        "double",
        {"period": 2, "change": max(changes, key=abs), "usual_change": min(changes, key=abs)},
        "every second step the rate changes twice as much as in the steps between",
        "step the schedule in one place only; a callback and the loop both step it now",
        first_step=max(context.step - 8, 0),
    )


def _is_level(changes: list[float]) -> bool:
    return max(map(abs, changes)) - min(map(abs, changes)) <= _EXACT * max(map(abs, changes))


def _ended(context: StepContext, memory: _ScheduleErrorState, rate: float) -> Iterator[Finding]:
    if not rate < _COLLAPSED * memory.highest:
        memory.tiny = 0
        return
    memory.tiny_since = context.step if memory.tiny == 0 else memory.tiny_since
    memory.tiny += 1
    is_over = memory.tiny >= _ZERO and rate == 0 and set(memory.rates) == {0.0}
    fall = memory.seen - memory.tiny
    is_lost = 0.0 < rate < _LOST * memory.highest and memory.tiny >= max(_LASTING, _LONG * fall)
    if is_over or is_lost or memory.tiny >= max(_LASTING, fall):
        yield from _once(
            context,
            memory,
            "ended",
            {"learning_rate": rate, "highest_rate": memory.highest, "records": memory.tiny},
            f"the rate has been below {_COLLAPSED:g} of its highest, {memory.highest:.4g}, for {memory.tiny} records",
            "step a decay that is meant for epochs once an epoch, and set the schedule's length to that of the "
            "training",
            first_step=memory.tiny_since,
        )


def _once(
    context: StepContext,
    memory: _ScheduleErrorState,
    kind: str,
    evidence: dict[str, float],
    words: str,
    advice: str,
    first_step: int | None = None,
) -> Iterator[Finding]:
    if kind in memory.reported:
        return
    memory.reported.add(kind)
    yield context.finding(
        ROOT_SITE,
        "scalar/learning_rate",
        evidence,
        severity="error" if kind == "sign" else "warning",
        first_step=first_step,
        position=0,
        explanation=f"{f'at step {context.step}' if first_step is None else f'since step {first_step},'} {words}",
        advice=advice,
        confidence={"sign": 1.0, "never": 1.0, "double": 0.95}.get(kind, 0.8),
    )
