"""The same batch again and again."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import isclose

import numpy as np

from ...storage import ROOT_SITE, Finding, OptimizerInfo
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..recording import Recording, chain
from ..rule import FORWARD, rule

_MODEL = chain("one:Dense", "two:Dense")
_WHOLE = replace(_MODEL, optimizers=(OptimizerInfo("LBFGS", ({"lr": 1.0},)),))
#: Equal batches in a row. An epoch boundary can repeat one batch, a shuffled epoch not five. If no batch ever
#: differed, the rule waits longer, so that an evaluation may show whether the batch is the whole data set (our
#: choice).
_IN_A_ROW, _FROM_THE_START = 5, 12
#: Relative error of sums over a batch in float32, and the longest permutation that is recognised.
_ROUNDING, _MOST = 1e-5, 1 << 16
_ONE_HOT = {" batch/min": 0.0, " batch/max": 1.0, " batch/mean": 0.1, " batch/l2_norm": 8.0, " batch/size": 640.0}


@dataclass(slots=True)
class _RepeatedBatchState:
    """The latest checksums."""

    latest: deque[float] = field(default_factory=lambda: deque(maxlen=_FROM_THE_START))
    since: int = 0
    has_varied: bool = False
    is_all_there_is: bool = False
    is_reported: bool = False


def _skip_window(lookahead: Lookahead, memory: _RepeatedBatchState) -> SkipWindow | None:
    return lookahead.whole if memory.is_reported else SkipWindow(lookahead.until_scalar("batch/checksum"))


@rule(
    "repeated-batch",
    needs=("scalar/batch/checksum",),
    phase=FORWARD,
    skip_window=_skip_window,
    memory=_RepeatedBatchState,
    warm_up=_IN_A_ROW,
    is_fact=True,
    is_optional=True,
    asks="intent",
    fires_on=(
        Recording({"scalar/batch/checksum": (7.0,) * 14}, _MODEL),
        Recording({"scalar/batch/checksum": (1.0, 2.0, 3.0, *(4.0,) * 8)}, _MODEL),
    ),
    silent_on=(
        Recording({"scalar/batch/checksum": (1.0, 2.0, 3.0, 4.0) * 6}, _MODEL),
        Recording({"scalar/batch/checksum": (1.0, 2.0, 2.0, 3.0) * 6}, _MODEL),
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

    The rule fires when five batches in a row have the same checksum after earlier ones differed, or when the first
    twelve are equal. Only the person knows whether that is meant: training on the whole data set at once, or on one
    batch as a test, looks the same.

    Some trainings need equal batches and are left out: L-BFGS compares losses of one function (Liu and Nocedal 1989),
    and a model evaluated on the very values that it is trained on, such as the nodes of one graph, is given all there
    is. Checksums do not tell the order of values, so batches whose samples hold the same values in another order, such
    as one-hot rows or permutations, are left out too.

    Look for `next(iter(loader))` inside the loop.
    """
    checksum = context.scalar("batch/checksum")
    if checksum is None or memory.is_reported:
        return
    memory.is_all_there_is |= _is_evaluated_on(context)
    if memory.latest and checksum != memory.latest[-1]:
        memory.has_varied, memory.since = True, context.step
        memory.latest.clear()
    memory.since = context.step if not memory.latest else memory.since
    memory.latest.append(checksum)
    if len(memory.latest) < (_IN_A_ROW if memory.has_varied else _FROM_THE_START):
        return
    memory.is_reported = True
    if (not memory.has_varied and (memory.is_all_there_is or _needs_everything(context))) or _says_nothing(context):
        return
    yield context.finding(
        ROOT_SITE,
        "scalar/batch/checksum",
        {"checksum": checksum, "batches": len(memory.latest), "varied_before": float(memory.has_varied)},
        severity="error" if memory.has_varied else "warning",
        first_step=memory.since,
        position=0,
        explanation=f"every batch since step {memory.since} is the same, value for value"
        + (", while earlier batches differed" if memory.has_varied else ""),
        advice="look for next(iter(loader)) inside the loop, a sampler that is made anew with the same seed, or a "
        "loader that has run dry; if the data set is a single batch, do nothing",
    )


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
