"""The lifecycle of a step: which forwards, backward passes and optimizer steps make up one."""

from collections.abc import Callable
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Event, Json
from ..aside import is_aside
from ..collectors.collector import View
from ..device_results import LateScalar
from ..errors import TrainingStopped
from ..hooks.output_hooks import OutputHooks
from ..kernels import STATISTICS, Arrays
from ..recording.first_step import finite_or_none
from ..recording.recorder import Recorder


class HoldsGradients(Protocol):
    """What a view tells of its gradients; an optimizer of None is all of them."""

    optimizers: list[Any]
    stepping: Any

    @property
    def is_away(self) -> bool:
        """Whether any parameter lies on a device that measures by itself."""

    def gradients(self) -> Arrays:
        """Where they lie."""

    def has_gradients(self) -> bool:
        """Whether any parameter holds one that is not zero."""

    def rows_held(self) -> frozenset[int]:
        """The parameters that hold one that is not zero; none of those on a device."""

    def rows_of(self, optimizer: Any) -> frozenset[int]:
        """The parameters that the optimizer steps."""

    def is_cleared(self, optimizer: Any) -> bool:
        """Whether none of its parameters holds one that is not zero; False where it lies on a device."""


class Passes:
    """Counts the passes of every optimizer since its gradients were last cleared or used."""

    def __init__(self, view: HoldsGradients) -> None:
        self._view = view
        self._counts: dict[int, int] = {}
        self._left: dict[int, float] = {}
        self._used = 0

    def backward_begins(self, *, begins_step: bool) -> bool:
        """A pass is about to add to the gradients; whether those before it in the step count for nothing.

        Args:
            begins_step: The first since a step, and none is declared to be summed.
        """
        if begins_step:
            self._left = self._held() if self._view.has_gradients() else {}
        elif self._left:
            held = self._view.rows_held()
            self._left = {row: norm for row, norm in self._left.items() if row in held}
        is_anew = True
        for optimizer in self._view.optimizers or (None,):
            count = self._counts.get(id(optimizer), 0)
            is_fresh = count > 0 and self._view.is_cleared(optimizer)
            is_anew = is_anew and is_fresh
            self._counts[id(optimizer)] = 1 if is_fresh else count + 1
        return is_anew

    def stepped(self, optimizer: Any) -> None:
        """The optimizer, None where there is none, has used its gradients."""
        self._used = max(self._used, self._counts.pop(id(optimizer), 0))

    def take(self, stepped: tuple[Any, ...]) -> tuple[int, int, float]:
        """Passes in the step that ends; how many parameters of the optimizers that stepped were moved by gradients of
        earlier steps as well, and the norm of those."""
        used, self._used = self._used, 0
        left, self._left = self._left, {}
        if not left:
            return used, 0, 0.0
        if stepped:
            mine = frozenset[int]().union(*(self._view.rows_of(one) for one in stepped))
            left = {row: norm for row, norm in left.items() if row in mine}
        return used, len(left), float(np.sqrt(sum(norm * norm for norm in left.values())))

    def _held(self) -> dict[int, float]:
        self._view.stepping = None
        norms = self._view.gradients().statistics()[:, 0]
        return {int(row): float(norms[row]) for row in np.flatnonzero(norms > 0.0)}


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


class StaleGradients:
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


class OptimizedView(View, HoldsGradients, Protocol):
    """A view that also knows its optimizers."""


