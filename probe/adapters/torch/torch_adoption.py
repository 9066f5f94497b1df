"""Finds the optimizers that step a torch model, also those made or replaced during the training."""

import logging
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

import torch
from torch.optim import Optimizer
from torch.optim.optimizer import register_optimizer_step_pre_hook

from ...guard import Guard
from ...recording.recorder import Recorder
from ...tensor_access import HookHandle
from ..call_order import check_belongs
from .torch_parameters import TorchView
from .torch_sites import parameters_of
from .torch_step_hooks import TorchStepHooks

#: After so many steps of watched optimizers, one that steps for the first time was added later.
_SETTLED: Final = 2


_log = logging.getLogger(__name__)


class Adoption:
    """Attaches the step hooks to the optimizers of a model.

    Without given optimizers, each one that steps parameters of the model is watched. A later one replaces a watched one
    if it steps all of its parameters that the model still has: at its first step if the training was under way before,
    or as soon as it steps twice without the other.

    Args:
        steps: The hooks to attach.
        adopted: Called for each optimizer that has been hooked.
        guard: Keeps exceptions of the hooks from the training.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        view: TorchView,
        steps: TorchStepHooks,
        recorder: Recorder,
        adopted: Callable[[], None],
        guard: Guard,
    ) -> None:
        self._model, self._view, self._steps, self._adopted = model, view, steps, adopted
        self._guard = guard
        self._recorder = recorder
        self._handles: list[HookHandle] = []
        self._hooks: dict[int, tuple[HookHandle, ...]] = {}
        self._seen: WeakKeyDictionary[Optimizer, int] = WeakKeyDictionary()
        self._replaced: WeakSet[Optimizer] = WeakSet()
        self._strangers: WeakSet[Optimizer] = WeakSet()
        self._has_reported = False

    def take(self, optimizers: tuple[Optimizer, ...], *, expected: tuple[Optimizer, ...] = ()) -> None:
        """Watch these optimizers; without any, watch those that are expected and those that begin to step the model.

        Raises:
            NotWatchable: One of them has no parameter of the model.
        """
        for optimizer in optimizers:
            check_belongs(optimizer, self._model.parameters(), self._model)
            self._adopt(optimizer)
        for optimizer in expected:
            self._adopt(optimizer)
        guarded = self._guard(self._look if optimizers else self._perhaps_adopt)
        self._handles.append(register_optimizer_step_pre_hook(guarded))

    def closure_evaluated(self, optimizer: Optimizer) -> None:
        """Note a closure evaluation of an optimizer whose step began before the model was watched."""
        if id(optimizer) not in self._hooks and self._stepped_parameters(optimizer):
            self._adopt(optimizer)
        if id(optimizer) in self._hooks:
            self._steps.evaluated(optimizer)

    def scaler_steps(self, optimizer: Optimizer) -> None:
        """Watch the first optimizer of the model that a loss scaler is about to step, and may keep from it for ever."""
        if not self._view.optimizers and self._stepped_parameters(optimizer):
            self._adopt(optimizer)

    def remove(self) -> None:
        """Remove all hooks."""
        for handle in (*self._handles, *(hook for hooks in self._hooks.values() for hook in hooks)):
            handle.remove()
        self._handles, self._hooks = [], {}

    def _perhaps_adopt(self, optimizer: Optimizer, arguments: object, options: object) -> None:
        if id(optimizer) in self._hooks or not (parameter_ids := self._stepped_parameters(optimizer)):
            return
        both_step = self._seen.get(optimizer, self._steps.count) != self._steps.count
        if both_step or not self._covered(parameter_ids):
            self._adopt(optimizer)  # its own hooks run after this one
        else:
            self._look(optimizer, arguments, options)

    def _look(self, optimizer: Optimizer, _arguments: object, _options: object) -> None:
        if id(optimizer) in self._hooks or self._steps.is_inside or optimizer in self._strangers:
            return  # watched optimizers come first: this runs at every step of the process
        count, before = self._steps.count, self._seen.get(optimizer)
        self._seen[optimizer] = count
        if count == before or (before is None and count >= _SETTLED):
            try:
                self._take_over(optimizer)
            except Exception as error:  # noqa: BLE001  the training must not feel that the observation fails
                self._strangers.add(optimizer)
                self._recorder.fail("optimizer step", error)

    def _take_over(self, optimizer: Optimizer) -> None:
        parameter_ids = self._stepped_parameters(optimizer)
        if optimizer in self._replaced:
            self._adopt(optimizer)
            return
        if covered := self._covered(parameter_ids):
            for previous in covered:
                self._drop(previous)
            self._adopt(optimizer)
            kinds = [type(previous).__name__ for previous in covered]
            self._recorder.event("optimizer_changed", optimizer_kind=type(optimizer).__name__, before=[*kinds])
            return
        self._strangers.add(optimizer)
        if parameter_ids and not self._has_reported:
            self._has_reported = True
            self._report_stranger(type(optimizer).__name__, parameter_ids)

    def _report_stranger(self, kind: str, parameter_ids: set[int]) -> None:
        site = next(name for name, parameter in parameters_of(self._model) if id(parameter) in parameter_ids)
        reason = (
            f"an optimizer that is not watched ({kind}) steps {len(parameter_ids)} parameters of "
            f"{type(self._model).__name__}, and its steps are not counted; pass all optimizers of the model to watch"
        )
        _log.warning("step %d: %s", self._recorder.current.step, reason)
        self._recorder.event("monitor_fault", site, collector="optimizer step", error=reason)

    def _adopt(self, optimizer: Optimizer) -> None:
        self._view.optimizers.append(optimizer)
        before, after = self._guard(self._steps.before), self._guard(self._steps.after)
        self._hooks[id(optimizer)] = (
            optimizer.register_step_pre_hook(before),
            optimizer.register_step_post_hook(after),
        )
        self._adopted()

    def _drop(self, optimizer: Optimizer) -> None:
        """Stop watching the optimizer and keep no reference to it."""
        for handle in self._hooks.pop(id(optimizer)):
            handle.remove()
        self._view.forget_optimizer(optimizer)
        self._replaced.add(optimizer)

    def _covered(self, parameter_ids: set[int]) -> list[Optimizer]:
        """Return the watched optimizers whose parameters, as far as the model still has them, are all among these."""
        return (
            [optimizer for optimizer in self._view.optimizers if self._stepped_parameters(optimizer) <= parameter_ids]
            if parameter_ids
            else []
        )

    def _stepped_parameters(self, optimizer: Optimizer) -> set[int]:
        """Return the ids of the model's parameters that the optimizer steps."""
        stepped = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        return stepped & {id(parameter) for parameter in self._model.parameters()}
