"""Gradients that add up over steps because they are never cleared."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import isfinite

from ...storage import ROOT_SITE, Event, Finding
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..recording import Recording, chain
from ..rule import CONFIGURATION, rule

_MODEL = chain("one:Dense", "two:Dense")
_IN_A_ROW = 3
#: Relative error within which the leftover is the gradient that the step before used.
_SAME = 1e-3


def _left(step: int) -> Event:
    return Event("gradient_before_forward", step, data={"parameters": 2, "l2_norm": 1.0})


def _mixed() -> Recording:
    told = Event("training_kind", 0, data={"name": "adversarial", "reasons": []})
    mixed = Event("gradient_of_another", 2, "one", data={"other": "two"})
    return Recording({"one.weight gradient/l2_norm": (0.5,) * 8}, _MODEL, events=(told, mixed))


@dataclass(slots=True)
class _MissingZeroGradState:
    """For how many steps in a row gradients were left over."""

    streak: int = 0
    since: int = 0
    last: int = -1
    norm_before: float = float("nan")
    last_norm: float = float("nan")
    step_before: int = -2
    is_reported: bool = False


def _skip_window(lookahead: Lookahead, memory: _MissingZeroGradState) -> SkipWindow | None:
    """Skip records while the last step left no gradients over."""
    norms = lookahead.norms("gradient") if lookahead.carries("gradient") else [float("nan")] * len(lookahead)
    if memory.is_reported or norms is None or memory.streak > 0:
        return lookahead.whole if memory.is_reported else None

    def learn(records: int) -> None:
        known = [norm for norm in norms[:records] if isfinite(norm)]
        memory.norm_before = known[-1] if known else memory.norm_before
        memory.last_norm, memory.step_before = norms[records - 1], lookahead.records[records - 1].step

    return SkipWindow(len(lookahead), learn)


@rule(
    "missing-zero-grad",
    needs=("structure",),
    phase=CONFIGURATION,
    skip_window=_skip_window,
    memory=_MissingZeroGradState,
    warm_up=_IN_A_ROW,
    is_fact=True,
    fires_on=(
        Recording({"one.weight gradient/l2_norm": (0.5,) * 8}, _MODEL, events=tuple(map(_left, range(3, 8)))),
        # exactly what the step before has used
        Recording({"one.weight gradient/l2_norm": (1.0,) * 5}, _MODEL, events=(_left(4),)),
        # a generator whose gradients hold those of the critic's pass
        _mixed(),
    ),
    asks="intent",
    silent_on=(
        Recording({"one.weight gradient/l2_norm": (1.0,) * 8}, _MODEL),
        # a pass of its own, once: a penalty, a probe of the gradient, whose norm is another
        Recording({"one.weight gradient/l2_norm": (0.5,) * 8}, _MODEL, events=(_left(4),)),
    ),
)
def check(context: StepContext, memory: _MissingZeroGradState) -> Iterator[Finding]:
    """Report gradients that are never cleared between steps.

    The rule fires when, in three steps in a row, the gradients of the step before were still there when backward added
    new ones. The probe reports this only if no accumulation over micro-batches is declared, so it is a fact and needs
    no threshold. Three in a row allow a single backward pass outside the loop. If the leftover has exactly the norm
    that the step before used, one step is proof. Without an optimizer, the program may keep gradients on purpose: there
    the leftover must have that norm in three steps in a row. Call `optimizer.zero_grad()` once a step, before
    `backward()`.

    Of several optimizers, one may step by the gradients of another's pass as well, which its own pass was added to. In
    a game of two networks these pull against each other, and the rule reports it; elsewhere a shared part may be meant
    to follow both, and it is a question.
    """
    yield from map(partial(_of_another, context), context.events("gradient_of_another"))
    if memory.is_reported:
        return
    norm = _norm(context)
    is_by_hand = not context.model.structure.optimizers
    outside = 0 if is_by_hand else context.model.outside
    events = [event for event in context.events("gradient_before_forward") if _count(event) > outside]
    if not events:
        is_next = (
            memory.streak > 0 and context.step <= memory.last + 1
        )  # another micro-step, or a step not yet complete
        memory.norm_before = norm if isfinite(norm) and not is_next else memory.norm_before
        memory.last_norm, memory.step_before = norm, context.step
        return
    norm_left = events[-1].data.get("l2_norm")
    left = float(norm_left) if isinstance(norm_left, int | float) else float("nan")
    is_whole = memory.step_before == context.step - 1 and abs(left - memory.last_norm) <= _SAME * memory.last_norm
    if is_by_hand and not is_whole:  # kept on purpose, perhaps: as momentum, or of weights that do not move
        memory.streak, memory.last_norm, memory.step_before = 0, norm, context.step
        return
    memory.streak = memory.streak + 1 if events[0].step == memory.last + 1 else 1
    memory.last = events[0].step
    memory.since = memory.last if memory.streak == 1 else memory.since
    memory.last_norm, memory.step_before = norm, context.step
    if memory.streak < _IN_A_ROW and (is_by_hand or not is_whole):
        return
    memory.is_reported = True
    yield context.finding(
        ROOT_SITE,
        "gradient/l2_norm",
        {
            "left_over_norm": left,
            "parameters": _count(events[-1]),
            "norm_now": norm,
            "norm_before": memory.norm_before,
            "steps_in_a_row": memory.streak,
        },
        first_step=memory.since,
        explanation=f"since step {memory.since} every step begins with the gradients of the step before (norm "
        f"{left:.4g}), and backward() adds to them; each step follows the sum of all gradients so far",
        advice=f"{_remedy(is_by_hand)}; if this is accumulation over micro-batches, declare it with "
        "accumulation_steps in the monitor's configuration",
    )


def _of_another(context: StepContext, event: Event) -> Finding:
    """Return the finding of an optimizer that uses what another learner's backward pass has left."""
    mine, other = event.site, event.data.get("other")
    is_game = context.kind.name == "adversarial"
    return context.finding(
        mine if context.model.order(mine) >= 0 else ROOT_SITE,
        "gradient/l2_norm",
        {"steps_in_a_row": 3.0},
        first_step=max(0, event.step - 2),
        explanation=f"{mine} is stepped by the gradients of two backward passes: that by which {other} has stepped "
        f"before, and its own, which was added to it"
        + ("; the two pull it in opposite directions" if is_game else "; is that meant?"),
        advice=f"clear the gradients of {mine} right before its own backward(), or detach what the loss of {other} "
        f"gets from it",
        severity="warning" if is_game else "info",
        confidence=0.95 if is_game else 0.5,
    )


def _remedy(is_by_hand: bool) -> str:
    if is_by_hand:
        return "set .grad = None of every weight once a step, after its update"
    return "call optimizer.zero_grad() once a step, before backward()"


def _count(event: Event) -> float:
    """Return how many parameters still had a gradient."""
    count = event.data.get("parameters")
    return float(count) if isinstance(count, int | float) else float("inf")


def _norm(context: StepContext) -> float:
    table = context.table("gradient")
    return float("nan") if table is None else table.norm
