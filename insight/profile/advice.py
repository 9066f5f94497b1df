"""What to do about a profile: the largest gains first, none that Amdahl's law makes small."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from .communication import RankTime
from .operators import Operator
from .split import StepSplit

__all__ = ["Advice", "advise"]

#: A part is worth a word from this share of the step on: without it the training is 1.11 times as fast, by Amdahl's law
#: (AFIPS 1967), and the least that people notice of a training is about a tenth (our choice).
_WORTH = 0.1
#: The backward pass computes two products for each one of the forward, so that both together take most of a healthy
#: step; an optimizer that takes a quarter of it runs operation by operation, or over few weights' work. Our choice.
_OPTIMIZER = 0.25
#: What the monitor may take; the project's own target for every step of a language model.
_MONITOR = 0.05
#: A rank is slow when it works so much longer than the others: below lies what clocks and caches do. Our choice.
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
        share: Of the step that is at stake; the speed-up is at most 1 / (1 - share).
        says: What was seen, with its numbers.
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
    """What is worth doing, the largest share first; empty where nothing is, or nothing was recorded."""
    found = [*_parts(splits), *_straggler(ranks), *_uneven(splits), *_short(operators)]
    return tuple(sorted(found, key=lambda one: -one.share))


def _parts(splits: Sequence[StepSplit]) -> Iterator[Advice]:
    for kind, (worth, does, do) in _WHAT_TO_DO.items():
        known = [(split.share(kind), split) for split in splits if np.isfinite(split.share(kind))]
        if not known:
            continue
        share, split = max(known, key=lambda one: one[0])
        if share >= worth:
            yield Advice(kind, share, split.rank, f"{share:.0%} of a step of {_ms(split.step_s)} {does}", do)


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
        do = "look what happens there: data shards, checkpoints, evaluation, garbage collection, other processes"
        yield Advice("uneven", min(share, 0.99), worst.rank, says, do)


def _short(operators: Sequence[Operator]) -> Iterator[Advice]:
    short = [one for one in operators if one.calls and one.self_s / one.calls < _SHORT_S]
    share, calls = sum(one.share for one in short), sum(one.calls for one in short)
    if calls >= _MANY and share >= 0.5:
        says = f"{share:.0%} of the operators' time is in {calls:.0f} calls a step of less than {_SHORT_S * 1e6:.0f} us"
        yield Advice("short_operators", share, 0, says, "compile the step (jit, torch.compile), or use larger batches")


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
