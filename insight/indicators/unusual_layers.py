"""Tells when half of all layers have left their own history and stay away from it."""

from collections import deque
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from ..context.step_context import StepContext
from ..running_statistics import Floats, Mask

#: Records between two looks, looks that make a history, and looks in a row: 200 records (our choice).
_EVERY, _HISTORY, _LASTING = 8, 16, 25
_FEWEST_LOOKS: Final = 8
#: Robust deviations, share of the layers, and smallest spread in decades, as the heat map of a run has it.
_FAR, _SHARE, _LEAST_SPREAD = 12.0, 0.5, 0.02
_FEWEST_LAYERS: Final = 4
_TINY: Final = 1e-30
_MAD_TO_SIGMA: Final = 1.4826


@dataclass(frozen=True, slots=True)
class Departure:
    """Layers that are far from their history.

    Args:
        since: The step of the first look.
        sites: The layers, farthest first.
        deviations: The median of theirs.
    """

    subject: str
    since: int
    sites: tuple[str, ...]
    layers: int
    deviations: float


@dataclass(slots=True)
class UnusualLayers:
    """The history of one subject's norms, and for how long half of the layers have been away from it.

    Attributes:
        far: The layers that were far from their history at the newest look, farthest first.
    """

    subject: str
    records: int = 0
    looks: deque[Floats] = field(default_factory=lambda: deque(maxlen=_HISTORY))
    away: int = 0
    since: int = 0
    far: tuple[str, ...] = ()
    is_reported: bool = False

    @property
    def has_history(self) -> bool:
        """Whether enough was seen to judge by."""
        return len(self.looks) >= _FEWEST_LOOKS

    def learn(self, context: StepContext) -> Departure | None:
        """Take the record; return the departure once it has lasted."""
        table = context.table(self.subject)
        if table is None or self.is_reported:
            return None
        self.records += 1
        if self.records % _EVERY:
            return None
        with np.errstate(invalid="ignore"):
            norms = np.where(table.present, np.log10(np.maximum(table.column("l2_norm"), _TINY)), np.nan)
        if self.looks and len(self.looks[-1]) != len(norms):
            self.looks.clear()
            self.away = 0
        deviations = _deviations(self.looks, norms)
        far: Mask = np.abs(deviations) >= _FAR
        judged = int(np.count_nonzero(np.isfinite(deviations)))
        order = np.argsort(-np.nan_to_num(np.abs(deviations)))
        self.far = tuple(table.rows.sites[row] for row in order if far[row])
        if judged < _FEWEST_LAYERS or np.count_nonzero(far) < _SHARE * judged:
            self.looks.append(norms)
            self.away = 0
            return None
        self.since = context.step if self.away == 0 else self.since
        self.away += 1
        if self.away < _LASTING:
            return None
        self.is_reported = True
        return Departure(self.subject, self.since, self.far, judged, float(np.median(np.abs(deviations[far]))))


def _deviations(looks: deque[Floats], norms: Floats) -> Floats:
    """`(rows,)` robust deviations from the looks before, in decades; NaN while there are too few of them."""
    if len(looks) < _FEWEST_LOOKS:
        return np.full(len(norms), np.nan)
    history = np.stack(looks)
    center = np.median(history, axis=0)
    spread = np.maximum(_MAD_TO_SIGMA * np.median(np.abs(history - center), axis=0), _LEAST_SPREAD)
    return np.asarray((norms - center) / spread, dtype=np.float64)
