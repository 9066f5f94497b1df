"""The course of a training as an adapter reports it: which backward passes and optimizer steps make up one step.

A step ends when every watched optimizer has stepped once, or when one of them is about to step again: networks that
are trained against each other need not step equally often. Once that has been seen, every optimizer's step is a step of
its own, since nothing tells whether the next forward belongs to this step or to the next.
"""

from collections.abc import Callable
from typing import Any, Protocol

from ..aside import is_aside
from ..collectors.collector import View
from ..errors import TrainingStopped
from ..outbox.promises import LateScalar
from ..recording.recorder import Recorder
from ..taps.forward import ForwardTaps
from .passes import HoldsGradients, Passes
from .residues import Residues


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
        taps: ForwardTaps,
        *,
        before_step: Callable[[], None],
        at_end: Callable[[], None],
    ) -> None:
        self._recorder, self._current, self._view, self._taps = recorder, recorder.current, view, taps
        self._look, self._at_end = before_step, at_end
        self._began: set[int] = set()
        self._stepped: set[int] = set()
        self._passes, self._residues = Passes(view), Residues(recorder, view)
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
                self._residues.look_away()
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
                self._residues.tell(left, norm)
            if self._residues.is_away:
                self._residues.tell_away(self._rows_of(stepped))
            self._expects_none = self._recorder.config.accumulation_steps == 1
            self._taps.forget()
            self._at_end()
        skipped, self._is_skipped = self._is_skipped, False
        self._recorder.after_step(self._view, skipped=skipped)
