"""Wrong bits in a single tensor, on one rank."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, sqrt

import numpy as np

from ...storage import ROOT_SITE, Event, Finding, Json, OptimizerInfo
from ...storage.percent import percent
from ..context.optimizer_state import is_bit_flip
from ..context.step_context import Excess, Lookahead, SkipWindow, StepContext
from ..event_fields import as_number, items, number, numbers, ranks, words
from ..indicators.replicas import is_corrupted, misfits, wrote
from ..recording import Recording, chain
from ..rule import OPTIMIZER, rule
from ..running_statistics import Streak

#: Share of the norm of the whole tensor's update above which a single element moved.
_SINGLE = 0.9
#: Times the largest local gradient of the other ranks, exchanges in a row, and the fewest ranks. In our trainings,
#: shares of one data set gave local gradients of which the largest was at most 2.4 times the next.
_OUTLYING, _EXCHANGES, _FEWEST = 20.0, 2, 3
#: Elements of a tensor in which a single one that is written is nobody's intention.
_ELEMENTS = 64
_MODEL = chain("one:Dense", "two:Dense", "three:Dense", "four:Dense")


def _parameters(*sites: str, odd: tuple[int, ...] = (1,), at: int = 50) -> Event:
    data: dict[str, Json] = {
        "quantity": "parameters",
        "at": at,
        "by_rank": ["a", "b", "a"],
        "is_equal": False,
        "odd": list(odd),
        "sites": list(sites),
    }
    return Event("rank_checksums", 0, data=data)


def _wrote(*weights: tuple[str, float, float, float], at: int = 0) -> Event:
    """Weights that something has written: their largest change, the change and the weight itself, by norm."""
    named: list[Json] = [
        {"site": site, "size": 400, "largest": largest, "change": change, "norm": norm}
        for site, largest, change, norm in weights
    ]
    return Event("weights_written", at, data={"parameters": len(weights), "of": 4, "weights": named})


def _local(*sizes: float, at: int = 0) -> Event:
    data: dict[str, Json] = {"at": at, "ranks": len(sizes), "weights": [], "sites": [], "local_sizes": list(sizes)}
    return Event("rank_reduction", at, data=data)


def _wrong_product(site: str) -> Event:
    return Event("product_is_wrong", 0, site, data={"at": 0, "error": 40.0, "again": 3, "wrong_again": 3})


def _moved(by: tuple[float, ...], norm: tuple[float, ...]) -> Recording:
    groups: dict[str, Json] = {"lr": 0.001, "betas": [0.9, 0.999]}
    series: dict[str, float | tuple[float, ...]] = {
        "one.weight update/max": by,
        "one.weight update/min": 0.0,
        "one.weight update/l2_norm": norm,
    }
    return Recording(
        series | {"one.weight weight/max": 1.0, "scalar/learning_rate": 0.001},
        replace(_MODEL, optimizers=(OptimizerInfo("Adam", (groups,)),)),
    )


#: Adam's second moments of 64 squares of 0.25.
_KEPT = tuple(0.25 * (1 - 0.999 ** (step + 1)) for step in range(9))


def _squared(means: tuple[float, ...], *, largest: tuple[float, ...], norm: tuple[float, ...]) -> Recording:
    """Return a recording of a second moment under constant gradients."""
    slot = "one.weight optimizer/exp_avg_sq"
    moment: dict[str, float | Sequence[float | None]] = {
        f"{slot}/mean": means,
        f"{slot}/max": largest,
        f"{slot}/min": 0.0,
        f"{slot}/l2_norm": norm,
    }
    still = _moved((0.0001,) * len(means), (0.001,) * len(means))
    moment["one.weight gradient/l2_norm"] = 4.0
    return replace(still, series=dict(still.series) | moment)


@dataclass(slots=True)
class _SilentDataCorruptionState:
    """What was reported, when replicas were equal last, and elements that moved too far."""

    reported: set[str] = field(default_factory=set)
    equal_at: int = -1
    before: dict[str, Excess] = field(default_factory=dict)
    since: int = 0
    has_written: bool = False
    misfit: set[int] = field(default_factory=set)
    outlier: int = -1
    outlying: Streak = field(default_factory=Streak)


def _skip_window(lookahead: Lookahead, memory: _SilentDataCorruptionState) -> SkipWindow | None:
    def learn(records: int) -> None:
        memory.since = lookahead.records[records - 1].step

    window = lookahead.within_bounds(learn)
    return None if memory.before else window


@rule(
    "silent-data-corruption",
    needs=("event/rank_checksums", "event/rank_reduction", "event/weights_written", "event/product_is_wrong", "update"),
    phase=OPTIMIZER,
    skip_window=_skip_window,
    memory=_SilentDataCorruptionState,
    is_fact=True,
    is_optional=True,
    fires_on=(
        Recording(structure=_MODEL, events=(_parameters("two.weight"),)),
        _moved((0.001, 0.001, 0.9, 0.001), norm=(0.008, 0.008, 0.9, 0.008)),
        Recording(structure=_MODEL, events=(_local(1.0, 1.2, 90.0), _local(1.1, 1.2, 95.0, at=1)), steps=2),
        Recording(structure=_MODEL, events=(_wrote(("two.weight", 4.0, 4.0, 6.0)),)),
        Recording(structure=_MODEL, events=(_wrong_product("two"),)),
        _squared((*_KEPT[:8], 3.0), largest=(*_KEPT[:8], 190.0), norm=(*(8 * value for value in _KEPT[:8]), 190.0)),
    ),
    silent_on=(
        # one exchange only, and ranks that differ as batches do
        Recording(structure=_MODEL, events=(_local(1.0, 1.2, 90.0), _local(1.1, 1.2, 4.0, at=1)), steps=2),
        # a row is written, and single elements in turn
        Recording(structure=_MODEL, events=(_wrote(("two.weight", 1.0, 4.0, 6.0)),)),
        Recording(
            structure=_MODEL,
            events=(_wrote(("two.weight", 1.0, 4.0, 6.0)), _wrote(("two.weight", 4.0, 4.0, 6.0), at=1)),
            steps=2,
        ),
        # a whole tensor is written from outside: on purpose
        _moved((0.001, 0.001, 0.9, 0.001), norm=(0.008, 0.008, 7.2, 0.008)),
        Recording(structure=_MODEL, events=(_parameters("one.weight", "two.weight", "three.weight", "four.weight"),)),
        Recording(
            structure=_MODEL,
            events=(
                Event(
                    "rank_checksums",
                    0,
                    data={"quantity": "parameters", "at": 50, "by_rank": ["a", "a"], "is_equal": True, "odd": []},
                ),
            ),
        ),
    ),
)
def check(context: StepContext, memory: _SilentDataCorruptionState) -> Iterator[Finding]:
    """Report a single tensor, or a single element, with wrong bits.

    The rule fires when replicas that were equal differ in a single tensor, or in few, on one rank. A reduction that a
    rank missed changes every parameter; a flipped bit, a stray write or a faulty device changes one (Dixit et al. 2021,
    arXiv:2102.11245; He et al. 2023, "Understanding and mitigating hardware failures in deep learning training"). With
    two ranks the finding names both; which of them is right is known where something other than a step was seen to
    write to the weights of one of them.

    A single process shows it too: one element moves once, alone, farther than its optimizer can move anything, or is
    written between two steps, or one element of the optimizer's state does not follow from the state before. A device
    that computes wrongly shows in its own gradient before the reduction: 20 times the largest of the others, in two
    exchanges. So does a layer whose product is not the one that is computed beside in double precision.

    Look for code that writes to single elements; then test the memory and the device.
    """
    yield from _multiplied(context, memory)
    yield from _jumped(context, memory)
    yield from _written(context, memory)
    yield from _flipped_state(context, memory)
    for event in context.events("rank_reduction"):
        memory.misfit.update(misfits(event))
        yield from _outlies(context, memory, event)
    for event in context.events("rank_checksums"):
        if event.data.get("quantity") != "parameters":
            continue
        sites = words(event, "sites")
        if event.data.get("is_equal") is True:
            memory.equal_at = event.step
        elif sites and not memory.reported and is_corrupted(event, len(context.model.parameters)):
            memory.reported.update(sites)
            yield _differ(context, memory, event, sites)


def _differ(context: StepContext, memory: _SilentDataCorruptionState, event: Event, sites: list[str]) -> Finding:
    odd, written, misfit = ranks(event, "odd"), wrote(event), sorted(memory.misfit)
    blamed = odd or written or misfit
    values = event.data.get("by_rank")
    compared = [rank for rank, one in enumerate(values if isinstance(values, list | tuple) else ()) if one is not None]
    return context.finding(
        sites[0] if len(sites) == 1 else ROOT_SITE,
        "weight/l2_norm",
        {"tensors": len(sites), "ranks_that_differ": len(odd), "at": number(event, "at"), "equal_at": memory.equal_at},
        first_step=_since(memory, event) if blamed else int(number(event, "at")),
        position=0,
        rank=blamed[0] if blamed else None,
        explanation=f"{', '.join(sites[:3])} {'differs' if len(sites) == 1 else 'differ'} "
        + (
            f"on rank {odd[0]} from the other ranks"
            if odd
            else f"between ranks {', '.join(map(str, compared[:-1]))} and {compared[-1]}"
        )
        + f" at step {number(event, 'at'):.0f}, while all other parameters are equal; "
        "a missing reduction would change all of them"
        + (f"; on rank {written[0]} something that is no optimizer step wrote to weights" if written else "")
        + (f"; the gradient that rank {misfit[0]} applies does not follow from the local ones" if misfit else "")
        + ("" if blamed else "; nothing tells which of them is right"),
        advice="compare the tensor element by element between the ranks; look for code that writes to it on one "
        "rank only; if there is none, test that host's memory and device, and go back to an earlier checkpoint",
        confidence=0.9,
    )


def _since(memory: _SilentDataCorruptionState, event: Event) -> int:
    """Return the first step that may have changed it."""
    return memory.equal_at + 1 if memory.equal_at >= 0 else event.step


def _outlies(context: StepContext, memory: _SilentDataCorruptionState, event: Event) -> Iterator[Finding]:
    sizes = numbers(event, "local_sizes")
    if len(sizes) < _FEWEST or not all(isfinite(size) for size in sizes):
        return
    rank = max(range(len(sizes)), key=sizes.__getitem__)
    others = max(size for other, size in enumerate(sizes) if other != rank)
    if rank != memory.outlier:
        memory.outlier, memory.outlying = rank, Streak()
    lasting = memory.outlying.update(sizes[rank] > _OUTLYING * others > 0, event.step)
    if lasting < _EXCHANGES or "gradient" in memory.reported:
        return
    memory.reported.add("gradient")
    site = _largest(context)
    yield context.finding(
        site,
        "gradient/l2_norm",
        {"local_norm": sizes[rank], "largest_other": others, "exchanges": lasting, "ranks": len(sizes)},
        first_step=memory.outlying.since,
        position=0,
        rank=rank,
        explanation=f"the gradient of rank {rank} has a norm of {sizes[rank]:.3g} before the reduction, that of "
        f"every other rank at most {others:.3g}, in {lasting} exchanges in a row"
        + (f"; nearly all of it lies in {site}" if site else ""),
        advice="run this rank's batch on another host; if the gradient is right there, test the memory and the "
        "device of this one; if it is not, check this rank's share of the data",
        confidence=0.8,
    )


def _multiplied(context: StepContext, memory: _SilentDataCorruptionState) -> Iterator[Finding]:
    """Yield a finding for a layer that multiplies wrongly."""
    for event in context.events("product_is_wrong"):
        if f"product {event.site}" in memory.reported:
            continue
        memory.reported.add(f"product {event.site}")
        again, wrong = number(event, "again"), number(event, "wrong_again")
        yield context.finding(
            event.site,
            "activation/l2_norm",
            {"times_the_allowed_error": number(event, "error"), "asked_again": again, "wrong_again": wrong},
            position=0,
            explanation=f"{event.site} was given a random input at step {number(event, 'at'):.0f}, and its output is "
            f"off by {number(event, 'error'):.3g} times what its element type may round, against the same product in "
            f"double precision; asked again it was wrong {wrong:.0f} of {again:.0f} times",
            advice="take this host or device out and test it; if another host gives the same, look for a layer whose "
            "computation was replaced",
        )


def _largest(context: StepContext) -> str:
    """Return the parameter that holds nearly all of the reduced gradient; the root if it is spread."""
    table = context.table("gradient")
    if table is None:
        return ROOT_SITE
    norms = np.where(table.present, np.nan_to_num(table.column("l2_norm")), 0.0)
    row = int(np.argmax(norms))
    return table.rows.sites[row] if norms[row] > _SINGLE * np.linalg.norm(norms) else ROOT_SITE


def _written(context: StepContext, memory: _SilentDataCorruptionState) -> Iterator[Finding]:
    """Yield a finding for a single element that was written between two steps, before anything else was."""
    for event in context.events("weights_written"):
        weights, is_first = items(event, "weights"), not memory.has_written
        memory.has_written = True
        if not is_first or len(weights) != 1 or memory.reported:
            continue
        weight = {name: as_number(value) for name, value in weights[0].items() if name != "site"}
        is_large = weight["largest"] > weight["norm"] / sqrt(weight["size"])  # than an element is by itself
        if weight["size"] < _ELEMENTS or weight["largest"] < _SINGLE * weight["change"] or not is_large:
            continue
        site = str(weights[0]["site"])
        memory.reported.add(site)
        yield context.finding(
            site,
            "weight/max",
            {name: weight[name] for name in ("largest", "change", "norm")},
            explanation=f"between steps {event.step - 1} and {event.step} something that is no optimizer step changed "
            f"a single element of {site}, by {weight['largest']:.4g}; its {weight['size']:.0f} elements have a norm of "
            f"{weight['norm']:.4g}, and no other weight was written",
            advice="look for code that writes to single elements; if there is none, test this host's memory and "
            "device, and go back to an earlier checkpoint",
            confidence=0.8,
        )


def _flipped_state(context: StepContext, memory: _SilentDataCorruptionState) -> Iterator[Finding]:
    """Yield a finding for a single element of the optimizer's state that nothing explains."""
    broken = context.broken_state
    if not is_bit_flip(broken) or broken[0].site in memory.reported or context.events("optimizer_changed"):
        return
    (fault,) = broken
    memory.reported.add(fault.site)
    yield context.finding(
        fault.site,
        f"optimizer/{fault.slot}/max",
        {"mean": fault.value, "expected": fault.expected, "share_of_the_norm": fault.peak},
        explanation=f"after step {context.step} a single element makes up {percent(fault.peak)} of the {fault.slot} of "
        f"{fault.site}; its mean is {fault.value:.4g}, but the state before and this step's gradient give "
        f"{fault.expected:.4g}",
        advice="look for code that writes to single elements; if there is none, test this host's memory and device, "
        "and go back to an earlier checkpoint",
        confidence=0.8,
    )


def _jumped(context: StepContext, memory: _SilentDataCorruptionState) -> Iterator[Finding]:
    """Yield a finding for a single element that moved once, farther than gradients can move it."""
    if context.table("update") is None:
        return
    beyond = {excess.site: excess for excess in context.beyond_adam}
    before, step = memory.before, memory.since
    memory.before, memory.since = beyond, context.step
    if not before and all(context.keeps_its_state(excess) for excess in beyond.values()):
        before, step, beyond = beyond, context.step, {}  # there is no use in waiting: its state is as it should be
    if len(before) != 1 or beyond or memory.reported:
        return
    (moved,) = before.values()
    if moved.peak < _SINGLE:
        return
    memory.reported.add(moved.site)
    yield context.finding(
        moved.site,
        "update/max",
        {"update_over_rate": moved.ratio, "bound": moved.bound, "rate": moved.rate, "share_of_the_norm": moved.peak},
        first_step=step,
        explanation=f"in step {step} a single element of {moved.site} {moved.words}; everything else moved as usual",
        advice="look for code that writes to single elements; if there is none, test this host's memory and device, "
        "and go back to an earlier checkpoint",
        confidence=0.8,
    )
