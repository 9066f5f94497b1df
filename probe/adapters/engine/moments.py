"""What happens in a training of the engine, from forward to step, told to all who follow it in their order."""

from functools import partial
from threading import get_ident

from ....framework.tensor import Tensor
from ...recording.recorder import Recorder
from ...taps.forward import ForwardTaps
from ..course import Course
from ..order import CallOrder
from .changes import Changes
from .facts import EngineFacts
from .roots import Roots
from .sites import CellSites
from .steps import StepHooks
from .trace import EngineTracer
from .view import EngineView


class Moments:
    """What the engine's hooks call.

    Attributes:
        roots: Reads what backward passes start from.
        steps: The hooks of the optimizers.
        tracer: Follows operations, where that is asked for.
    """

    def __init__(
        self,
        places: CellSites,
        view: EngineView,
        recorder: Recorder,
        taps: ForwardTaps,
        *,
        facts: EngineFacts,
        order: CallOrder,
        changes: Changes,
    ) -> None:
        self._places, self._view, self._current = places, view, recorder.current
        self._facts, self._order, self._changes = facts, order, changes
        self._course = Course(recorder, view, taps, before_step=self._before_step, at_end=self._step_ends)
        self.roots = Roots(recorder)
        self.steps = StepHooks(self._course, view, recorder)
        self.tracer: EngineTracer | None = None

    def forward_begins(self, *_: object) -> None:
        """The model is called."""
        if not self._current.is_idle:
            self._facts.facts.forward_begins()
        self._course.forward_begins()

    def backward_begins(self, root: Tensor) -> None:
        """A backward pass of the process starts from this tensor."""
        if self._current.is_idle or self._current.thread != get_ident():  # of a training in another thread
            return
        if self.tracer is not None:
            self.tracer.backward_begins(self.roots.loss_of(root))
        if self._course.backward_begins(partial(self.roots.loss_of, root)):
            self._facts.backward_begins(root)

    def step_done(self) -> None:
        """The loop says that its step is done."""
        self._view.given = None
        self._course.step_done()

    def _before_step(self) -> None:
        self._facts.facts.before_step()
        if self._places.has_changed():
            self._changes.take_in()

    def _step_ends(self) -> None:
        self._view.given = None
        self._facts.facts.step_ends(self._course.passes)
        if not self._order.is_known:
            self._order.step_ends()
