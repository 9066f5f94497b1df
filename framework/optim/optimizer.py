"""What every optimizer shares: groups of parameters, their flat memory, the course of a step, its hooks and its state.

The course of a step, whether it was asked for by `optimizer(gradients)` or by `optimizer.step()`:

    pre hooks       (optimizer, gradients)   gradients as they are about to be applied, aligned with `.parameters`
    learning rates  schedules are asked for this step and written to `param_groups[i]["lr"]`
    update          one fused kernel over each parameter that has a gradient
    post hooks      (optimizer, gradients)

An optimizer for one more formula says which slots it keeps, and in `_rule` which kernel moves a parameter by which
scalars.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..dtype import is_floating
from ..errors import ShapeError
from ..hooks import Handle, Hooks, call_hooks
from ..tensor import Parameter, Tensor
from .groups import Group, Params, make_groups
from .memory import ParameterMemory, flattened, is_native
from .schedule import Schedule, rate_at

#: A gradient of each parameter, None for those that have none.
Gradients = tuple[NDArray[Any] | None, ...]


class Rule(NamedTuple):
    """One update: `kernel(weight, gradient, *slots, *scalars)`, all flat and of one dtype, moves its arrays in
    place."""

    kernel: Callable[..., None]
    scalars: tuple[float, ...]
    uses_slots: bool = True


@cache
def load_kernels() -> Any:
    """The module of fused kernels; numba takes half a second to import, so it waits for the first step."""
    return import_module(".kernels", __package__)


class Optimizer(ABC):
    """Parameters in groups and the rule that moves them against their gradients.

    On construction the parameters move into flat 64 byte aligned arenas, one per group and dtype: their values stay,
    their arrays become views. Half-precision parameters are widened to float32 for the update and rounded back; their
    slots are float32.

    Args:
        params: Parameters, or groups `{"params": [...], "lr": ..., "weight_decay": ...}`; what a group leaves out it
            takes from the other arguments.
        learning_rate: A number or a schedule `step -> rate`; the first step is 0.
        slots: Names of the state arrays that the formula keeps.
        options: The options of the formula, with their defaults.

    Attributes:
        param_groups: One dict per group; `lr` and the other options may be written between steps.
        parameters: All parameters, group by group.
        step_count: Steps made (skipped ones do not count).

    Raises:
        ValueError: No parameter, a parameter twice, an unknown option, an option out of its range.
        TypeError: Something that is no `Parameter`.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: float | Schedule,
        *,
        slots: tuple[str, ...] = (),
        **options: Any,
    ) -> None:
        groups = make_groups(params, learning_rate, options)
        self.param_groups: list[Group] = [group for group, _ in groups]
        self._schedules: list[Schedule | None] = [schedule for _, schedule in groups]
        for group in self.param_groups:
            self._check_options(group)
        self.parameters: tuple[Parameter, ...] = tuple(p for group in self.param_groups for p in group["params"])
        self.step_count = 0
        self._memory = ParameterMemory([group["params"] for group in self.param_groups], slots)
        self._steps = np.zeros(len(self.parameters), dtype=np.int64)
        self._before: Hooks = {}
        self._after: Hooks = {}
        self._skipped: Hooks = {}

    def __call__(self, gradients: Sequence[Tensor | NDArray[Any] | None]) -> None:
        """One step with these gradients, aligned with `.parameters`; None leaves a parameter as it is."""
        if len(gradients) != len(self.parameters):
            raise ShapeError(
                f"{type(self).__name__} expects {len(self.parameters)} gradients, one for each of its parameters, "
                f"got {len(gradients)}"
            )
        self._advance(tuple(g.numpy() if isinstance(g, Tensor) else g for g in gradients))

    def step(self) -> None:
        """One step with the gradients that the parameters hold in `.grad`."""
        self._advance(self.gradients())

    def gradients(self) -> Gradients:
        """The arrays behind the parameters' `.grad`, None where there is none."""
        return tuple(None if p.grad is None else p.grad.numpy() for p in self.parameters)

    def zero_grad(self) -> None:
        """No gradient is left on any parameter."""
        for parameter in self.parameters:
            parameter.grad = None

    def skip_step(self, loss_scale: float) -> None:
        """A step that was not made because its gradients overflowed; tells the hooks that wait for it."""
        call_hooks(self._skipped, self, loss_scale)

    def slots(self) -> dict[str, tuple[NDArray[Any], ...]]:
        """Optimizer state by slot name, one array per parameter; views of the optimizer's memory."""
        return {name: self._memory.slots(name) for name in self._memory.names}

    def register_step_pre_hook(self, hook: "Callable[[Optimizer, Gradients], object]") -> Handle:
        """A handle on `hook(optimizer, gradients)`, called before each update."""
        return Handle(self._before, hook)

    def register_step_post_hook(self, hook: "Callable[[Optimizer, Gradients], object]") -> Handle:
        """A handle on `hook(optimizer, gradients)`, called after each update."""
        return Handle(self._after, hook)

    def register_step_skipped_hook(self, hook: "Callable[[Optimizer, float], object]") -> Handle:
        """A handle on `hook(optimizer, loss_scale)`, called instead when a step is skipped."""
        return Handle(self._skipped, hook)

    @abstractmethod
    def _rule(self, group: Group, step: int) -> Rule:
        """The kernel and its scalars for parameters of this group in their step number `step`, the first being 1."""

    def _check_options(self, group: Group) -> None:
        """Nothing; a formula with options raises ValueError for those out of range."""
        del group

    def _advance(self, gradients: Gradients) -> None:
        self._memory.adopt()
        gradients = tuple(
            g if g is None else _checked(self, p, g) for p, g in zip(self.parameters, gradients, strict=True)
        )
        for group, schedule in zip(self.param_groups, self._schedules, strict=True):
            group["lr"] = rate_at(schedule or group["lr"], self.step_count)
        if self._before:
            call_hooks(self._before, self, gradients)
        self._apply(gradients)
        self.step_count += 1
        if self._after:
            call_hooks(self._after, self, gradients)

    def _apply(self, gradients: Gradients) -> None:
        index = 0
        for group in self.param_groups:
            prepared: dict[tuple[int, type], tuple[Any, ...]] = {}  # most parameters of a group share step and dtype
            for parameter in group["params"]:
                gradient = gradients[index]
                if gradient is not None:
                    step = int(self._steps[index]) + 1
                    weight, slots = self._memory.flat[index]
                    number = weight.dtype.type if is_native(weight) else np.float32
                    if (step, number) not in prepared:
                        kernel, scalars, uses_slots = self._rule(group, step)
                        prepared[step, number] = (kernel, tuple(map(number, scalars)), uses_slots)
                    _move(weight, gradient, slots, *prepared[step, number])
                    self._steps[index] = step
                    parameter.mark_changed()
                index += 1

    def state_dict(self) -> dict[str, Any]:
        """What a resumed optimizer needs: counters, options of the groups and a copy of every slot."""
        return {
            "kind": type(self).__name__,
            "step_count": self.step_count,
            "steps": self._steps.copy(),
            "groups": [{k: v for k, v in group.items() if k != "params"} for group in self.param_groups],
            "slots": {name: [array.copy() for array in arrays] for name, arrays in self.slots().items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Nothing; counters, options and slots become those of `state`, or nothing changes.

        Raises:
            ValueError: The state is of another formula, or of other groups, slots or shapes; all differences are named.
        """
        faults = _differences(self, state)
        if faults:
            raise ValueError(f"{type(self).__name__} cannot take this state: {'; '.join(faults)}")
        self.step_count = int(state["step_count"])
        self._steps[...] = state["steps"]
        for group, saved in zip(self.param_groups, state["groups"], strict=True):
            group.update(saved)
        for name, arrays in self.slots().items():
            for array, saved in zip(arrays, state["slots"][name], strict=True):
                array[...] = saved


def _move(
    weight: NDArray[Any],
    gradient: NDArray[Any],
    slots: tuple[NDArray[Any], ...],
    kernel: Callable[..., None],
    scalars: tuple[Any, ...],
    uses_slots: bool,
) -> None:
    """Nothing; the flat weight and its slots are moved, half precision by way of a float32 copy."""
    if not uses_slots:
        slots = ()
    if is_native(weight):
        kernel(weight, flattened(gradient, weight.dtype), *slots, *scalars)
        return
    wide = weight.astype(np.float32)
    kernel(wide, flattened(gradient, wide.dtype), *slots, *scalars)
    weight[...] = wide


def _checked(optimizer: Optimizer, parameter: Parameter, gradient: NDArray[Any]) -> NDArray[Any]:
    if gradient.shape != parameter.shape:
        raise ShapeError(
            f"{type(optimizer).__name__} expects a gradient of shape {parameter.shape} for parameter "
            f"'{parameter.name}', got {gradient.shape}"
        )
    if not is_floating(gradient.dtype):
        raise TypeError(
            f"{type(optimizer).__name__} expects a floating-point gradient for '{parameter.name}', got {gradient.dtype}"
        )
    return gradient


def _differences(optimizer: Optimizer, state: Mapping[str, Any]) -> list[str]:
    missing = [key for key in ("kind", "step_count", "steps", "groups", "slots") if key not in state]
    if missing:
        return [f"{', '.join(missing)} missing"]
    faults = []
    if state["kind"] != type(optimizer).__name__:
        faults.append(f"it was saved by {state['kind']}")
    if len(state["groups"]) != len(optimizer.param_groups):
        faults.append(f"expected {len(optimizer.param_groups)} groups, got {len(state['groups'])}")
    if len(state["steps"]) != len(optimizer.parameters):
        faults.append(f"expected {len(optimizer.parameters)} parameters, got {len(state['steps'])}")
        return faults
    if set(state["slots"]) != set(optimizer.slots()):
        faults.append(f"expected slots {sorted(optimizer.slots())}, got {sorted(state['slots'])}")
        return faults
    for name, arrays in optimizer.slots().items():
        for parameter, array, saved in zip(optimizer.parameters, arrays, state["slots"][name], strict=True):
            if np.shape(saved) != array.shape:
                faults.append(f"{name} of '{parameter.name}' has shape {np.shape(saved)}, expected {array.shape}")
    return faults
