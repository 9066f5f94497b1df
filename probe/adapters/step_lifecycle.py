"""The lifecycle of a step: which forwards, backward passes and optimizer steps make up one."""

from collections.abc import Callable, Mapping
from types import NoneType
from typing import Any, Final, Protocol

import numpy as np
from numpy.typing import NDArray

from ...storage.records import Event, Json
from ..aside import is_aside
from ..checks.program_text.own_files import own_sources, recorded_sources
from ..checks.program_text.text_checks import text_checks
from ..collectors.collector import View
from ..errors import TrainingStopped
from ..hooks.output_hooks import OutputHooks
from ..kernels import STATISTICS, Arrays
from ..late_scalars import LateScalar
from ..recording.first_step import finite_or_none
from ..recording.recorder import Recorder


class GradientView(Protocol):
    """What a view knows of its gradients; an optimizer of None stands for all of them."""

    optimizers: list[Any]  # Any: each framework has a class of its own
    stepping: Any

    @property
    def is_away(self) -> bool:
        """Whether any parameter lies on a device that measures by itself."""

    def gradients(self) -> Arrays:
        """Return where they lie."""

    def has_gradients(self) -> bool:
        """Return whether any parameter holds one that is not zero."""

    def rows_held(self) -> frozenset[int]:
        """Return the parameters that hold one that is not zero; none of those on a device."""

    def rows_of(self, optimizer: Any) -> frozenset[int]:
        """Return the parameters that the optimizer steps."""

    def is_cleared(self, optimizer: Any) -> bool:
        """Return whether none of its parameters holds one that is not zero; False if it lies on a device."""


class Passes:
    """Counts the backward passes of every optimizer since its gradients were last cleared or used.

    Attributes:
        counts: Passes by the optimizer's id; none while steps are idle.
        cleared: Ids of the optimizers whose gradients were cleared before the newest pass.
        total: All passes so far, those of idle steps left out.
    """

    def __init__(self, view: GradientView) -> None:
        self._view = view
        self.counts: dict[int, int] = {}
        self.cleared: set[int] = set()
        self.total = 0
        self._left: dict[int, float] = {}
        self._used = 0

    def backward_begins(self, *, begins_step: bool) -> bool:
        """Count a pass that is about to add to the gradients; return whether the step's earlier ones count for nothing.

        Args:
            begins_step: Whether it is the first since a step, and none is declared to be summed.
        """
        self.total += 1
        if begins_step:
            self._left = self._held() if self._view.has_gradients() else {}
        elif self._left:
            held = self._view.rows_held()
            self._left = {row: norm for row, norm in self._left.items() if row in held}
        is_anew = True
        self.cleared.clear()
        for optimizer in self._view.optimizers or (None,):
            count = self.counts.get(id(optimizer), 0)
            is_fresh = count > 0 and self._view.is_cleared(optimizer)
            is_anew = is_anew and is_fresh
            self.counts[id(optimizer)] = 1 if is_fresh else count + 1
            if is_fresh:
                self.cleared.add(id(optimizer))
        return is_anew

    def stepped(self, optimizer: object) -> None:
        """Note that the optimizer, None if there is none, has used its gradients."""
        self._used = max(self._used, self.counts.pop(id(optimizer), 0))

    def take(self, stepped: tuple[object, ...]) -> tuple[int, int, float]:
        """Return the passes of the step that ends, and what it used of the gradients of earlier steps.

        Returns:
            Passes; parameters of the optimizers that stepped that gradients of earlier steps moved as well; the norm of
            those gradients.
        """
        used, self._used = self._used, 0
        left, self._left = self._left, {}
        if not left:
            return used, 0, 0.0
        if stepped:
            mine = frozenset[int]().union(*(self._view.rows_of(optimizer) for optimizer in stepped))
            left = {row: norm for row, norm in left.items() if row in mine}
        return used, len(left), float(np.sqrt(sum(norm * norm for norm in left.values())))

    def _held(self) -> dict[int, float]:
        self._view.stepping = None
        norms = self._view.gradients().statistics()[:, 0]
        return {int(row): float(norms[row]) for row in np.flatnonzero(norms > 0.0)}


#: Of something that happens at every step, the first few are reported, and later one in so many.
_OFTEN, _SELDOM = 10, 100
_KIND: Final = "gradient_before_forward"


