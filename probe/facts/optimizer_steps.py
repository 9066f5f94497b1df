"""How many steps the optimizers' own states count: where the run resumed, and a state that was lost on the way."""

from collections.abc import Callable, Sequence
from typing import Any

from ...storage.records import Json
from ..recording.recorder import Recorder


class OptimizerSteps:
    """Compares the steps that an optimizer's state counts with those before.

    Args:
        optimizers: Those watched now; the list grows.
        count: The steps of one; None where it keeps no count.
        slots: Names of the state tensors that it holds.
    """

    def __init__(
        self,
        recorder: Recorder,
        optimizers: Sequence[Any],
        count: Callable[[Any], int | None],
        slots: Callable[[Any], Sequence[str]],
    ) -> None:
        self._recorder, self._optimizers = recorder, optimizers
        self._count, self._slots = count, slots
        self._known: dict[int, int | None] = {}

    def before_step(self) -> None:
        """Tells `resumed` of an optimizer that has state before its first watched step, `optimizer_state_lost` of one
        whose count has gone back."""
        for number, optimizer in enumerate(self._optimizers):
            if number not in self._known:
                self._begin(number, optimizer)
                continue
            before = self._known[number]
            if before is not None and (now := self._count(optimizer) or 0) < before:
                self._known[number] = now
                self._recorder.event("optimizer_state_lost", optimizer=number, count=now, count_before=before)

    def step_ends(self) -> None:
        """Notes the counts."""
        for number in self._known:
            self._known[number] = self._count(self._optimizers[number])

    def _begin(self, number: int, optimizer: Any) -> None:
        count = self._count(optimizer) or 0
        self._known[number] = count
        kind = type(optimizer).__name__
        slots: list[Json] = list(self._slots(optimizer))
        self._recorder.event("optimizer_step_count", optimizer=number, optimizer_kind=kind, count=count)
        if count:
            self._recorder.event("resumed", optimizer=number, optimizer_kind=kind, count=count, slots=slots)
