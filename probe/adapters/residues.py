"""Gradients of earlier steps that a backward pass adds to; those on a device are asked for, and told when they come."""

from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Event, Json
from ..kernels import STATISTICS, Arrays
from ..recording.first_step import finite_or_none
from ..recording.recorder import Recorder

#: Of something that happens at every step, the first so many are noted, and later every so many.
_OFTEN, _SELDOM = 10, 100
_KIND: Final = "gradient_before_forward"


class _View(Protocol):
    stepping: Any

    @property
    def is_away(self) -> bool:
        """Whether any parameter lies on a device."""

    def gradients(self) -> Arrays:
        """Where the gradients lie."""


class Residues:
    """Tells of them ever more rarely.

    Attributes:
        is_away: Whether something was asked for that is to be told.
    """

    def __init__(self, recorder: Recorder, view: _View) -> None:
        self._recorder, self._view = recorder, view
        self._told = 0
        self._away: NDArray[np.float64] | None = None
        self.is_away = False

    def tell(self, parameters: int, norm: float) -> None:
        """Nothing; so many parameters were moved by gradients of this norm as well."""
        if self._is_worth_it():
            self._recorder.event(_KIND, **_data(parameters, norm))

    def look_away(self) -> None:
        """Nothing; a pass begins a step: what a device holds then is asked for, before anything is added to it."""
        outbox = self._recorder.outbox
        self._away, self.is_away = None, False
        if outbox.device is None or not self._view.is_away:
            return
        self._view.stepping = None
        held = self._view.gradients().remote
        if held:
            self._away = np.full((max(held) + 1, len(STATISTICS)), np.nan)
            self.is_away = True
            outbox.owe_rows(held, self._away)
            outbox.launch()

    def tell_away(self, mine: frozenset[int]) -> None:
        """Nothing; the step ends, in which these parameters were moved: it is told when the numbers have come."""
        rows, self._away, self.is_away = self._away, None, False
        recorder = self._recorder
        if rows is None:
            return
        step, micro_step = recorder.current.step, recorder.current.micro_step

        def make() -> list[Event]:
            norms = np.array([rows[row, 0] for row in mine if row < len(rows) and rows[row, 0] > 0.0])
            if not norms.size or not self._is_worth_it():
                return []
            return [Event(_KIND, step, "", micro_step, _data(norms.size, float(np.sqrt((norms**2).sum()))))]

        recorder.outbox.late_events(make)

    def _is_worth_it(self) -> bool:
        self._told += 1
        return self._told <= _OFTEN or self._told % _SELDOM == 0


def _data(parameters: int, norm: float) -> dict[str, Any]:
    data: dict[str, Json] = {"parameters": parameters, "l2_norm": finite_or_none(norm)}
    return data