class StaleGradients:
    """Reports gradients of earlier steps that move the weights, ever more rarely.

    Attributes:
        is_away: Whether a device was asked for the gradients that it held as the step began.
    """

    def __init__(self, recorder: Recorder, view: GradientView) -> None:
        self._recorder, self._view = recorder, view
        self._reports = 0
        self._away: list[NDArray[np.float64]] = []
        self.is_away = False

    def report(self, parameters: int, norm: float) -> None:
        """Record that gradients of this norm have moved so many parameters as well."""
        if self._is_reported():
            self._recorder.event(_KIND, "", **_data(parameters, norm))

    def request(self, *, begins_step: bool) -> None:
        """Ask the device what it holds as a pass begins, before anything is added to it.

        What it does not hold any more as a later pass of the step begins was cleared in between.
        """
        device_results = self._recorder.device_results
        if begins_step:
            self._away, self.is_away = [], False
        if device_results.device is None or not self._view.is_away:
            return
        self._view.stepping = None
        held = self._view.gradients().remote
        if held or self._away:
            rows = np.full((max([*held, 0]) + 1, len(STATISTICS)), np.nan)
            self._away.append(rows)
            self.is_away = True
        if held:
            device_results.request_rows([*held], held.values(), rows)
            device_results.launch()

    def report_later(self, mine: frozenset[int]) -> None:
        """Record, when the device's numbers have come, what of them has moved these parameters in the step."""
        away, self._away, self.is_away = self._away, [], False
        recorder = self._recorder
        if not away:
            return
        step, micro_step = recorder.current.step, recorder.current.micro_step

        def make() -> list[Event]:
            left = [row for row in mine if all(row < len(rows) and rows[row, 0] > 0.0 for rows in away)]
            norms = away[0][left, 0]
            if not norms.size or not self._is_reported():
                return []
            return [Event(_KIND, step, "", micro_step, _data(norms.size, float(np.sqrt((norms**2).sum()))))]

        recorder.device_results.late_events(make)

    def _is_reported(self) -> bool:
        self._reports += 1
        return self._reports <= _OFTEN or self._reports % _SELDOM == 0


def _data(parameters: int, norm: float) -> dict[str, Json]:
    return {"parameters": parameters, "l2_norm": finite_or_none(norm)}


class OptimizedView(View, GradientView, Protocol):
    """A view that also knows its optimizers."""


