"""Exchanges the answers of a batch, at some steps of a torch training, in its loss as the program computes it."""

from typing import Any, Final

import torch

from ...aside import is_aside
from ...checks.loss_tape import LossTape, NotRecorded
from ...checks.step_direction import DOWNHILL, StepDirection
from ...recording.recorder import Recorder
from .torch_hooks import Hook
from .torch_patches import current_graph_task_id
from .torch_sites import ModuleSites

#: The first step that is looked at, how much later each next one is, and the last. Our choice: what a training has not
#: learned by then, it will hardly learn; 18 looks cost less than two seconds together.
_FIRST, _GROWTH, _LAST = 30, 1.4, 20_000
_NEVER: Final = 1 << 62


class TorchTape:
    """The exchanges of one watched model. Between its steps it has no hooks, and no mode on torch's stack.

    Args:
        is_wanted: Whether it looks at any step at all.
        direction: Tells whether steps lower the loss.

    Attributes:
        waits_for: The next step that it looks at; beyond every step when it is over.
        is_armed: Whether it looks at the step in progress.
    """

    def __init__(
        self,
        module_sites: ModuleSites,
        recorder: Recorder,
        *,
        is_wanted: bool = True,
        direction: StepDirection = DOWNHILL,
    ) -> None:
        self._module_sites, self._recorder, self._direction = module_sites, recorder, direction
        self._handles: list[Any] = []
        self._tape: LossTape | None = None
        self._leaving: LossTape | None = None
        self.waits_for = _FIRST if is_wanted else _NEVER

    @property
    def is_armed(self) -> bool:
        """Whether the step in progress is recorded."""
        return self._tape is not None

    @property
    def wants_end(self) -> bool:
        """Whether the end of the step in progress matters."""
        return self._tape is not None or self._leaving is not None

    def arm(self) -> None:
        """Record the step that begins."""
        if self._module_sites.is_compiled or not self._recorder.config.checks or self._leaving is not None:
            return
        guard = self._recorder.guard
        self._tape = LossTape(guard, self._direction)
        for module in self._module_sites.entrances():
            self._handles.append(module.register_forward_pre_hook(Hook(self._forward_begins, guard)))
            self._handles.append(module.register_forward_hook(Hook(self._forward_ends, guard)))

    def disarm(self) -> None:
        """Leave the step alone."""
        self._take_off()

    def step_ends(self, step: int) -> None:
        """Record what the exchanges of this step tell."""
        if self._leaving is not None and self._leaving.leave():
            self._leaving = None
        tape = self._take_off()
        if tape is not None:
            self.waits_for = max(int(step * _GROWTH), step + 1) if step < _LAST else _NEVER
            with self._recorder.guard.quietly():
                self._tell(tape)

    def backward_begins(self, root: Any) -> None:
        """Note the loss that is about to be differentiated."""
        if self._tape is not None and isinstance(root, torch.Tensor):
            with self._recorder.guard.quietly():
                self._tape.backward_begins(root)

    def backward_ends(self) -> None:
        """Follow the program again."""
        if self._tape is not None:
            self._tape.backward_ends()

    def _take_off(self) -> LossTape | None:
        for handle in self._handles:
            handle.remove()
        tape, self._handles, self._tape = self._tape, [], None
        if tape is not None:
            tape.stop()
            if not tape.leave():
                self._leaving = tape
        return tape

    def _forward_begins(self, *_: Any) -> None:
        if self._tape is not None and self._is_training():
            self._tape.pause()

    def _forward_ends(self, module: Any, inputs: Any, output: Any) -> None:
        del module, inputs
        if self._tape is not None and self._is_training():
            self._tape.add_outputs(output)

    def _is_training(self) -> bool:
        return torch.is_grad_enabled() and not is_aside() and current_graph_task_id() == -1

    def _tell(self, tape: LossTape) -> None:
        reshaped = tape.reshapes()
        if reshaped is not None:
            self._recorder.event("check", "", occasion=2, **reshaped.data())
        try:
            for exchange in tape.exchanges():
                self._recorder.event("exchange", "", **exchange.data())
        except NotRecorded as reason:
            self._recorder.event("exchange", "", reason=str(reason))
