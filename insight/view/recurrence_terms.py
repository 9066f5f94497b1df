"""The two sides of an optimizer's recurrence: what a slot is after a step, and what it must be by its options."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..history.series import Floats, Mask
from .facts import as_number
from .groups import group_of
from .table import Rows

if TYPE_CHECKING:
    from .moment import Moment

#: Relative misfit that rounding leaves: 1e-6 in float32 trainings of ours, and half a digit of what is narrower.
_MISFIT = {"float16": 2.0**-8, "bfloat16": 2.0**-5}
_FITS = 1e-4
#: An option that was changed, or one factor of all gradients, explains so many rows and more to so many times the
#: misfit of each; momentum and beta2 below this are no options.
_FEWEST, _EXACT, _LEAST_KEPT = 2, 4.0, 0.3
#: By kind: the slot that holds a mean of squares. Decay that is added to the gradient is left out.
_SQUARES = {
    "adam": "exp_avg_sq",
    "adamw": "exp_avg_sq",
    "nadam": "exp_avg_sq",
    "radam": "exp_avg_sq",
    "adamweightdecay": "exp_avg_sq",
    "rmsprop": "square_avg",
}
_MOMENTUM = ("sgd", "momentum")
MOMENTUM_SLOT = "optimizer/momentum_buffer"
SLOTS = sorted({*(f"optimizer/{name}" for name in _SQUARES.values()), MOMENTUM_SLOT})
#: The values of a statistic of a subject, by the rows of the slot.
_Columns = Callable[[str, str], Floats]


@dataclass(frozen=True, slots=True)
class Terms:
    """Of each row: `now` must be `keep * before + gain * fed`, to `scale` times the relative misfit.

    Args:
        is_mean: `gain` is `1 - keep`, so that a changed option changes both.
    """

    now: Floats
    before: Floats
    fed: Floats
    keep: Floats
    gain: Floats
    scale: Floats
    is_mean: bool

    @property
    def expected(self) -> Floats:
        """The right side."""
        return self.keep * self.before + self.gain * self.fed

    def has_one_reason(self, rows: Mask) -> bool:
        """Whether one changed option, or one factor of all gradients since the look at them, explains these rows."""
        if rows.sum() < _FEWEST:
            return False
        base = self.fed if self.is_mean else np.zeros(len(self.fed))
        kept = self._ratio(self.now - np.where(self.is_mean, 1.0, self.gain) * self.fed, self.before - base, rows)
        gain = 1.0 - kept if self.is_mean else self.gain
        scaled = self._ratio(self.now - self.keep * self.before, self.gain * self.fed, rows)
        by_option = _LEAST_KEPT < kept <= 1.0 and self._fits(kept * self.before + gain * self.fed, rows)
        by_scale = 0.0 < scaled <= 1.0 and self._fits(self.keep * self.before + scaled * self.gain * self.fed, rows)
        return by_option or by_scale

    def _ratio(self, above: Floats, below: Floats, rows: Mask) -> float:
        """Of the row where it is the surest."""
        sure = np.where(rows, np.abs(below) / np.maximum(self.scale, 1e-300), -1.0)
        row = int(np.argmax(sure))
        return float(above[row] / below[row]) if below[row] else 0.0

    def _fits(self, expected: Floats, rows: Mask) -> bool:
        return bool((np.abs(self.now - expected) <= _EXACT * self.scale)[rows].all())


def terms_of(
    slot: str, options: tuple[Floats, Floats, Floats], column: _Columns, before: Floats, weights: Floats
) -> Terms:
    """The terms of `(rows,)`, or of the `(records, rows)` of several steps.

    Args:
        before: The mean of the slot after the step before; `weights` that of the weights.
    """
    size, norm = column("gradient", "size"), column("gradient", "l2_norm")
    squares = norm * norm / size
    keep, decay, misfit = options
    means = column(slot, "mean")
    if slot != MOMENTUM_SLOT:
        scale = misfit * (means + keep * before)
        return Terms(means, before, squares, keep, 1.0 - keep, scale, is_mean=True)
    rms = column(slot, "l2_norm") / np.sqrt(column(slot, "size"))
    plain = np.where(decay == 0.0, 0.0, decay * weights)
    fed = column("gradient", "mean") + plain
    # the mean of what has both signs is small against its elements, whose rounding it inherits
    scale = misfit * np.abs(means) + 0.1 * misfit * (rms + np.sqrt(squares))
    return Terms(means, before, fed, keep, np.ones(keep.shape), scale, is_mean=False)


def by_site(now: "Moment", subject: str, statistic: str, rows: Rows) -> Floats:
    """`(rows,)` the statistic of another subject; NaN where it is not there, or holds what is not finite."""
    table = now.table(subject)
    if table is None:
        return np.full(len(rows.sites), np.nan)
    return table.at(rows, table.finite(table.column(statistic)))


def options_of(now: "Moment", slot: str, sites: list[str]) -> tuple[Floats, Floats, Floats]:
    """`(sites,)` how much is kept of the state, decay added to the gradient, relative misfit; NaN where not known."""
    keep, decay, misfit = (np.full(len(sites), np.nan) for _ in range(3))
    for row, site in enumerate(sites):
        if (found := group_of(now.anatomy, site)) is None:
            continue
        kind, group = found.kind, found.options
        misfit[row] = _MISFIT.get(now.anatomy.parameters[site].dtype, _FITS)
        added = 0.0 if kind in ("adamw", "adamweightdecay") or group.get("decoupled_weight_decay") is True else None
        decay[row] = added if added is not None else as_number(group.get("weight_decay"), 0.0)
        if slot == MOMENTUM_SLOT:
            is_plain = kind in _MOMENTUM and not group.get("maximize") and not as_number(group.get("dampening"), 0.0)
            keep[row] = as_number(group.get("momentum")) if is_plain else np.nan
        elif _SQUARES.get(kind) == slot.removeprefix("optimizer/") and decay[row] == 0.0:
            betas = group.get("betas")
            second = betas[1] if isinstance(betas, list | tuple) and len(betas) == 2 else group.get("alpha")
            keep[row] = as_number(second)
    return keep, decay, misfit
