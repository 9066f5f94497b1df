"""Input that is far from unit scale."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from ...storage import ROOT_SITE, Event, Finding
from ...storage.training_kinds import TrainingKind
from ..context.step_context import Lookahead, SkipWindow, StepContext
from ..context.subject_table import Table
from ..indicators.executable_checks import at_two_occasions, refutation, refuted, refuted_twice, refuting_event
from ..indicators.far_targets import FarTargets
from ..indicators.lowered_findings import withdrawn
from ..recording import Recording, chain
from ..rule import FORWARD, rule
from ..running_statistics import RobustBaseline, Streak, count_before_first

_MODEL = chain("one:Dense", "two:Dense")
_NORMED = chain("norm:LayerNorm", "one:Dense")
#: Root mean square. Standardised input has 1, pixels between 0 and 1 about 0.5, pixels up to 255 above 100 (LeCun et
#: al. 1998, "Efficient BackProp", section 4.3); usual rates bear a decade to either side (our choice).
_LARGE, _SMALL = 10.0, 0.01
#: Factor, with 8 deviations, by which the scale must have changed.
_CHANGED, _STRANGE = 5.0, 8.0
_LASTING = 3
#: Largest value over the root mean square up to which the scale does not come from few values; one batch is enough
#: then.
_PEAK = 4.0


@dataclass(slots=True)
class _Call:
    """The history of one input's scale, and for how long it has been too far from one or from its history."""

    usual: RobustBaseline = field(default_factory=lambda: RobustBaseline(is_log=True))
    far: Streak = field(default_factory=Streak)
    changed: Streak = field(default_factory=Streak)
    scale: float = float("nan")
    before: float = float("nan")
    seen: int = 0

    @property
    def has_changed(self) -> bool:
        """True if the change of the scale is reported, and not the scale itself."""
        return self.changed.length >= _LASTING

    def learn(self, context: StepContext, table: Table, row: int, *, is_first: bool) -> bool:
        """Learn the batch; return whether its scale is to be reported."""
        scale = self.scale = table.value(row, "l2_norm") / float(np.sqrt(table.value(row, "size")))
        usual = self.usual.value
        deviates = abs(self.usual.update(scale)) > _STRANGE
        # what a later call is given may come from the model: it may begin at zero, and grow as the model diverges
        is_large = scale > _LARGE and (is_first or self.far.length == self.seen)
        is_far = is_large or (is_first and 0 < scale < _SMALL)
        has_changed = is_first and deviates and scale > 0 and not 1 / _CHANGED < scale / usual < _CHANGED
        if has_changed and self.changed.length == 0:
            self.before = usual
        far, changed = self.far.update(is_far, context.step), self.changed.update(has_changed, context.step)
        peak = max(abs(table.value(row, "min")), abs(table.value(row, "max")))
        is_plain = is_far and self.seen == 0 and peak <= _PEAK * scale
        self.seen += 1
        return max(far, changed) >= _LASTING or is_plain


@dataclass(slots=True)
class _UnnormalizedInputState:
    """The input of each call in a step, what the rule has reported, and whether the model scales its input itself."""

    calls: dict[int, _Call] = field(default_factory=dict)
    is_reported: bool = False
    is_scaled: bool = False
    terms: set[tuple[str, str, str]] = field(default_factory=set)
    far: FarTargets = field(default_factory=FarTargets)
    found: Finding | None = None


def _scale(*by_step: float) -> dict[str, tuple[float, ...]]:
    return {" batch/l2_norm": tuple(8 * value for value in by_step)}


def _far(loss: float) -> dict[str, float | tuple[float, ...]]:
    """Return a loss beside that of a constant answer, 3e9."""
    series: dict[str, float | tuple[float, ...]] = {"scalar/loss": tuple(loss for _ in range(120))}
    return series | {"scalar/target/constant_loss": 3e9, " batch/l2_norm": 8.0}


def _skip_window(lookahead: Lookahead, memory: _UnnormalizedInputState) -> SkipWindow | None:
    """Skip records while the scale is near one and near its recent values."""
    table, norms, sizes = (
        lookahead.context.table("batch"),
        *(lookahead.columns("batch", name) for name in ("l2_norm", "size")),
    )
    if memory.is_reported:
        return lookahead.whole
    if table is None or norms is None or sizes is None or lookahead.carries("batch/tokens"):
        return None
    if table.rows.sites.count(ROOT_SITE) != 1:
        return None
    row = table.rows.sites.index(ROOT_SITE)
    call = memory.calls.get(table.rows.calls[row])
    if call is None or not call.seen or call.far.length or call.changed.length:
        return None
    with np.errstate(invalid="ignore", divide="ignore"):
        scales = norms[:, row] / np.sqrt(sizes[:, row])
    lowest, highest = (10.0**decade for decade in call.usual.history.range())
    lows, highs = np.minimum.accumulate(scales), np.maximum.accumulate(scales)
    is_near = np.maximum(highs, highest) < 0.99 * _CHANGED * np.minimum(lows, lowest)
    is_plain = (sizes[:, row] >= 1) & (scales >= _SMALL) & (scales <= _LARGE)

    def learn(records: int) -> None:
        for scale in scales[:records].tolist():
            call.usual.update(scale)
            call.scale = scale
        call.seen += records

    usual = min(lookahead.finite("batch"), count_before_first(~(is_near & is_plain)))
    return SkipWindow(min(usual, lookahead.until_scalar("target/constant_loss")), learn)