class StepLifecycle:
    """Derives the steps of a training from what the framework's hooks report, for the recorder.

    Args:
        modules: The watched modules by site.
        before_step: Called before the optimizers' first step in a step, to look for what is new.
        at_end: Called with the number of summed backward passes as a step ends.

    Attributes:
        passes: Counts the backward passes of every optimizer.
        is_told_of_steps: Whether the loop reports its steps itself, by `step_done`.
        note_step: Called with each of several optimizers that has stepped, in a step that is not idle.
    """

    def __init__(
        self,
        recorder: Recorder,
        view: OptimizedView,
        output_hooks: OutputHooks,
        *,
        modules: Mapping[str, object],
        before_step: Callable[[], None],
        at_end: Callable[[int], None],
    ) -> None:
        self._recorder, self._current, self._view, self._hooks = recorder, recorder.current, view, output_hooks
        self._modules, self._look, self._at_end = modules, before_step, at_end
        self.note_step: Callable[[Any], None] | None = None
        self.is_told_of_steps = self._is_prepared = self._has_read_text = False
        self._began: set[int] = set()
        self._stepped: set[int] = set()
        self.passes, self._stale = Passes(view), StaleGradients(recorder, view)
        self._expects_none = self._is_skipped = False
        self._take_turns = True

    def forward_begins(self, *_: object) -> None:
        """Open the step if a forward that begins now counts; otherwise its time is an evaluation's.

        Between the optimizers of one step, and inside an optimizer that evaluates the model again, it is no micro-step.
        """
        self.forward_opens(counts=self._hooks.counts())

    def forward_opens(self, *, counts: bool) -> None:
        """Do what `forward_begins` does for a caller that knows whether the forward counts."""
        if self._stepped or self._began:
            return
        if counts:
            self._recorder.forward_begins()
        else:
            self._recorder.time.enter_evaluation()

    def backward_begins(self, loss: Callable[[], float | LateScalar | None]) -> bool:
        """Return whether a backward pass is the training's: a forward came before. `loss` reads what it starts from."""
        recorder, current = self._recorder, self._current
        if current.is_idle or not current.is_open or self._began or is_aside():
            return False
        try:
            begins_step, self._expects_none = self._expects_none, False
            is_anew = self.passes.backward_begins(begins_step=begins_step)
            if self._stale.is_away or (begins_step and self._view.is_away):
                self._stale.request(begins_step=begins_step)
            recorder.backward_begins(loss(), is_anew=is_anew)
        except BaseException as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail("loss", error)
        return True

    def step_begins(self, optimizer: object) -> None:
        """Note that the optimizer is called, and may evaluate the model before it steps."""
        if id(optimizer) in self._stepped:
            self._take_turns = False
            self.end()

    def refuses_update(self) -> bool:
        """Return whether the configuration wants an update left out whose gradients were recorded just now.

        Raises:
            TrainingStopped: It wants the training to end before the update.
        """
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

    def update_begins(self, optimizer: object) -> None:
        """Record what the optimizer is about to use; its update is certain."""
        if id(optimizer) in self._began:
            return
        if id(optimizer) in self._stepped:
            self.step_begins(optimizer)
        self._began.add(id(optimizer))
        if not self._current.is_idle:
            self._look()
            self._view.stepping = optimizer
            self._recorder.before_step(self._view)
            if not self._has_read_text:
                self._read_text()

    def _read_text(self) -> None:
        """Record what the program's text tells, once all of its modules are there."""
        self._has_read_text = True
        if not self._recorder.config.checks:
            return
        with self._recorder.guard.quietly():
            script, texts = own_sources()
            if (recorded := recorded_sources(script, texts)) is not None:
                self._recorder.event("program_text", **recorded)
            for result in text_checks(script, texts, self._modules):
                self._recorder.event("check", "", occasion=1, **result.data())

    def after_step(self, optimizer: object) -> None:
        """Note that the optimizer has stepped, and close the step behind the last one."""
        if self._current.is_idle and len(self._view.optimizers) == 1 and not (self._began or self._is_skipped):
            self._stepped.clear()
            if self.passes.counts:
                self.passes.stepped(optimizer)
            self._recorder.after_step(self._view)
            return
        self._began.discard(id(optimizer))
        self._stepped.add(id(optimizer))
        self.passes.stepped(optimizer)
        if self.note_step is not None and len(self._view.optimizers) > 1 and not self._current.is_idle:
            self.note_step(optimizer)
        if not self._take_turns or len(self._stepped) >= len(self._view.optimizers):
            self.end()

    def step_skipped(self, optimizer: object, loss_scale: float) -> None:
        """Close a step in which overflow has kept the optimizer from stepping."""
        self._current.loss_scale = loss_scale
        self.update_begins(optimizer)
        self.note_skipped(loss_scale)
        self.after_step(optimizer)

    def note_skipped(self, loss_scale: float | None) -> None:
        """Record that the optimizer that is stepping leaves the weights as they are."""
        self._is_skipped = True
        self._recorder.event("step_skipped", loss_scale=loss_scale)

    def _rows_of(self, stepped: tuple[object, ...]) -> frozenset[int]:
        """Return the parameters of these optimizers, all of them if there is none."""
        if not stepped:
            return frozenset(range(len(self._view.names)))
        return frozenset[int]().union(*(self._view.rows_of(optimizer) for optimizer in stepped))

    def step_done(self) -> None:
        """Close the step of a loop that reports its steps itself."""
        self.is_told_of_steps = True
        self.step_comes()
        self.step_passed()

    def step_comes(self) -> None:
        """Record what the training is about to use: it will write the weights itself."""
        if not self._is_prepared:
            self._is_prepared = True
            self._view.stepping = None
            self._look()
            self._recorder.before_step(self._view)

    def step_passed(self) -> None:
        """Close a step in which the training has written the weights itself."""
        self._is_prepared = False
        self.passes.stepped(None)
        self.end()

    def micro_step_begins(self) -> None:
        """Forget what was recorded of gradients that are to be added to."""
        self._is_prepared = False

    def end(self) -> None:
        """Close the step."""
        stepped: tuple[object, ...] = ()
        for optimizer in self._view.optimizers:
            if id(optimizer) in self._stepped:
                stepped += (optimizer,)
        self._stepped.clear()
        self._began.clear()
        if not self._current.is_idle:
            if not self._has_read_text:  # no optimizer steps
                self._read_text()
            passes, left, norm = self.passes.take(stepped)
            if left:
                self._stale.report(left, norm)
            if self._stale.is_away:
                self._stale.report_later(self._rows_of(stepped))
            self._expects_none = self._recorder.config.accumulation_steps == 1
            self._hooks.last.tensor = NoneType  # forgotten
            self._at_end(passes)
        skipped, self._is_skipped = self._is_skipped, False
        self._recorder.after_step(self._view, skipped=skipped)
