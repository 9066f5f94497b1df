"""Which loss the training uses and what it is given: a small sample, looked at ever more rarely."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Json
from .domain import domain_of
from .targets import Targets

_Rows = TypeVar("_Rows", bound=Any)
#: Rows of the sample: enough to tell probabilities from chance, too few to cost anything; and elements, of which fewer
#: may look like anything.
_ROWS, _ELEMENTS = 8, 64
#: From then on every so many calls one is looked at; before it the first three and every power of two (our choice).
_EVERY = 256
_FIRST = 3


@dataclass(frozen=True, slots=True)
class LossCall:
    """One call of a loss.

    Args:
        name: `cross_entropy`, `nll_loss`, `binary_cross_entropy` and so on: torch's words, whichever the framework.
        sample: Makes `(rows, columns)` of its input, classes along the columns.
        shapes: Of input and target, where they are known.
        options: `reduction` and whatever else is plain.
        target: Makes an array of what the input is compared with; None where that is not known.
        made_by: The operation that made its input, in lower case (`sigmoid`), views left out; empty where not known.
    """

    name: str
    sample: Callable[[], NDArray[Any]]
    shapes: tuple[tuple[int, ...], ...] = ()
    options: Mapping[str, Json] | None = None
    target: Callable[[], NDArray[Any]] | None = None
    made_by: str = ""


class LossFacts:
    """Tells of every loss once, and again when the domain of its input has changed.

    A domain that was told too early is corrected: an event replaces the one before it.
    """

    def __init__(self) -> None:
        self._calls: dict[str, int] = {}
        self._told: dict[str, tuple[object, ...]] = {}
        self._targets = Targets()

    def is_due(self, name: str) -> bool:
        """Whether this call of the loss is to be looked at; counts it."""
        count = self._calls.get(name, 0) + 1
        self._calls[name] = count
        return count <= _FIRST or count % _EVERY == 0 or (count < _EVERY and count & (count - 1) == 0)

    def look(self, call: LossCall) -> tuple[Mapping[str, float], dict[str, Json]]:
        """Scalars of the labels, and what is new about the input, for an event `loss_input`; both may be empty."""
        scalars = self._targets.look(call.target()) if call.target is not None else {}
        return scalars, self._news(call, call.sample())

    def _news(self, call: LossCall, sample: NDArray[Any]) -> dict[str, Json]:
        domain = domain_of(sample)
        before = self._told.get(call.name)
        if domain in ("constant", "non_finite", "empty") and before is not None:
            return {}  # says nothing about what the numbers are meant to be
        facts = (domain, sample.shape[-1] if sample.ndim else 0)
        if before == facts:
            return {}
        self._told[call.name] = facts
        finite = sample[np.isfinite(sample.astype(np.float64))] if sample.size else sample
        sums = sample.astype(np.float64).sum(-1) if sample.size else np.zeros(1)
        return {
            "loss": call.name,
            "domain": domain,
            "columns": facts[1],
            "made_by": call.made_by or None,
            "values": int(sample.size),
            "min": float(finite.min()) if finite.size else None,
            "max": float(finite.max()) if finite.size else None,
            "row_sum_min": float(sums.min()) if np.isfinite(sums).all() else None,
            "row_sum_max": float(sums.max()) if np.isfinite(sums).all() else None,
            "shapes": [list(shape) for shape in call.shapes],
            "options": dict(call.options or {}),
        }


def some_of(rows: _Rows) -> _Rows:
    """The sample of all rows, `(rows, columns)` of any framework: spread evenly over them, with all their columns."""
    wanted = max(_ROWS, -(-_ELEMENTS // max(1, rows.shape[1])))
    sample: _Rows = rows[:: max(1, rows.shape[0] // wanted)][:wanted]
    return sample
