"""Recognises the steps of a training without an optimizer: its own code writes the weights.

`with no_grad(): p -= lr * p.grad`, `p.data.add_(...)` and functional updates leave no trace that a hook could see, but
the weights that the next forward uses are others than the last one's. A step has ended when they are, and a backward
pass came before.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import torch

from ....garbage import objects_of
from ...recording.recorder import Recorder
from ..step_lifecycle import StepLifecycle
from .torch_networks import kind_of
from .torch_parameters import TorchView
from .torch_raw_tensors import FirstStep
from .torch_sites import owners_of
from .torch_tensors import PLAIN, is_remote, local_part

_log = logging.getLogger(__name__)
#: Parameters that are looked at before a forward, and values of each, evenly spread: a step that moves none of them
#: moves next to nothing. Our choice.
_MOST_PROBES, _VALUES = 8, 32
#: Backward passes without a step after which the user is told; and where an optimizer is there and the gradients are
#: not cleared, so that they may be meant to add up. Our choice.
_MOST_PASSES, _MOST_SUMMED = 20, 256
#: Backward passes without a step after which an optimizer of parameters that got no gradient is a placeholder.
_PLACEHOLDER_AFTER = 3


class HandSteps:
    """Closes steps by what changes the weights, as long as no optimizer is watched.

    Args:
        modules: The modules by site; the mapping follows the model.
        has_optimizer: Whether it is known that an optimizer holds the model's parameters, which has yet to step; None
            where the process is to be asked for one.
    """

    def __init__(
        self,
        recorder: Recorder,
        view: TorchView,
        lifecycle: StepLifecycle,
        modules: Mapping[str, Any],
        *,
        has_optimizer: bool | None,
    ) -> None:
        self._has_optimizer = has_optimizer
        self._recorder, self._view, self._lifecycle, self._modules = recorder, view, lifecycle, modules
        self._probes: list[tuple[Any, str]] = []
        self._before: list[tuple[int, int, list[float]]] = []
        self._passes = self._unstepped = self._cleared = 0
        self._has_stepped = self._is_told = False

    @property
    def is_watching(self) -> bool:
        """Whether weights are looked at: no optimizer is watched, and the loop does not report its steps itself."""
        if self._view.optimizers or self._lifecycle.is_told_of_steps:
            return False
        if self._has_optimizer is None:
            self._has_optimizer = _is_any_optimizer_of(self._view.parameters)
        return not self._has_optimizer

    @property
    def is_closing(self) -> bool:
        """Whether steps are closed here, which needs every forward and backward pass to be seen, idle or not."""
        return self._has_stepped and not self._view.optimizers and not self._lifecycle.is_told_of_steps

    def forward_begins(self) -> bool:
        """Close the step if the weights are others than at the last forward; return whether they are."""
        now = self._state()
        has_moved = bool(self._before) and now != self._before and self._passes > 0
        self._before = now
        if has_moved:
            self._close()
        elif self._recorder.current.saw_backward:
            self._lifecycle.micro_step_begins()
        return has_moved

    def backward_ends(self) -> None:
        """Record the gradients, which the training may clear before anything else is seen of it."""
        self._passes += 1
        self._lifecycle.step_comes()

    def unstepped_pass(self) -> None:
        """Note that a backward pass came before any step, and tell when there are too many.

        Gradients that are cleared before the next pass were used by nobody.
        """
        passes = self._lifecycle.passes
        if passes.total == self._unstepped or self._is_told:  # a pass of something else
            return
        self._unstepped = passes.total
        self._cleared += bool(passes.cleared)
        if self._has_optimizer and self._unstepped == _PLACEHOLDER_AFTER:
            self._has_optimizer = _is_any_optimizer_of(one for one in self._view.parameters if one.grad is not None)
        is_wasted = not self._has_optimizer or self._cleared >= _MOST_PASSES // 2
        if self._unstepped >= (_MOST_PASSES if is_wasted else _MOST_SUMMED):
            self._is_told = True
            self._tell()

    def repeat(self, first: FirstStep) -> None:
        """Record a step that was over before anything was watched, on its copies; then watch the tensors themselves."""
        self._lifecycle.forward_opens(counts=True)
        self._lifecycle.backward_begins(lambda: first.loss)
        self._lifecycle.step_comes()
        with torch.no_grad():
            for name, copied in first.model.tensors.items():
                copied.copy_(first.tensors[name])
        self._lifecycle.step_passed()
        first.model.take(first.tensors)

    def idle_pass(self) -> None:
        """Count a backward pass of a step of which nothing is recorded."""
        self._passes += 1

    def concerns(self, tensors: Iterable[object]) -> bool:
        """Return whether any of these is a weight that the last forward used."""
        known = {number for number, _, _ in self._before}
        return any(id(tensor) in known for tensor in tensors)

    def end(self) -> None:
        """Close the last step if the weights have moved since its forward, and were no stand-ins."""
        now = self._state() if self._passes else []
        is_same = [one[0] for one in now] == [one[0] for one in self._before]
        if self._passes and is_same and now != self._before:
            self._close()

    def _close(self) -> None:
        self._passes, self._has_stepped = 0, True
        self._recorder.due.mark_steps()  # the forward of an idle step shows that the one before is over
        self._lifecycle.step_passed()

    def _state(self) -> list[tuple[int, int, list[float]]]:
        """Return which tensors the probes are now, their versions and some of their values."""
        if not self._probes:
            owners = [(module, name) for _, module, name in owners_of(self._modules)]
            self._probes = owners[:: max(1, -(-len(owners) // _MOST_PROBES))]
        held = (module._parameters.get(name) for module, name in self._probes)
        return [(id(one), one._version, _values(one)) for one in held if one is not None]

    def _tell(self) -> None:
        kind = kind_of(self._modules[""])
        reason = (
            f"{self._unstepped} backward passes of {kind} were seen and no step: no optimizer of torch has stepped it, "
            "and its parameters are as they were; is optimizer.step() called, on an optimizer of these very parameters?"
        )
        _log.warning("%s", reason)
        self._recorder.event("no_step", "", passes=self._unstepped, reason=reason)
        self._recorder.forward_begins()  # closes the micro-step, so that the rules hear of it now


def _is_any_optimizer_of(parameters: Iterable[Any]) -> bool:
    """Return whether the process has an optimizer of any of these parameters."""
    mine = {id(parameter) for parameter in parameters}
    optimizers = objects_of(torch.optim.Optimizer)
    return any(
        id(one) in mine for optimizer in optimizers for group in optimizer.param_groups for one in group["params"]
    )


def _values(parameter: Any) -> list[float]:
    """Return some values; none of a tensor that the training would have to wait for, or that has none."""
    if isinstance(parameter, torch.nn.parameter.UninitializedTensorMixin):
        return []
    part = local_part(parameter.detach())
    if type(part) not in PLAIN or is_remote(part) or part.layout is not torch.strided or not part.numel():
        return []
    flat = part.reshape(-1)
    values: list[float] = flat[:: max(1, flat.numel() // _VALUES)].tolist()
    return values
