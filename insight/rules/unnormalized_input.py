"""Input that is far from unit scale."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from ...storage import ROOT_SITE, Finding
from ..history.usual import Streak, Usual
from ..recording import Recording, chain
from ..rule import FORWARD, rule
from ..view.moment import Moment

_MODEL = chain("one:Dense", "two:Dense")
_NORMED = chain("norm:LayerNorm", "one:Dense")
#: Root mean square. Standardised input has 1, pixels between 0 and 1 about 0.5, pixels up to 255 above 100 (LeCun et
#: al. 1998, "Efficient BackProp", section 4.3); a decade to either side is borne by usual rates (our choice).
_LARGE, _SMALL = 10.0, 0.01
#: From some step on: by this factor, and 8 deviations, of what it was.
_CHANGED, _STRANGE = 5.0, 8.0
_LASTING = 3
#: Largest value over the root mean square, up to which no few values make the scale: one batch is enough then.
_PEAK = 4.0


@dataclass(slots=True)
class _Memory:
    """What the scale usually is, for how long it has been too far from one, and from its own history."""

    usual: Usual = field(default_factory=lambda: Usual(is_log=True))
    far: Streak = field(default_factory=Streak)
    changed: Streak = field(default_factory=Streak)
    before: float = float("nan")
    seen: int = 0
    is_said: bool = False


def _scale(*by_step: float) -> dict[str, tuple[float, ...]]:
    return {" batch/l2_norm": tuple(8 * value for value in by_step)}


@rule(
    "unnormalized-input",
    needs=("batch",),
    phase=FORWARD,
    memory=_Memory,
    warm_up=_LASTING,
    is_optional=True,
    fires_on=(
        Recording(_scale(*(130.0,) * 5), _MODEL),
        Recording(_scale(*(1e-4,) * 5), _MODEL),
        Recording(_scale(*(1.0, 1.1) * 10, 9.0, 9.1, 9.0), _MODEL),
        # pixels up to 255, in the first batch
        Recording(_scale(130.0) | {" batch/max": 255.0}, _MODEL),
    ),
    silent_on=(
        Recording(_scale(*(0.5,) * 5), _MODEL),
        Recording(_scale(*(1.0, 1.1) * 10, 9.0, 1.0, 1.1), _MODEL),
        # one batch of another scale
        Recording(_scale(1.0, 1.0, 130.0, 1.0) | {" batch/max": 255.0}, _MODEL),
        # one value that is far out, in one batch
        Recording(_scale(130.0) | {" batch/max": 1040.0}, _MODEL),
        # numbers of tokens
        Recording(_scale(*(500.0,) * 5) | {" batch/tokens/entropy": 3.0}, _MODEL),
        Recording(_scale(*(130.0,) * 5), _NORMED),
    ),
)
def check(now: Moment, memory: _Memory) -> Iterator[Finding]:
    """In three batches in a row the root mean square of the input is above 10 or below 0.01, or 5 times what it was.

    The first batch of a run is enough where no few values make its scale: the largest is within 4 of it. The first
    input that is not made of integers counts. A model whose first module normalises bears any scale and is
    left out.
    """
    table = now.table("batch")
    if table is None or memory.is_said or ROOT_SITE not in table.rows.sites:
        return
    row = table.rows.sites.index(ROOT_SITE)
    size = table.value(row, "size")
    if not table.present[row] or table.non_finite[row] or size < 1 or _is_judged_elsewhere(now):
        return
    scale = table.value(row, "l2_norm") / float(np.sqrt(size))
    usual = memory.usual.value
    deviates = abs(memory.usual.update(scale)) > _STRANGE
    is_far = scale > _LARGE or 0 < scale < _SMALL
    has_changed = deviates and scale > 0 and not 1 / _CHANGED < scale / usual < _CHANGED
    if has_changed and memory.changed.length == 0:
        memory.before = usual
    far, changed = memory.far.update(is_far, now.step), memory.changed.update(has_changed, now.step)
    is_plain = (
        is_far and memory.seen == 0 and max(abs(table.value(row, "min")), abs(table.value(row, "max"))) <= _PEAK * scale
    )
    memory.seen += 1
    if max(far, changed) < _LASTING and not is_plain:
        return
    memory.is_said = True
    yield _report(now, memory, scale, table.value(row, "mean"), changed >= _LASTING)


def _is_judged_elsewhere(now: Moment) -> bool:
    """True for numbers of tokens, and for models that begin with a normalisation."""
    tokens = now.table("batch/tokens")
    if tokens is not None and ROOT_SITE in tokens.rows.sites:
        return True
    return "norm" in now.anatomy.first_kind


def _report(now: Moment, memory: _Memory, scale: float, mean: float, has_changed: bool) -> Finding:
    since = memory.changed.since if has_changed else memory.far.since
    before = memory.before if has_changed else float("nan")
    return now.finding(
        ROOT_SITE,
        "batch/l2_norm",
        {"root_mean_square": scale, "mean": mean, "usual": before, "largest": _LARGE, "smallest": _SMALL},
        severity="warning",
        first_step=since,
        place=0,
        explanation=f"since step {since} the input has a root mean square of {scale:.4g} and a mean of {mean:.4g}"
        + (f", before it was {before:.4g}" if has_changed else "; weights are initialised for inputs near 1"),
        advice="subtract the mean and divide by the standard deviation of the training data, and do the same in "
        "validation; pixels are divided by 255 once",
        confidence=0.8,
    )
