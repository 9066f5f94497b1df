"""Weights that stand still although gradients reach them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...storage import ROOT_SITE, Event, Finding
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table, some
from ..event_fields import number, texts
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule
from ..running_statistics import Floats, Mask, Streak, Streaks, count_before_first

_MODEL = chain("one:Dense", "two:Dense")
_LASTING = 5
#: Share of the largest gradient so far below which a matrix may stand still: the root of float32's rounding. There a
#: loss is flat to its last digit, and an optimizer that compares losses has converged.
_ARRIVED = 3.5e-4


_MOVES: dict[str, float | tuple[float, ...]] = {
    "one.weight gradient/l2_norm": (1.0,) * 8,
    "one.weight weight/mean": tuple(0.1 + 0.001 * (-1) ** at for at in range(8)),
    "one.weight update/l2_norm": 0.01,
}


def _checksums(kind: str, step: int, value: str) -> Event:
    return Event(kind, step, data={"parameters": {"one.weight": value, "two.weight": "c"}})


@dataclass(slots=True)
class _MissingOptimizerStepState:
    """The weights' last statistics, for how long each has stood still, and the first checksums."""

    before: NDArray[np.float64] | None = None
    streaks: Streaks = field(default_factory=Streaks)
    cleared: Streak = field(default_factory=Streak)
    emptied: Streak = field(default_factory=Streak)
    first: Mapping[str, str] = field(default_factory=dict)
    largest: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    moved: int = 0
    is_reported: bool = False


def _skip_window(lookahead: Lookahead, memory: _MissingOptimizerStepState) -> SkipWindow | None:
    """Skip records while a gradient reaches every parameter and every parameter moves."""
    gradient, weight, update = (lookahead.context.table(name) for name in ("gradient", "weight", "update"))
    flows, moves = lookahead.columns("gradient", "l2_norm"), lookahead.columns("update", "l2_norm")
    if memory.is_reported:
        return lookahead.whole
    if memory.streaks.are_running or memory.cleared.length or gradient is None or weight is None or update is None:
        return None
    values = weight.stacked
    if flows is None or moves is None or values is None:
        return None
    if not weight.rows.are(update.rows) or not weight.rows.are(gradient.rows):
        return None
    stops = ~(flows.min(axis=1) > 0) | (moves == 0).any(axis=1)
    stops |= np.array([rate == 0 for rate in lookahead.scalars("learning_rate")])

    def learn(records: int) -> None:
        memory.moved += int((moves[:records] > 0).any(axis=1).sum())
        memory.before = values.values[weight.index + records - 1]
        for norm in flows[:records]:
            _has_arrived(norm, memory)

    return SkipWindow(min(lookahead.finite("gradient"), count_before_first(stops)), learn)


