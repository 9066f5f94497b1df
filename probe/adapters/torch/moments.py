"""What happens in a torch training, from forward to step, told to all who follow it in their order."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from threading import get_ident
from typing import Any

import torch

from ...recording.recorder import Recorder
from ...taps.forward import ForwardTaps
from ..course import Course
from ..order import CallOrder
from .changes import Changes
from .facts import TorchFacts
from .hooks import OpeningHook
from .ranks import TorchRanks
from .recompute import in_backward, is_first_of_two
from .roots import Roots
from .sites import ModuleSites
from .steps import StepHooks
from .trace import TorchTracer
from .view import TorchView


class Moments:
    """Listens to the process for what no hook of one model tells: a `TrainingListener`.

    A training is in the thread in which its model was called last: backward passes of others are none of its.

    Attributes:
        course: Of the training.
        opening: The hook that sees forwards of the model begin.
        steps: The hooks of the optimizers.
        tracer: Follows operations, where that is asked for.
        ranks: Compares this process with the others, where that is asked for.
    """

    def __init__(
        self,
        model: Any,
        places: ModuleSites,
        view: TorchView,
        recorder: Recorder,
        taps: ForwardTaps,
        *,
        facts: TorchFacts,
        order: CallOrder,
        changes: Changes,
    ) -> None:
        self._model, self._places, self._view, self._recorder = model, places, view, recorder
        self._current, self._facts, self._order, self._changes = recorder.current, facts, order, changes
        self._roots = Roots(recorder)
        self.course = Course(recorder, view, taps, before_step=self._before_step, at_end=self._step_ends)
        self.steps = StepHooks(self.course, view, recorder)
        self.opening = OpeningHook(self._opens)
        self.tracer: TorchTracer | None = None
        self.ranks: tuple[TorchRanks, ...] = ()
        self._steps_before = 0

    def forget(self) -> None:
        """Nothing; the loss that was scaled last is forgotten."""
        self._roots.forget()

    def forward_begins(self) -> None:
        """The model is called."""
        if not self._current.is_idle:
            self._facts.facts.forward_begins()
        self.course.forward_begins()
        for ranks in self.ranks:
            ranks.forward_begins()
        if not self._current.is_idle and self._places.has_changed():
            self._changes.modules_changed()

    def backward_begins(self, roots: Any) -> None:
        """A backward pass of the process starts from these tensors."""
        if self._current.is_idle:
            return
        if self.opening.was_compiled:  # of that forward only this is known
            self._places.is_compiled = True
            self.opening.was_compiled = self._recorder.expects_activations = False
            self.course.forward_begins()
        if self._current.thread != get_ident():  # whose gradients may come and go while they are looked at
            return
        if self.course.backward_begins(partial(self._roots.loss_of, roots)):
            self._facts.facts.backward_begins(self._current.root)

    def backward_ends(self) -> None:
        """The backward pass is over."""
        if not self._current.is_idle and self._current.thread == get_ident():
            self._recorder.backward_ends()

    def around_backward(self, roots: Any) -> Sequence[AbstractContextManager[Any]]:
        """What the backward pass runs inside of, if anything."""
        if self.tracer is None or not self._current.is_open or self._current.thread != get_ident():
            return ()
        return (self.tracer.backward(roots, self._roots.known(roots)),)

    def loss_scaled(self, loss: Any, scaled: Any, scaler: Any) -> None:
        """Remembers what the loss was before it was scaled."""
        if not self._current.is_idle:
            self._roots.scaled(loss, scaled, scaler)

    def scaler_steps(self, _optimizer: Any) -> None:
        """Notes how often optimizers have stepped, before a scaler may keep one of them from that."""
        self._steps_before = self.steps.count

    def scaler_stepped(self, optimizer: Any, scale: Callable[[], float]) -> None:
        """Closes the step as skipped when the scaler has kept the optimizer from stepping."""
        if any(optimizer is one for one in self._view.optimizers) and self.steps.count == self._steps_before:
            self.course.step_skipped(optimizer, float(scale()))

    def _opens(self, module: Any, _inputs: Any) -> None:
        """A forward of the model begins, unless it is computed again in a backward pass, or frozen targets are made."""
        if in_backward() or (module is not self._model and not torch.is_grad_enabled() and _is_frozen(module)):
            return
        self.forward_begins()
        if not torch.is_grad_enabled() and self._model.training and is_first_of_two():
            self._recorder.forward_begins()

    def _before_step(self) -> None:
        if self.tracer is not None:
            self.tracer.rest()
        self._facts.facts.before_step()
        for ranks in self.ranks:
            ranks.before_step()
        self._changes.before_step()

    def _step_ends(self) -> None:
        self._facts.facts.step_ends(self.course.passes)
        for ranks in self.ranks:
            ranks.step_ends()
        if not self._order.is_known:
            self._order.finish()
            self._order.step_ends()


def _is_frozen(module: Any) -> bool:
    return not any(parameter.requires_grad for parameter in module.parameters())