_TERMS = "terms_have_a_share_in_the_loss"
_SCALED = "large_inputs_are_scaled_by_the_model"
_LIKE = "asked_networks_get_inputs_as_in_their_training"
_FITS_NUMBERS = Event("training_kind", 0, data=TrainingKind("regression").to_data())
_COLUMNS = refuting_event(
    "input_columns_have_one_scale",
    "column 2 of x has a root mean square of 5.1e+04, column 0 one of 0.5",
    largest=5.1e4,
    smallest=0.5,
)


@rule(
    "unnormalized-input",
    needs=("batch",),
    triggers=("batch", "event/check", "event/accumulation", "scalar/target/constant_loss"),
    phase=FORWARD,
    skip_window=_skip_window,
    memory=_UnnormalizedInputState,
    warm_up=_LASTING,
    is_optional=True,
    fires_on=(
        Recording(structure=_MODEL, events=(_COLUMNS,)),
        Recording(_scale(*(130.0,) * 5), _MODEL),
        Recording(_far(9e10), _MODEL, events=(_FITS_NUMBERS,)),
        Recording(structure=_MODEL, events=(refuting_event(_LIKE, "what reaches the first batch norm of teacher"),)),
        Recording(_scale(*(1e-4,) * 5), _MODEL),
        Recording(_scale(*(1.0, 1.1) * 10, 9.0, 9.1, 9.0), _MODEL),
        Recording(structure=_MODEL, events=at_two_occasions(refuting_event(_TERMS, "mse_loss makes 1e5")), steps=2),
        # pixels up to 255, in the first batch
        Recording(_scale(130.0) | {" batch/max": 255.0}, _MODEL),
    ),
    silent_on=(
        Recording(_far(4e9), _MODEL, events=(_FITS_NUMBERS,)),
        Recording(_far(9e10), _MODEL),  # of unknown kind
        Recording(structure=_MODEL, events=(refuting_event("input_columns_have_one_scale", "", outcome="held"),)),
        Recording(structure=_MODEL, events=(refuting_event(_LIKE, "", outcome="held"),)),
        Recording(structure=_NORMED, events=(_COLUMNS,)),
        Recording(_scale(*(0.5,) * 5), _MODEL),
        Recording(_scale(*(130.0,) * 5), _MODEL, events=(refuting_event(_SCALED, "", outcome="held"),)),
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
def check(context: StepContext, memory: _UnnormalizedInputState) -> Iterator[Finding]:
    """Report input that is far from unit scale, or changes its scale.

    The rule fires when, in three batches in a row, the root mean square of the input is above 10 or below 0.01, or 5
    times what it was. The first batch of a run is enough if its largest value is within 4 times its scale, so that no
    few values make it. An input `(rows, columns)`, whichever argument it is, is also reported if the root mean squares
    of two columns are a factor of 1000 apart and one is above 30.

    Targets count where their distance is one of several terms of a loss, and a thousand times the next one; and in a
    regression whose loss is, after 90 steps, still more than half its first value, above 10,000, and five times what
    the best constant answer would cost.

    The first input that is not made of integers counts, in every forward of a step, since the judge of a generator sees
    other data than the generator. Input of a later forward must be too large from the first step on. A model whose
    first module normalises is left out, and so is one of which a copy shows that no layer with weights is given such
    large numbers, or that its outputs stay as they are when the input is twice as large. Subtract the mean and divide
    by the standard deviation of the training data.
    """
    yield from _columns(context, memory)
    yield from _asked(context)
    yield from _targets(context, memory)
    yield from _far_targets(context, memory)
    yield from _scaled(context, memory)
    table = context.table("batch")
    if (
        table is None
        or memory.is_reported
        or memory.is_scaled
        or any("norm" in kind for kind in context.model.first_kinds)
    ):
        return
    first = _first_of_reals(context, table)
    for row in first:
        call = memory.calls.setdefault(table.rows.calls[row], _Call())
        if not table.present[row] or table.non_finite[row] or table.value(row, "size") < 1:
            continue
        if call.learn(context, table, row, is_first=row == first[0]):
            memory.is_reported = True
            found = _report(context, call, table.value(row, "mean"))
            memory.found = found if call.scale > _LARGE else None
            yield found
            return


def _targets(context: StepContext, memory: _UnnormalizedInputState) -> Iterator[Finding]:
    """Yield a finding for targets of such a scale that their loss leaves nothing for the others, twice."""
    for event in refuted_twice(context, memory.terms, _TERMS):
        if context.kind.name not in ("value", "policy", "physics", "adversarial"):
            yield refutation(
                context,
                event,
                consequence="what both share is trained for the first alone",
                advice="standardise the targets with the mean and deviation of the training data, or weigh the terms",
                metric="scalar/loss",
                severity="warning",
                confidence=0.8,
            )


def _far_targets(context: StepContext, memory: _UnnormalizedInputState) -> Iterator[Finding]:
    """Yield a finding for targets that the answers do not come near."""
    far = memory.far.learn(context)
    if far is not None:
        yield context.finding(
            ROOT_SITE,
            "scalar/loss",
            {"loss": far.loss, "first_loss": far.first, "constant_loss": far.constant},
            severity="warning",
            first_step=0,
            position=0,
            explanation=f"the loss is {far.loss:.3g} at step {context.step}, {far.loss / far.constant:.2g} times what "
            f"the best constant answer would cost, {far.constant:.3g}, and was {far.first:.3g} at first: the targets "
            "lie far from where the answers begin, and the steps are too small to bring them near",
            advice="standardise the targets with the mean and deviation of the training data, or begin the last bias "
            "at their mean",
            confidence=0.8,
        )


def _asked(context: StepContext) -> Iterator[Finding]:
    """Yield a finding for a network that is asked, and gets inputs of another scale than in its training."""
    for event in refuted(context, _LIKE):
        found = refutation(
            context,
            event,
            consequence="its answers are not those that it was trained to give",
            advice="prepare its inputs as in its own training: the same mean, deviation and order of channels",
            metric="batch/l2_norm",
            severity="warning",
            confidence=0.9,
        )
        yield replace(found, site=str(event.data.get("subject")))


def _scaled(context: StepContext, memory: _UnnormalizedInputState) -> Iterator[Finding]:
    """Note that the model scales a large input itself; withdraw, as a notice, what was said of it before."""
    for event in context.events("check"):
        if event.data.get("check") != _SCALED or event.data.get("outcome") != "held":
            continue
        memory.is_scaled = True
        if memory.found is not None:
            words = "the model scales this input itself"
            yield withdrawn(memory.found, context, words)
            memory.found = None


def _columns(context: StepContext, memory: _UnnormalizedInputState) -> Iterator[Finding]:
    """Yield a finding for an input whose columns have very different scales."""
    for event in refuted(context, "input_columns_have_one_scale"):
        if memory.is_reported or any("norm" in kind for kind in context.model.first_kinds):
            continue
        memory.is_reported = True
        yield refutation(
            context,
            event,
            consequence="the largest columns decide the output and the gradient alone",
            advice="standardise each column with the mean and deviation of the training data; take the logarithm of "
            "amounts",
            metric="batch/l2_norm",
            severity="warning",
            confidence=0.8,
        )


def _first_of_reals(context: StepContext, table: Table) -> list[int]:
    """Return the rows of the first input that is not made of integers, one for each call."""
    tokens = context.table("batch/tokens")
    if tokens is None or ROOT_SITE not in tokens.rows.sites:
        return [row for row, site in enumerate(table.rows.sites) if site == ROOT_SITE]
    if any("norm" in module.kind.lower() for module in context.model.modules.values()):
        return []  # nobody knows which module this input enters first
    others = [site for site in table.rows.sites if site not in tokens.rows.sites]
    return [row for row, site in enumerate(table.rows.sites) if others and site == others[0]]


def _report(context: StepContext, call: _Call, mean: float) -> Finding:
    scale, has_changed = call.scale, call.has_changed
    since = call.changed.since if has_changed else call.far.since
    before = call.before if has_changed else float("nan")
    return context.finding(
        ROOT_SITE,
        "batch/l2_norm",
        {"root_mean_square": scale, "mean": mean, "usual": before, "largest": _LARGE, "smallest": _SMALL},
        severity="warning",
        first_step=since,
        position=0,
        explanation=f"since step {since} the input has a root mean square of {scale:.4g} and a mean of {mean:.4g}"
        + (
            f"; before, its root mean square was {before:.4g}"
            if has_changed
            else "; weights are initialised for inputs near 1"
        ),
        advice="subtract the mean and divide by the standard deviation of the training data, and do the same in "
        "validation; divide pixels by 255 exactly once",
        confidence=0.8,
    )