class Course:
    """Tells the recorder what happens, from what the framework's hooks say.

    Args:
        before_step: Called before the optimizers' first step in a step, to look for what is new.
        at_end: Called as a step ends.
    """

    def __init__(
        self,
        recorder: Recorder,
        view: OptimizedView,
        taps: OutputHooks,
        *,
        before_step: Callable[[], None],
        at_end: Callable[[], None],
    ) -> None:
        self._recorder, self._current, self._view, self._taps = recorder, recorder.current, view, taps
        self._look, self._at_end = before_step, at_end
        self._began: set[int] = set()
        self._stepped: set[int] = set()
        self._passes, self._stale_gradients = Passes(view), StaleGradients(recorder, view)
        #: Backward passes that the step that ends has summed.
        self.passes = 0
        self._expects_none = self._is_skipped = False
        self._take_turns = True

    def forward_begins(self, *_: object) -> None:
        """The model is called; a forward that counts opens the step.

        Between the optimizers of one step, and inside an optimizer that evaluates the model again, it is no micro-step.
        What is asked aside, as by a search for adversarial inputs, takes the time of an evaluation.
        """
        if self._stepped or self._began:
            return
        if self._taps.counts():
            self._recorder.forward_begins()
        else:
            self._recorder.time.enter_evaluation()

    def backward_begins(self, loss: Callable[[], float | LateScalar | None]) -> bool:
        """Whether the backward pass that starts is of this model: a forward came before; `loss` reads its root."""
        recorder, current = self._recorder, self._current
        if current.is_idle or not current.is_open or self._began or is_aside():
            return False
        try:
            begins_step, self._expects_none = self._expects_none, False
            is_anew = self._passes.backward_begins(begins_step=begins_step)
            if begins_step:
                self._stale_gradients.look_away()
            recorder.backward_begins(loss(), is_anew=is_anew)
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail("loss", error)
        return True

    def step_begins(self, optimizer: Any) -> None:
        """The optimizer is called, and may evaluate the model before it steps."""
        if id(optimizer) in self._stepped:
            self._take_turns = False
            self.end()

    def before_step(self, optimizer: Any) -> bool:
        """The optimizer is about to step; True when the configuration wants the update left out.

        Raises:
            TrainingStopped: It wants the training to end before the update.
        """
        self.update_begins(optimizer)
        if self._current.is_idle or not self._recorder.refusal or not self._current.has_bad_gradient:
            return False
        self._is_skipped = True
        self._recorder.event("update_refused")
        if self._recorder.refusal == "stop":
            if not self._stepped:
                self._current.refused = self._current.step
            self.end()
            self._recorder.flush(wait=True)  # which shows the record to the rules, and raises with what they find
            raise TrainingStopped(
                f"the gradient of step {self._current.step - 1} is not finite; the weights are as before"
            )
        return True

    def update_begins(self, optimizer: Any) -> None:
        """The optimizer is about to step, and nothing will keep it from that."""
        if id(optimizer) in self._began:
            return
        if id(optimizer) in self._stepped:
            self.step_begins(optimizer)
        self._began.add(id(optimizer))
        if not self._current.is_idle:
            self._look()
            self._view.stepping = optimizer
            self._recorder.before_step(self._view)

    def after_step(self, optimizer: Any) -> None:
        """The optimizer has stepped."""
        if self._current.is_idle and len(self._view.optimizers) == 1 and not (self._began or self._is_skipped):
            self._stepped.clear()
            self._passes.stepped(optimizer)
            self._recorder.after_step(self._view)
            return
        self._began.discard(id(optimizer))
        self._stepped.add(id(optimizer))
        self._passes.stepped(optimizer)
        if not self._take_turns or len(self._stepped) >= len(self._view.optimizers):
            self.end()

    def step_skipped(self, optimizer: Any, loss_scale: float) -> None:
        """Overflow has kept the optimizer from stepping."""
        self._current.loss_scale = loss_scale
        self.update_begins(optimizer)
        self.note_skipped(loss_scale)
        self.after_step(optimizer)

    def note_skipped(self, loss_scale: float | None) -> None:
        """The optimizer that is stepping leaves the weights as they are."""
        self._is_skipped = True
        self._recorder.event("step_skipped", loss_scale=loss_scale)

    def _rows_of(self, stepped: tuple[Any, ...]) -> frozenset[int]:
        """The parameters of these optimizers, all of them where there is none."""
        if not stepped:
            return frozenset(range(len(self._view.names)))
        return frozenset[int]().union(*(self._view.rows_of(one) for one in stepped))

    def step_done(self) -> None:
        """The loop says that its step is done."""
        self._view.stepping = None
        self._look()
        self._recorder.before_step(self._view)
        self._passes.stepped(None)
        self.end()

    def end(self) -> None:
        """The step is over."""
        stepped = tuple([one for one in self._view.optimizers if id(one) in self._stepped])
        self._stepped.clear()
        self._began.clear()
        if not self._current.is_idle:
            self.passes, left, norm = self._passes.take(stepped)
            if left:
                self._stale_gradients.tell(left, norm)
            if self._stale_gradients.is_away:
                self._stale_gradients.tell_away(self._rows_of(stepped))
            self._expects_none = self._recorder.config.accumulation_steps == 1
            self._taps.forget()
            self._at_end()
        skipped, self._is_skipped = self._is_skipped, False
        self._recorder.after_step(self._view, skipped=skipped)