@rule(
    "missing-optimizer-step",
    needs=("record", "gradient", "weight"),
    phase=OPTIMIZER,
    skip_window=_skip_window,
    memory=_MissingOptimizerStepState,
    warm_up=_LASTING + 1,
    is_fact=True,
    fires_on=(
        Recording(
            {
                "one.weight gradient/l2_norm": (1.0,) * 8,
                "one.weight weight/mean": 0.1,
                "one.weight update/l2_norm": 0.0,
            },
            _MODEL,
        ),
        Recording({"one.weight gradient/l2_norm": (1.0,) * 8, "one.weight weight/mean": 0.1}, _MODEL),
        # not a single step
        Recording(structure=_MODEL, events=(Event("no_step", 0, data={"passes": 20}),)),
        # put back by somebody
        Recording(_MOVES, _MODEL, events=(_checksums("initial_checksum", 0, "a"), _checksums("resume_point", 7, "a"))),
        # removed between backward and step
        Recording(
            {"one activation_grad/l2_norm": (0.5,) * 8, "one.weight update/l2_norm": 0.0, "one.weight weight/std": 0.1},
            _MODEL,
        ),
        # cleared between backward and step
        Recording(
            {
                "one activation_grad/l2_norm": (1.0,) * 8,
                "one.weight gradient/l2_norm": 0.0,
                "one.weight weight/mean": 0.1,
            },
            _MODEL,
        ),
    ),
    silent_on=(
        # trained; and nothing was trained yet
        Recording(_MOVES, _MODEL, events=(_checksums("initial_checksum", 0, "a"), _checksums("resume_point", 7, "b"))),
        Recording(_MOVES, _MODEL, events=(_checksums("initial_checksum", 0, "a"), _checksums("resume_point", 2, "a"))),
        # nothing comes back from the loss: no gradient is lost
        Recording(
            {
                "one activation_grad/l2_norm": (0.0,) * 8,
                "one.weight gradient/l2_norm": 0.0,
                "one.weight weight/mean": 0.1,
            },
            _MODEL,
        ),
        Recording(
            {"one.weight gradient/l2_norm": (1.0,) * 8, "one.weight weight/mean": tuple(0.1 * at for at in range(8))},
            _MODEL,
        ),
        Recording(
            {
                "one.weight gradient/l2_norm": (1.0,) * 8,
                "one.weight weight/mean": 0.1,
                "one.weight update/l2_norm": 1e-9,
            },
            _MODEL,
        ),
        Recording(
            {"one.weight gradient/l2_norm": (1.0,) * 8, "one.weight weight/mean": 0.1, "scalar/learning_rate": 0.0},
            _MODEL,
        ),
        # frozen for a later phase, with the gradients that the earlier one has left
        Recording(
            {
                "one.weight gradient/l2_norm": (1.0,) * 8,
                "one.weight weight/mean": 0.1,
                "one.weight update/l2_norm": 0.0,
                "two.weight gradient/l2_norm": 0.0,
                "two.weight weight/mean": 0.1,
                "two.weight update/l2_norm": 0.1,
            },
            chain("one:Dense", "two:Dense", frozen=["one.weight"], not_stepped=["one.weight"]),
        ),
        # a line search that has arrived
        Recording(
            {
                "one.weight gradient/l2_norm": (1.0, 0.1, 0.01, *(1e-5,) * 8),
                "one.weight weight/mean": (0.1, 0.2, 0.3, *(0.3,) * 8),
                "one.weight update/l2_norm": (1.0, 0.1, 0.01, *(0.0,) * 8),
            },
            _MODEL,
        ),
    ),
)
def check(context: StepContext, memory: _MissingOptimizerStepState) -> Iterator[Finding]:
    """Report weights that do not change although gradients reach them.

    The rule fires when no weight matrix has changed for 5 records although finite gradients reached them and the rate
    is not zero. An update of exactly zero is the fact. If updates are not recorded, weights whose statistics all stay
    equal to the last bit count as well, with less confidence: in float16 and bfloat16, updates smaller than half of the
    last digit change nothing either. Skipped steps do not count, nor do matrices whose gradient has fallen to the
    rounding of float32.

    Three more cases: twenty backward passes and no step at all; gradients reach every output but are zero, or gone, at
    every parameter when the optimizer steps, so they were cleared in between; and weights that are equal to the first
    ones at the end, to the last bit, although five steps or more moved them, so they were put back.

    Call `optimizer.step()` after `backward()`, and `zero_grad()` not between the two.
    """
    if memory.is_reported:
        return
    gradient, weight = context.table("gradient"), context.table("weight")
    yield from _never(context, memory)
    yield from _put_back(context, memory)
    yield from _emptied(context, memory, gradient)
    if memory.is_reported or context.record.skipped or gradient is None or weight is None or context.rate == 0:
        return
    yield from _cleared(context, memory, gradient)
    update = context.table("update")
    still = _standing(weight, update, memory)
    memory.before = weight.values
    driven = _driven(context, gradient, weight) & ~_has_arrived(
        gradient.at(weight.rows, gradient.column("l2_norm")), memory
    )
    stuck = still & driven
    lengths = memory.streaks.update(stuck, driven, context.step)[: len(driven)]
    if not memory.is_reported and some(stuck) and (lengths[driven] >= _LASTING).all():
        memory.is_reported = True
        yield context.finding(
            ROOT_SITE,
            "update/l2_norm" if update is not None else "weight/l2_norm",
            {"parameters": int(driven.sum()), "records": int(lengths[driven].min())},
            first_step=int(memory.streaks.since[: len(driven)][driven].min()),
            position=0,
            explanation=f"gradients reach {int(driven.sum())} weight matrices, but none of them has changed for "
            f"{int(lengths[driven].min())} records",
            advice="call optimizer.step() after backward(), on the optimizer that holds these parameters, and on "
            "every branch; with a gradient scaler call scaler.step(optimizer); in half precision keep float32 "
            "master weights",
            confidence=1.0 if update is not None else 0.7,
        )


def _emptied(context: StepContext, memory: _MissingOptimizerStepState, gradient: Table | None) -> Iterator[Finding]:
    """Yield a finding if gradients reach every output, no parameter has one, and every update is zero."""
    arrives, update = context.table("activation_grad"), context.table("update")
    if gradient is not None or context.record.skipped:
        memory.emptied.update(False, context.step)
        return
    if memory.is_reported or arrives is None or update is None or context.rate == 0:
        return
    norms, backward = update.there("l2_norm"), arrives.there("l2_norm")
    is_lost = _is_lost(norms, backward)
    if memory.emptied.update(is_lost, context.step) < _LASTING:
        return
    memory.is_reported = True
    yield context.finding(
        ROOT_SITE,
        "update/l2_norm",
        {"parameters": len(norms), "records": memory.emptied.length, "smallest_output_gradient": float(backward.min())},
        first_step=memory.emptied.since,
        position=0,
        explanation="the backward pass brings a gradient to every output, but no parameter has one when the optimizer "
        f"steps, and none of {len(norms)} has moved for {memory.emptied.length} records; gradients are removed in "
        "between",
        advice="call optimizer.zero_grad() before backward() or after step(), never between the two",
        confidence=0.95,
    )


