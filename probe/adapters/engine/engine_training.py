"""A training of the engine from forward to step, reported to the lifecycle of the step."""

from functools import partial
from threading import get_ident
from weakref import ref

from ....framework.context import is_recording
from ....framework.hooks import SKIP_STEP
from ....framework.optim import Optimizer
from ....framework.optim.parameter_update import Gradients
from ....framework.tensor import Tensor
from ...aside import is_aside
from ...hooks.idle_hooks import Several
from ...hooks.output_hooks import OutputHooks
from ...recording.recorder import Recorder
from ..call_order import CallOrder
from ..step_lifecycle import StepLifecycle
from .engine_facts import EngineFacts
from .engine_hooks import EngineChanges
from .engine_parameters import EngineView
from .engine_quantities import EngineTracer
from .engine_sites import CellSites


class EngineLosses:
    """Reads the values that the backward passes of one model start from."""

    def __init__(self, recorder: Recorder) -> None:
        self._current = recorder.current
        self._unscaled: tuple[ref[Tensor], float, float] | None = None

    def scaled(self, loss: Tensor, scaled: Tensor, scale: float) -> None:
        """Remember the loss before a loss scaler multiplied it."""
        if loss.size == 1:
            self._unscaled = (ref(scaled), float(loss.numpy().item()), scale)

    def loss_of(self, root: Tensor) -> float | None:
        """Return the value that a backward pass starts from, if it has one element."""
        if root.size != 1:
            return None
        if self._unscaled is not None and self._unscaled[0]() is root:
            self._current.loss_scale = self._unscaled[2]
            return self._unscaled[1]
        return float(root.numpy().item())


class EngineStepHooks:
    """The hooks on the optimizers of a training, which report to its lifecycle."""

    def __init__(self, lifecycle: StepLifecycle, view: EngineView, recorder: Recorder) -> None:
        self._lifecycle, self._view, self._current = lifecycle, view, recorder.current
        self._guard = recorder.guard

    def watch(self, optimizer: Optimizer) -> Several:
        """Add the optimizer to the model's and return the handle of its hooks."""
        self._view.optimizers.append(optimizer)
        return Several(
            [
                optimizer.register_step_pre_hook(self._guard(self._before)),
                optimizer.register_step_post_hook(self._guard(self._after)),
                optimizer.register_step_skipped_hook(self._guard(self._skipped)),
            ]
        )

    def _before(self, optimizer: Optimizer, gradients: Gradients) -> object:
        if self._current.is_idle and len(self._view.optimizers) == 1:
            return None
        self._view.given = gradients
        self._lifecycle.update_begins(optimizer)
        return SKIP_STEP if self._lifecycle.refuses_update() else None

    def _after(self, optimizer: Optimizer, _: object) -> None:
        self._lifecycle.after_step(optimizer)

    def _skipped(self, optimizer: Optimizer, loss_scale: float) -> None:
        self._view.given = optimizer.gradients()
        self._lifecycle.step_skipped(optimizer, loss_scale)


class EngineTraining:
    """The callbacks of the engine's hooks.

    Attributes:
        roots: Reads what backward passes start from.
        steps: The hooks of the optimizers.
        tracer: Follows operations, where that is asked for.
    """

    def __init__(
        self,
        cell_sites: CellSites,
        view: EngineView,
        recorder: Recorder,
        output_hooks: OutputHooks,
        *,
        facts: EngineFacts,
        order: CallOrder,
        changes: EngineChanges,
    ) -> None:
        self._cell_sites, self._view = cell_sites, view
        self._recorder, self._current = recorder, recorder.current
        self._facts, self._order, self._changes = facts, order, changes
        self._lifecycle = StepLifecycle(
            recorder,
            view,
            output_hooks,
            modules=cell_sites.modules,
            before_step=self._before_step,
            at_end=self._step_ends,
        )
        self.roots = EngineLosses(recorder)
        self.steps = EngineStepHooks(self._lifecycle, view, recorder)
        self.tracer: EngineTracer | None = None

    def forward_begins(self, *_: object) -> None:
        """Note that the model is called."""
        facts = self._facts.facts
        if not self._current.is_idle and facts.is_listening and not is_aside():
            facts.modes.forward_begins(is_recording())
        self._lifecycle.forward_begins()

    def backward_begins(self, root: Tensor) -> None:
        """Note that a backward pass of the process starts from this tensor."""
        if self._current.thread != get_ident():  # another thread's training
            return
        if self._current.is_idle:
            if not is_aside():
                self._recorder.last_loss.add(self._current.step, self.roots.loss_of(root))
            return
        if self.tracer is not None:
            self.tracer.backward_begins(self.roots.loss_of(root))
        if self._lifecycle.backward_begins(partial(self.roots.loss_of, root)):
            self._facts.backward_begins(root)

    def step_done(self) -> None:
        """Close the step at the loop's request."""
        self._view.given = None
        self._lifecycle.step_done()

    def _before_step(self) -> None:
        self._facts.facts.before_step()
        if self._cell_sites.has_changed():
            self._changes.take_in()

    def _step_ends(self, passes: int) -> None:
        self._view.given = None
        self._facts.facts.step_ends(passes)
        if not self._order.is_known:
            self._order.step_ends()
