"""The same batch again and again."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import isclose

import numpy as np

from ...storage import ROOT_SITE, Event, Finding, OptimizerInfo
from ...storage.training_kinds import TrainingKind
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..event_fields import as_number
from ..indicators.executable_checks import at_two_occasions, refutation, refuted, refuted_twice, refuting_event
from ..indicators.lowered_findings import withdrawn
from ..indicators.relearned_batches import RelearnedBatches, Stretch
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_WHOLE = replace(_MODEL, optimizers=(OptimizerInfo("LBFGS", ({"lr": 1.0},)),))
#: Equal batches in a row. An epoch boundary can repeat one batch, a shuffled epoch not five. If no batch ever
#: differed, the rule waits longer, so that an evaluation may show whether the batch is the whole data set (our
#: choice).
_IN_A_ROW, _FROM_THE_START = 5, 12
#: Changes before the batch stuck, and times the longest earlier stretch of one batch: a loop may take several steps on
#: each batch, or draw its points anew every hundred steps (our choice).
_CHANGES, _LONGER = 2, 4
#: Relative error of sums over a batch in float32, and the longest permutation that is recognised.
_ROUNDING, _MOST = 1e-5, 1 << 16
_ONE_HOT = {" batch/min": 0.0, " batch/max": 1.0, " batch/mean": 0.1, " batch/l2_norm": 8.0, " batch/size": 640.0}


#: Kinds of training that may call a network twice for the same points: terms of an equation, a policy and its value.
_CALLING_TWICE = ("physics", "policy", "value", "adversarial", "meta", "diffusion", "flow")
_VIEWS, _TWINS, _REACH = "views_differ", "samples_differ", "draws_reach_what_was_written"
_RANGE = "draws_reach_all_rows"
#: What follows where a claim is broken at two steps, and what to do.
_TWICE = {
    _TWINS: (
        "a batch of them teaches no more than one of them",
        "look for an array that is stored by reference and written in place, such as an observation in a replay buffer "
        "(store a copy), and for one index that is drawn for the whole batch",
    ),
    _REACH: (
        "what comes in later is never learned from",
        "let the count of filled rows grow with each write, up to the size of the store, and draw below it",
    ),
    _RANGE: (
        "the rows behind them are never learned from",
        "draw below the number of rows, torch.randint(len(data), (batch,)), or take them in the order of a permutation",
    ),
}
_SAME_ROWS = refuting_event(_TWINS, "all 64 samples of x (64, 4) are the same", samples=64)
_CONTRASTIVE = Event("training_kind", 0, data=TrainingKind("contrastive").to_data())
#: Kinds of training that take many steps on one batch, task or set of points on purpose.
_DWELLING = ("policy", "meta", "physics", "adversarial")


def _twice(compared: float, *more: Event) -> Recording:
    words = "two calls of online in one step are given the same values"
    return Recording(structure=_MODEL, events=(*more, refuting_event(_VIEWS, words, compared=compared)))


def _dwelling(begins: tuple[float, ...]) -> Recording:
    """Forty steps on each batch, which begin with these losses and halve them every five steps."""
    steps = [(float(at), begin * 0.5 ** (step / 5)) for at, begin in enumerate(begins) for step in range(40)]
    checksums, losses = zip(*steps, strict=True)
    return Recording({"scalar/batch/checksum": checksums, "scalar/loss": losses}, _MODEL)


@dataclass(slots=True)
class _RepeatedBatchState:
    """The newest checksum, for how many batches it has been the same, and how long earlier stretches were."""

    twins: set[tuple[str, str, str]] = field(default_factory=set)
    newest: float = float("nan")
    length: int = 0
    since: int = 0
    changes: int = 0
    longest: int = 0
    is_all_there_is: bool = False
    is_judged: bool = False
    reported: Finding | None = None
    relearned: RelearnedBatches = field(default_factory=RelearnedBatches)


def _skip_window(lookahead: Lookahead, memory: _RepeatedBatchState) -> SkipWindow | None:
    is_over = memory.is_judged and memory.reported is None and memory.relearned.is_over
    return lookahead.whole if is_over else SkipWindow(lookahead.until_scalar("batch/checksum"))


@rule(
    "repeated-batch",
    needs=("scalar/batch/checksum",),
    triggers=("scalar/batch/checksum", "event/check"),
    phase=FORWARD,
    skip_window=_skip_window,
    memory=_RepeatedBatchState,
    warm_up=_IN_A_ROW,
    is_optional=True,
    asks="intent",
    fires_on=(
        _twice(1.0),
        Recording(structure=_MODEL, events=at_two_occasions(_SAME_ROWS), steps=2),
        _twice(0.0, _CONTRASTIVE),
        Recording({"scalar/batch/checksum": (7.0,) * 14}, _MODEL),
        Recording({"scalar/batch/checksum": (1.0, 2.0, 3.0, *(4.0,) * 8)}, _MODEL),
        _dwelling((1.0, 0.9, 0.8)),  # what is learned of one batch tells little of the next
    ),
    silent_on=(
        Recording(structure=_MODEL, events=(_SAME_ROWS,)),  # at one step alone
        _twice(0.0),  # a loss, and a number to print
        _twice(1.0, replace(_CONTRASTIVE, data=TrainingKind("physics").to_data())),
        Recording({"scalar/batch/checksum": (1.0, 2.0, 3.0, 4.0) * 6}, _MODEL),
        Recording({"scalar/batch/checksum": (1.0, 2.0, 2.0, 3.0) * 6}, _MODEL),
        # ten steps on each batch, as a policy takes them on what it has collected
        Recording({"scalar/batch/checksum": tuple(float(step // 10) for step in range(60))}, _MODEL),
        # a first pass over something else, then all data at once
        Recording({"scalar/batch/checksum": (1.0, *(7.0,) * 11)}, _MODEL),
        # an optimizer that is given all data at once; and evaluations on the very nodes that are trained on
        Recording({"scalar/batch/checksum": (7.0,) * 14}, _WHOLE),
        Recording(
            {"scalar/batch/checksum": (7.0,) * 14, " batch/l2_norm": 9.0, " batch/eval/l2_norm": (None, None, 9.0) * 5},
            _MODEL,
        ),
        # 64 rows with a single one in each have the same checksum whichever they are; so have orders of eight tokens
        Recording({"scalar/batch/checksum": (7.0,) * 14, "scalar/batch/samples": 64.0, **_ONE_HOT}, _MODEL),
        Recording(
            {
                "scalar/batch/checksum": (1.0, *(7.0,) * 13),
                "scalar/batch/samples": 8.0,
                " batch/min": 0.0,
                " batch/max": 7.0,
                " batch/mean": 3.5,
                " batch/l2_norm": 1120.0**0.5,
            },
            _MODEL,
        ),
    ),
)
def check(context: StepContext, memory: _RepeatedBatchState) -> Iterator[Finding]:
    """Report a training that is given the same batch again and again.

    The rule fires when batches stop changing: five or more in a row have the same checksum, four times as many as ever
    before, after the batch had changed at least twice. If the batch changes again, the finding is withdrawn. If the
    first twelve are equal, or the batch changed only once, it asks whether that is meant: training on the whole data
    set at once, or on one batch as a test, looks the same.

    Some trainings need equal batches and are left out: L-BFGS compares losses of one function (Liu and Nocedal 1989),
    and a model evaluated on the very values that it is trained on, such as the nodes of one graph, is given all there
    is. So is a training that gives the model the very same whole tensors at every step and uses no data loader.
    Checksums do not tell the order of values, so batches whose samples hold the same values in another order, such as
    one-hot rows or permutations, are left out too. Look for `next(iter(loader))` inside the loop.

    Where a batch is kept for twenty steps and more, then another one, the loss falls on each, and the next one takes
    back seven tenths of the fall, or each of two takes back four, what is learned of one batch tells little of the
    next. That is told, but not of policies, meta-learning, differential equations and adversaries, which take many
    steps on one batch on purpose.

    Of a batch all of whose samples are the same, at steps 1 and 25, it tells that too; and of a store that is still
    written to, where all rows that are drawn from it are among its first ones.

    Of two views of a batch, it tells that they are one: at steps 1 and 25 a network is called twice with the very same
    input, answers the same, and the loss compares the two answers, or another network follows it.
    """
    for event in refuted(context, _VIEWS):
        yield from _of_views(context, event)
    for event in refuted_twice(context, memory.twins, *_TWICE):
        consequence, advice = _TWICE[str(event.data.get("check"))]
        yield refutation(
            context,
            event,
            consequence=consequence,
            advice=advice,
            metric="",
            severity="warning",
            confidence=0.9,
        )
    checksum = context.scalar("batch/checksum")
    if checksum is None:
        return
    yield from _of_stretches(context, memory, checksum)
    if memory.is_judged and memory.reported is None:
        return
    memory.is_all_there_is |= _is_evaluated_on(context)
    if checksum != memory.newest:
        if memory.reported is not None:
            yield _withdrawn(context, memory.reported)
            memory.reported = None
            return
        memory.changes += memory.length > 0
        memory.longest = max(memory.longest, memory.length)
        memory.newest, memory.length, memory.since = checksum, 0, context.step
    memory.length += 1
    has_varied = memory.changes >= _CHANGES
    wanted = max(_IN_A_ROW, _LONGER * memory.longest) if has_varied else _FROM_THE_START
    if memory.is_judged or memory.length < wanted:
        return
    memory.is_judged = True
    if context.kind.is_full_batch or context.kind.name == "policy":  # which may meet the same states again
        return
    if (not memory.changes and (memory.is_all_there_is or _needs_everything(context))) or _says_nothing(context):
        return
    found = _report(context, memory, checksum, has_varied=has_varied)
    memory.reported = found
    yield found


def _of_stretches(context: StepContext, memory: _RepeatedBatchState, checksum: float) -> Iterator[Finding]:
    loss = context.scalar("loss")
    stretches = None if loss is None else memory.relearned.add(context.step, checksum, loss)
    if stretches is None or context.kind.name in _DWELLING:
        return
    ended, newest = stretches
    memory.is_judged, memory.reported = True, None
    yield context.finding(
        ROOT_SITE,
        "scalar/batch/checksum",
        {"checksum": checksum, **_numbers("one batch", ended), **_numbers("the next", newest)},
        severity="warning",
        first_step=ended.since,
        position=0,
        explanation=f"from step {ended.since} on all batches are the same, and since step {newest.since} they are all "
        f"the next one; the loss fell from {ended.first:.3g} to {ended.last:.3g} on the first, and rose to "
        f"{newest.first:.3g} on the second: what is learned from one batch tells little of the next",
        advice="look for next(iter(loader)) or an index that is drawn outside the loop over the steps, and for a "
        "loader or generator that gives its first batch again; if each batch is a task of its own, do nothing",
        confidence=0.75,
    )


def _numbers(name: str, stretch: Stretch) -> dict[str, float]:
    return {
        f"{name}: batches": float(stretch.batches),
        f"{name}: first loss": stretch.first,
        f"{name}: last loss": stretch.last,
    }


def _of_views(context: StepContext, event: Event) -> Iterator[Finding]:
    numbers, kind = event.data.get("numbers"), context.kind.name
    compared = as_number(numbers.get("compared"), 0.0) if isinstance(numbers, dict) else 0.0
    if kind in _CALLING_TWICE or not (compared or kind == "contrastive"):
        return
    found = refutation(
        context,
        event,
        consequence="as two views of a batch they teach nothing, since nothing differs that the network could learn to "
        "leave out",
        advice="augment each view on its own; look for one variable where the other is meant, and for an augmentation "
        "that is off or draws the same numbers again",
        metric="",
        severity="warning",
        confidence=0.9,
    )
    is_sure = compared == 1.0 or kind == "contrastive"
    words = f"{event.data.get('counterexample')}, and so do those of the network that follows it: is that meant?"
    yield found if is_sure else replace(found, severity="info", confidence=0.5, explanation=words)


def _report(context: StepContext, memory: _RepeatedBatchState, checksum: float, *, has_varied: bool) -> Finding:
    words = f"every batch since step {memory.since} is the same, value for value"
    return context.finding(
        ROOT_SITE,
        "scalar/batch/checksum",
        {"checksum": checksum, "batches": memory.length, "changes_before": memory.changes},
        severity="error" if has_varied else "info",
        first_step=memory.since,
        position=0,
        explanation=words + (", while earlier batches differed" if has_varied else "; is that the whole data set?"),
        advice="look for next(iter(loader)) inside the loop, a sampler that is made anew with the same seed, or a "
        "loader that has run dry; if the data set is a single batch, do nothing",
        confidence=0.9 if has_varied else 0.5,
    )


def _withdrawn(context: StepContext, found: Finding) -> Finding:
    words = f"the batches from step {found.first_step} to {context.step - 1} were the same; since then they change"
    return withdrawn(found, context, words)


def _needs_everything(context: StepContext) -> bool:
    """Return whether the optimizer compares losses that must come from the same data."""
    return any("lbfgs" in optimizer.kind.lower() for optimizer in context.model.structure.optimizers)


def _is_evaluated_on(context: StepContext) -> bool:
    """Return whether an evaluation in this step had the training input, by every statistic of the first input."""
    trained, evaluated = context.table("batch"), context.table("batch/eval")
    if trained is None or evaluated is None or trained.rows.statistics != evaluated.rows.statistics:
        return False
    return any(
        site == ROOT_SITE and evaluated.present[row] and np.array_equal(evaluated.values[row], trained.values[0])
        for row, site in enumerate(evaluated.rows.sites)
        if trained.rows.sites[0] == ROOT_SITE and trained.present[0]
    )


def _says_nothing(context: StepContext) -> bool:
    """Return whether all samples hold the same values in another order, as one-hot rows or permutations do."""
    table, samples = context.table("batch"), context.scalar("batch/samples")
    if table is None or not samples or table.rows.sites[0] != ROOT_SITE:
        return False
    calls = [row for row, site in enumerate(table.rows.sites) if site == ROOT_SITE and table.present[row]]
    width = sum(table.value(row, "size") for row in calls) / samples
    low, high = table.value(0, "min"), table.value(0, "max")
    mean, square = table.value(0, "mean"), table.value(0, "l2_norm") ** 2 / table.value(0, "size")
    if (low, high) == (0.0, 1.0) and isclose(mean, square, rel_tol=_ROUNDING):
        return isclose(mean * width, round(mean * width), rel_tol=_ROUNDING)
    if width > _MOST or width != high - low + 1:
        return False
    return isclose(square, sum(value * value for value in range(int(low), int(high) + 1)) / width, rel_tol=_ROUNDING)