def _never(context: StepContext, memory: _MissingOptimizerStepState) -> Iterator[Finding]:
    """Yield a finding for backward passes that no step follows."""
    for event in context.events("no_step"):
        passes = number(event, "passes")
        memory.is_reported = True
        yield context.finding(
            ROOT_SITE,
            "",
            {"passes": passes},
            first_step=0,
            position=0,
            explanation=f"{passes:.0f} backward passes were made and no step followed: no optimizer has stepped the "
            "model, and its parameters are what they were",
            advice="call optimizer.step() after backward(), on an optimizer that was made from these very parameters",
        )


def _put_back(context: StepContext, memory: _MissingOptimizerStepState) -> Iterator[Finding]:
    """Yield a finding if all checksums at the end equal those at the start although there were updates."""
    for event in context.events("initial_checksum"):
        memory.first = texts(event, "parameters")
    update = context.table("update")
    memory.moved += update is not None and (update.low("l2_norm") > 0 or some(update.there("l2_norm") > 0))
    for event in context.events("resume_point"):
        is_same = bool(memory.first) and texts(event, "parameters") == memory.first
        if memory.is_reported or not is_same or memory.moved < _LASTING:
            continue
        memory.is_reported = True
        yield context.finding(
            ROOT_SITE,
            "weight/l2_norm",
            {"parameters": len(memory.first), "updates": memory.moved},
            first_step=0,
            position=0,
            explanation=f"{memory.moved} steps have moved the weights, but all {len(memory.first)} parameters are "
            "equal, to the last bit, to what they were before the first; something puts them back after every step",
            advice="look for load_state_dict() or a copy of the weights inside the loop, such as a moving average "
            "or an evaluation backup that is restored in every step",
            confidence=0.9,  # a run may also end with a choice of the first weights as the best
        )


def _cleared(context: StepContext, memory: _MissingOptimizerStepState, gradient: Table) -> Iterator[Finding]:
    """Yield a finding if gradients reach every output but are zero at every parameter."""
    arrives = context.table("activation_grad")
    if arrives is None:
        return
    if gradient.low("l2_norm") > 0:
        memory.cleared.update(False, context.step)
        return
    norms, backward = gradient.there("l2_norm"), arrives.there("l2_norm")
    is_lost = _is_lost(norms, backward)
    lasting = _LASTING if memory.moved else 1  # a single step may be emptied on purpose, the first of a run is not
    if memory.cleared.update(is_lost, context.step) < lasting:
        return
    memory.is_reported = True
    yield context.finding(
        ROOT_SITE,
        "gradient/l2_norm",
        {"parameters": len(norms), "records": memory.cleared.length, "smallest_output_gradient": float(backward.min())},
        first_step=memory.cleared.since,
        position=0,
        explanation=f"the backward pass brings a gradient to every output, but the gradients of all {len(norms)} "
        "parameters are exactly zero when the optimizer steps; they are cleared in between, so every step is empty",
        advice="call optimizer.zero_grad() before backward() or after step(), never between the two",
    )


def _is_lost(norms: Floats, backward: Floats) -> bool:
    """Return whether all norms of parameters are zero although a gradient reaches every output."""
    return len(norms) > 0 and not np.count_nonzero(norms) and len(backward) > 0 and bool((backward > 0).all())


def _standing(weight: Table, update: Table | None, memory: _MissingOptimizerStepState) -> Mask:
    """`(rows of weight,)` True where the weight did not change in this step."""
    if update is not None and weight.rows.are(update.rows):
        stands: Mask = update.column("l2_norm") == 0
        return stands if update.is_whole else stands & update.present
    if memory.before is None or memory.before.shape != weight.values.shape:
        return np.zeros(len(weight.values), dtype=np.bool_)
    return np.asarray((memory.before == weight.values).all(axis=1), dtype=np.bool_)


def _has_arrived(norms: Floats, memory: _MissingOptimizerStepState) -> Mask:
    """`(rows of weight,)` True where the gradient is nothing beside the largest that was seen; learns them."""
    before = memory.largest
    if len(before) != len(norms):
        before = np.zeros(len(norms))
        before[: len(memory.largest)] = memory.largest
    memory.largest = np.fmax(before, np.where(np.isfinite(norms), norms, 0.0))
    return np.asarray(norms < _ARRIVED * memory.largest, dtype=np.bool_)


def _driven(context: StepContext, gradient: Table, weight: Table) -> Mask:
    """`(rows of weight,)` True for matrices that a finite gradient reached."""
    matrices = context.model.matrices(weight.rows.sites) & context.model.flowing(weight.rows.sites) & weight.present
    flows: Mask = gradient.column("l2_norm") > 0
    if not gradient.is_whole or gradient.holds_non_finite:
        flows &= gradient.present & ~gradient.non_finite
    if weight.rows.are(gradient.rows):
        return np.asarray(matrices & flows, dtype=np.bool_)
    flowing = {gradient.rows.sites[row] for row in np.flatnonzero(flows)}
    return np.array([is_one and site in flowing for is_one, site in zip(matrices, weight.rows.sites, strict=True)])
