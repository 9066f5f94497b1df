"""The course of a training as an adapter reports it: which backward passes and optimizer steps make up one step.

A step ends when every watched optimizer has stepped once, or when one of them is about to step again: networks that
are trained against each other need not step equally often. Once that has been seen, every optimizer's step is a step of
its own, since nothing tells whether the next forward belongs to this step or to the next.
"""

from collections.abc import Callable
from typing import Any, Protocol

from ..collector import View
from ..recorder import Recorder
from .taps import ForwardTaps


class OptimizedView(View, Protocol):
    """A view that also knows its optimizers."""

    optimizers: list[Any]
    stepping: Any

    def has_gradients(self) -> bool:
        """Whether any parameter holds a gradient that is not zero."""


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
        self._recorder, self._view, self._taps = recorder, view, taps
        self._look, self._at_end = before_step, at_end
        self._began: set[int] = set()
        self._stepped: set[int] = set()
        self._expects_none = self._is_skipped = False
        self._take_turns = True

    def forward_begins(self, *_: object) -> None:
        """The model is called; a forward that counts opens the step.

        Between the optimizers of one step, and inside an optimizer that evaluates the model again, it is no micro-step.
        """
        if self._taps.counts() and not (self._stepped or self._began):
            self._recorder.forward_begins()

    def backward_begins(self, loss: Callable[[], float | None]) -> None:
        """A backward pass starts; `loss` reads where from. It is of this model if a forward of it came before."""
        recorder = self._recorder
        if not recorder.is_open or self._began:
            return
        try:
            if self._expects_none:
                self._check_residue()
            recorder.backward_begins(loss())
        except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
            recorder.fail("loss", error)

    def step_begins(self, optimizer: Any) -> None:
        """The optimizer is called, and may evaluate the model before it steps."""
        if id(optimizer) in self._stepped:
            self._take_turns = False
            self.end()

    def before_step(self, optimizer: Any) -> None:
        """The optimizer is about to step."""
        if id(optimizer) in self._began:
            return
        self.step_begins(optimizer)
        self._began.add(id(optimizer))
        self._look()
        self._view.stepping = optimizer
        self._recorder.before_step(self._view)

    def after_step(self, optimizer: Any) -> None:
        """The optimizer has stepped."""
        self._began.discard(id(optimizer))
        self._stepped.add(id(optimizer))
        if not self._take_turns or len(self._stepped) >= len(self._view.optimizers):
            self.end()

    def step_skipped(self, optimizer: Any, loss_scale: float) -> None:
        """Overflow has kept the optimizer from stepping."""
        self._recorder.loss_scale = loss_scale
        self.before_step(optimizer)
        self.note_skipped(loss_scale)
        self.after_step(optimizer)

    def note_skipped(self, loss_scale: float | None) -> None:
        """The optimizer that is stepping leaves the weights as they are."""
        self._is_skipped = True
        self._recorder.event("step_skipped", loss_scale=loss_scale)

    def step_done(self) -> None:
        """The loop says that its step is done."""
        self._view.stepping = None
        self._look()
        self._recorder.before_step(self._view)
        self.end()

    def has_stepped(self, optimizer: Any) -> bool:
        """Whether the optimizer has stepped in the step in progress, or none is in progress."""
        return id(optimizer) in self._stepped or not self._recorder.is_open

    def end(self) -> None:
        """The step is over."""
        self._stepped.clear()
        self._began.clear()
        self._expects_none = self._recorder.config.accumulation_steps == 1
        self._taps.forget()
        self._at_end()
        skipped, self._is_skipped = self._is_skipped, False
        self._recorder.after_step(self._view, skipped=skipped)

    def _check_residue(self) -> None:
        """Notes gradients that are left of earlier steps as new ones are about to be added to them."""
        self._expects_none = False
        self._view.stepping = None
        if self._view.has_gradients():
            norms = self._view.gradients().statistics()[:, 0]
            norms = norms[norms > 0.0]
            self._recorder.residue(int(norms.size), float((norms**2).sum() ** 0.5))
