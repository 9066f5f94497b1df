"""The profile of a run: all parts together, what would make it faster, and its text for a terminal."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...storage import Run, Store, display_site
from .memory_use import MemoryUse, memory_use
from .operator_profile import Operator, Profiled, operator_table, profiled_steps
from .step_split import Collective, RankTime, StepSplit, collectives, rank_times, step_split

__all__ = ["Advice", "Profile", "advise", "profile", "render_profile"]

#: Share of the step from which a part is worth advice: without it the training is 1.11 times as fast, by Amdahl's law
#: (AFIPS 1967), and people notice about a tenth (our choice).
_WORTH = 0.1
#: The backward pass computes two products for each one of the forward, so that both together take most of a healthy
#: step; an optimizer that takes a quarter of it runs operation by operation, or over few weights' work. Our choice.
_OPTIMIZER = 0.25
#: Share that the monitor may take: the project's own target for a language model.
_MONITOR = 0.05
#: Factor over the other ranks' own work; clocks and caches cause less. Our choice.
_SLOW = 1.1
#: Some steps are slow when one in twenty takes twice the usual time. Our choice.
_UNEVEN = 2.0
#: Calls of less than this are mostly the cost of a call: PyTorch needs about 5 us an operator on a host, and as long
#: again to launch it on an accelerator. Our choice.
_SHORT_S = 20e-6
_MANY = 200


@dataclass(frozen=True, slots=True)
class Advice:
    """One thing that would make the training faster.

    Args:
        kind: `data`, `communication`, `monitor`, `optimizer`, `evaluation`, `straggler`, `uneven`, `short_operators`.
        share: Share of the step that could be saved; the speed-up is at most 1 / (1 - share).
        says: The observation, with its numbers.
        do: What to do about it.
    """

    kind: str
    share: float
    rank: int
    says: str
    do: str


_WHAT_TO_DO = {
    "data": (
        _WORTH,
        "passes before its forward: in the loader, or in what else the loop does there",
        "load in parallel and ahead (num_workers, prefetch, pinned memory), move the preparation out of the loop, and "
        "log and save more rarely",
    ),
    "communication": (
        _WORTH,
        "is in collectives",
        "overlap them with the backward pass, send fewer and larger messages or accumulate gradients",
    ),
    "monitor": (
        _MONITOR,
        "is the monitor's",
        "give it a budget (budget: 3%), or record subjects less often (every: 10)",
    ),
    "optimizer": (
        _OPTIMIZER,
        "is the optimizer's",
        "use a fused or multi-tensor optimizer, or larger batches: its cost does not depend on them",
    ),
    "evaluation": (_WORTH, "is evaluation", "evaluate less often, or on fewer batches"),
}


def advise(
    splits: Sequence[StepSplit], ranks: Sequence[RankTime], operators: Sequence[Operator] = ()
) -> tuple[Advice, ...]:
    """Return what is worth doing, the largest share first; empty if nothing is."""
    found = [*_parts(splits), *_straggler(ranks), *_uneven(splits), *_short(operators)]
    return tuple(sorted(found, key=lambda advice: -advice.share))


def _parts(splits: Sequence[StepSplit]) -> Iterator[Advice]:
    for kind, (worth, observation, remedy) in _WHAT_TO_DO.items():
        known = [(share, split) for split in splits if np.isfinite(share := _share(split, kind))]
        if not known:
            continue
        share, split = max(known, key=lambda pair: pair[0])
        if share >= worth:
            is_whole = kind == "monitor" and split.is_thinned
            of = f"the time of {split.passed} steps" if is_whole else f"a step of {_ms(split.step_s)}"
            remedy = "lower its budget (budget: 3%), or leave subjects out" if is_whole else remedy
            yield Advice(kind, share, split.rank, f"{share:.0%} of {of} {observation}", remedy)


def _share(split: StepSplit, kind: str) -> float:
    """Return the share of a part; of the monitor with its thread."""
    return split.monitor_share if kind == "monitor" else split.share(kind)


def _straggler(ranks: Sequence[RankTime]) -> Iterator[Advice]:
    if not ranks or not ranks[0].slowness >= _SLOW:
        return
    slow = ranks[0]
    excess = slow.own_s * (1.0 - 1.0 / slow.slowness)
    says = f"rank {slow.rank} works {_ms(slow.own_s)} a step, {slow.slowness:.2f} times as long as the others"
    if len(ranks) > 1 and any(rank.wait_s > 0.0 for rank in ranks[1:]):
        longest = max(ranks[1:], key=lambda rank: rank.wait_s)
        says += f"; rank {longest.rank} waits {_ms(longest.wait_s)} a step"
    share = excess / slow.step_s if slow.step_s > 0.0 else 0.0
    yield Advice(
        "straggler", share, slow.rank, says, "compare its machine, its share of the data and its input pipeline"
    )


def _uneven(splits: Sequence[StepSplit]) -> Iterator[Advice]:
    uneven = [split for split in splits if split.steps >= 20 and split.slow_s >= _UNEVEN * split.step_s]
    if uneven:
        worst = max(uneven, key=lambda split: split.slow_s / split.step_s)
        steps = ", ".join(map(str, worst.slowest))
        share = 0.05 * (worst.slow_s - worst.step_s) / worst.step_s
        says = f"one step in twenty takes {_ms(worst.slow_s)} or more, usual is {_ms(worst.step_s)}; slowest: {steps}"
        remedy = "look what happens there: data shards, checkpoints, evaluation, garbage collection, other processes"
        yield Advice("uneven", min(share, 0.99), worst.rank, says, remedy)


def _short(operators: Sequence[Operator]) -> Iterator[Advice]:
    short = [operator for operator in operators if operator.calls and operator.self_s / operator.calls < _SHORT_S]
    share, calls = sum(operator.share for operator in short), sum(operator.calls for operator in short)
    if calls >= _MANY and share >= 0.5:
        says = f"{share:.0%} of the operators' time is in {calls:.0f} calls a step of less than {_SHORT_S * 1e6:.0f} us"
        yield Advice("short_operators", share, 0, says, "compile the step (jit, torch.compile), or use larger batches")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"


@dataclass(frozen=True, slots=True)
class Profile:
    """Where a run's time and memory go.

    Args:
        splits: The typical step of each rank.
        ranks: The ranks side by side, the slowest first; empty with one rank.
        collectives: Their cost on all ranks.
        operators: Those of the lowest rank with profiled steps; empty if there are none.
        profiled: The profiled steps of that rank.
        memory: The memory of each rank.
        advice: The largest gain first.
        missing: What the run did not record, and how to record it.
    """

    run: str
    splits: tuple[StepSplit, ...]
    ranks: tuple[RankTime, ...]
    collectives: tuple[Collective, ...]
    operators: tuple[Operator, ...]
    profiled: tuple[Profiled, ...]
    memory: tuple[MemoryUse, ...]
    advice: tuple[Advice, ...]
    missing: tuple[str, ...]


def profile(store: Store, run: Run, *, first: int | None = None, last: int | None = None) -> Profile:
    """Return the profile of all ranks of the run.

    Args:
        first, last: The first and last step to profile; all by default.
    """
    splits = tuple(step_split(store, run.id, rank=rank, first=first, last=last) for rank in run.ranks)
    costs = tuple(cost for rank in run.ranks for cost in collectives(store, run.id, rank=rank, first=first, last=last))
    ranks = rank_times(splits, costs) if len(splits) > 1 else ()
    looked = {rank: profiled_steps(store, run.id, rank=rank, first=first, last=last) for rank in run.ranks}
    inside = next((rank for rank in run.ranks if looked[rank]), None)
    operators = () if inside is None else operator_table(store, run.id, rank=inside, first=first, last=last)
    memory = tuple(
        memory_use(store, run.id, rank=rank, profiled=looked[rank], first=first, last=last) for rank in run.ranks
    )
    return Profile(
        run=run.id,
        splits=splits,
        ranks=ranks,
        collectives=costs,
        operators=operators,
        profiled=() if inside is None else looked[inside],
        memory=memory,
        advice=advise(splits, ranks, operators),
        missing=tuple(_missing(splits, operators, memory)),
    )


def _missing(
    splits: tuple[StepSplit, ...], operators: tuple[Operator, ...], memory: tuple[MemoryUse, ...]
) -> list[str]:
    lines = []
    if not any(split.steps for split in splits):
        lines.append("no step was timed: the subject `step_seconds` is off, or the run has no steps")
    if not any(split.phases for split in splits):
        lines.append("no split of the step: the subject `time` is off, or the run is shorter than its cadence")
    if not operators:
        lines.append("no operators: configure `subjects: {operator: {first: 3}}`")
    if not any(use.steps for use in memory):
        lines.append("no memory: the subject `memory` is off")
    return lines


_ROWS = 12


def render_profile(profile: Profile) -> str:
    """Return the profile as text: step split, ranks, collectives, operators, memory, and what to do."""
    parts = (_split(profile), _ranks(profile), _collectives(profile), _operators(profile), _memory(profile))
    lines = [line for part in (*parts, _advice_lines(profile)) for line in part]
    return "\n".join([f"profile of {profile.run}", *lines])


def _split(profile: Profile) -> Iterator[str]:
    for split in profile.splits:
        if split.steps or split.phases:
            yield ""
            what = "a recorded step" if split.is_thinned else "a step"
            yield f"rank {split.rank}: {what} takes {_duration(split.step_s)}, 95 % at most {_duration(split.slow_s)}"
            if split.is_thinned:
                whole = f"all take {_duration(split.mean_s)} in the mean"
                yield f"  {split.steps} of {split.passed} steps were recorded; {whole}"
            for name, seconds in (*split.phases.items(), *split.inside.items()):
                part = "  of which " if name in split.inside else ""
                yield f"  {part:<11}{name:<14} {_duration(seconds):>10}  {split.share(name):6.1%}"
            for name, seconds in split.beside.items():
                yield f"  beside it  {name:<14} {_duration(seconds):>10}  {split.share(name):6.1%}  of a processor"
            if "monitor" in split.inside:
                yield "  (monitor: around the optimizer; its hooks are in forward and backward: doctor --cost compares)"


def _ranks(profile: Profile) -> Iterator[str]:
    if any(np.isfinite(rank.slowness) for rank in profile.ranks):
        is_slow = profile.ranks[0].slowness >= _SLOW
        order = "the slowest first" if is_slow else "none slower than the others as far as their waiting can be told"
        yield from ("", f"ranks, {order}: own work, waiting, against the others")
        for rank in profile.ranks[:_ROWS]:
            yield f"  rank {rank.rank:<4} {_duration(rank.own_s):>10} {_duration(rank.wait_s):>10}  {rank.slowness:.2f}"


def _collectives(profile: Profile) -> Iterator[str]:
    if profile.collectives:
        yield from ("", "collectives of a step: calls, bytes, time, of which waiting")
        for collective in profile.collectives[:_ROWS]:
            times = f"{_duration(collective.seconds):>10} {_duration(collective.wait_s):>10}"
            cost = f"{collective.calls:6.1f} {_bytes(collective.size_bytes):>10} {times}"
            yield f"  rank {collective.rank} {collective.site:<28} {cost}"


def _operators(profile: Profile) -> Iterator[str]:
    if profile.operators:
        yield from ("", f"operators of {len(profile.profiled)} steps: calls a step, own time, share, bytes allocated")
        for operator in profile.operators[:_ROWS]:
            times = f"{_duration(operator.self_s):>10} {operator.share:6.1%}"
            cost = f"{operator.calls:7.1f} {times} {_bytes(operator.size_bytes):>10}"
            yield f"  {operator.phase:<10} {operator.name:<32} {cost}"


def _memory(profile: Profile) -> Iterator[str]:
    for use in profile.memory:
        if use.steps:
            held = max((size for size in use.monitor_bytes if np.isfinite(size)), default=np.nan)
            peaks = (("host", use.host_peak_bytes), ("of it the monitor", held), ("device", use.device_peak_bytes))
            sizes = ", ".join(f"{name} {_bytes(size)}" for name, size in peaks if np.isfinite(size))
            yield from ("", f"memory of rank {use.rank}, most at step {use.peak_step}: {sizes}")
        for part in use.parts[:_ROWS]:
            where = f" of {display_site(part.site)}" if part.kind == "activations" else ""
            how = "" if part.is_measured else "  (from shapes)"
            yield f"  {_bytes(part.size_bytes):>10}  {part.kind}{where}{how}"


def _advice_lines(profile: Profile) -> Iterator[str]:
    if profile.advice:
        yield from ("", "what to do:")
        for number, advice in enumerate(profile.advice, 1):
            yield f"{number}. {advice.says}"
            yield f"   {advice.do} (at most {1.0 / max(1.0 - advice.share, 0.01):.2f} times as fast)"
    if profile.missing:
        yield from ("", "not recorded:", *(f"  {line}" for line in profile.missing))


def _duration(seconds: float) -> str:
    return "?" if not np.isfinite(seconds) else f"{seconds * 1e3:.3g} ms"


def _bytes(size: float) -> str:
    for unit in ("B", "KB", "MB", "GB"):
        if abs(size) < 1024.0:
            return f"{size:.3g} {unit}"
        size /= 1024.0
    return f"{size:.3g} TB"
