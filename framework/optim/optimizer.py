"""What every optimizer shares: groups of parameters, their flat memory, the course of a step, its hooks and its state.

The course of a step, whether it was asked for by `optimizer(gradients)` or by `optimizer.step()`:

    pre hooks       (optimizer, gradients)   gradients as they are about to be applied, aligned with `.parameters`
    learning rates  schedules are asked for this step and written to `param_groups[i]["lr"]`
    update          one fused kernel over each parameter that has a gradient
    post hooks      (optimizer, gradients)

An optimizer for one more formula says which slots it keeps, and in `_rule` which kernel moves a parameter by which
scalars. Formulas that treat every element alike move a whole block of parameters with one call when their gradients
lie in the optimizer's own arena (`gradient_arena`), as those of a compiled step do.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import inf
from operator import is_
from typing import Any

import numpy as np

from ..context import CAPTURE
from ..dtype import Array, is_floating
from ..errors import ShapeError
from ..hooks import Handle, Hooks, call_hooks
from ..tensor import Parameter, Tensor
from .optimizer_memory import GradientArena, ParameterMemory
from .parameter_groups import Group, Params, Rate, make_groups
from .parameter_update import Gradients, StepCounts, UpdateRule, move
from .rate_schedules import Schedule, rate_at

# Elements of all parameters together up to which gradients are copied to be applied by one call: at this size the copy
# takes about 10 us, as three or four calls do.
_SMALL = 1 << 16


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
        learning_rate: Rate,
        *,
        slots: tuple[str, ...] = (),
        **options: object,
    ) -> None:
        groups = make_groups(params, learning_rate, options)
        self.param_groups: list[Group] = [group for group, _ in groups]
        self._schedules: list[Schedule | None] = [schedule for _, schedule in groups]
        for group in self.param_groups:
            self._check_options(group)
        self.parameters: tuple[Parameter, ...] = tuple(p for group in self.param_groups for p in group["params"])
        self.step_count = 0
        self._memory = ParameterMemory([group["params"] for group in self.param_groups], slots, self._slot_shape)
        self._arena: GradientArena | None = None
        self._copies: GradientArena | None = None
        self._is_small = sum(p.size for p in self.parameters) <= _SMALL and self._memory.is_native
        self._ages = StepCounts(len(self.parameters))
        self._group_of = [number for number, group in enumerate(self.param_groups) for _ in group["params"]]
        self._before: Hooks = {}
        self._after: Hooks = {}
        self._skipped: Hooks = {}

    def __call__(self, gradients: Sequence[Tensor | Array | None]) -> None:
        """Make one step with these gradients, aligned with `.parameters`; None leaves a parameter as it is."""
        if len(gradients) != len(self.parameters):
            raise ShapeError(
                f"{type(self).__name__} expects {len(self.parameters)} gradients, one for each of its parameters, "
                f"got {len(gradients)}"
            )
        capture = CAPTURE.get()
        if capture is not None:
            step = _LaterStep(self, tuple(g is not None for g in gradients))
            capture.act(step, tuple(g for g in gradients if g is not None))
            return
        if self._arena is not None and gradients is self._arena.views:
            self._advance(self._arena.views)
        else:
            self._advance(tuple(g.numpy() if isinstance(g, Tensor) else g for g in gradients))

    def step(self) -> None:
        """Make one step with the gradients that the parameters hold in `.grad`."""
        if CAPTURE.get() is None:
            self._advance(self.gradients())
        else:
            self([p.grad for p in self.parameters])

    def gradients(self) -> Gradients:
        """Return the arrays behind the parameters' `.grad`, None where there is none."""
        return tuple(None if p.grad is None else p.grad.numpy() for p in self.parameters)

    def gradient_arena(self) -> GradientArena:
        """Return memory for gradients, laid out as the parameters are; the same at every call.

        `optimizer(arena.views)` makes a step with one kernel call for each group and dtype, and with the same bits as
        a step with other arrays of the same values.
        """
        if self._arena is None:
            self._arena = self._memory.gradient_arena()
        return self._arena

    def zero_grad(self) -> None:
        """Remove the gradients from all parameters."""
        for parameter in self.parameters:
            parameter.grad = None

    def skip_step(self, loss_scale: float) -> None:
        """Skip a step because its gradients overflowed; tell the hooks that wait for it."""
        call_hooks(self._skipped, self, loss_scale)

    def slots(self) -> dict[str, tuple[Array, ...]]:
        """Return optimizer state by slot name, one array per parameter; views of the optimizer's memory."""
        return {name: self._memory.slots(name) for name in self._memory.names}

    def register_step_pre_hook(self, hook: "Callable[[Optimizer, Gradients], object]") -> Handle:
        """Return a handle on `hook(optimizer, gradients)`, called before each update.

        Where one returns `SKIP_STEP`, the weights, the state and the count of steps stay as they are; the hooks behind
        the update are called all the same.
        """
        return Handle(self._before, hook)

    def register_step_post_hook(self, hook: "Callable[[Optimizer, Gradients], object]") -> Handle:
        """Return a handle on `hook(optimizer, gradients)`, called after each update."""
        return Handle(self._after, hook)

    def register_step_skipped_hook(self, hook: "Callable[[Optimizer, float], object]") -> Handle:
        """Return a handle on `hook(optimizer, loss_scale)`, called instead when a step is skipped."""
        return Handle(self._skipped, hook)

    @abstractmethod
    def _rule(self, group: Group, step: int) -> UpdateRule:
        """Return the kernel and its scalars for parameters of this group in their step number `step`, the first being
        1."""

    def _check_options(self, group: Group) -> None:
        """Raise ValueError for options out of range; a formula with options overrides this."""
        del group

    def _slot_shape(self, name: str, shape: tuple[int, ...], group: int) -> tuple[int, ...]:
        """Return the shape of a slot of a parameter of that shape; a formula that keeps less than the parameter says
        so."""
        del name, group
        return shape

    def _advance(self, gradients: Gradients) -> None:
        self._memory.adopt()
        arena = self._arena
        in_arena = arena is not None and (gradients is arena.views or all(map(is_, gradients, arena.views)))
        if not in_arena:
            gradients = tuple(
                g if g is None else _checked(self, p, g) for p, g in zip(self.parameters, gradients, strict=True)
            )
        for group, schedule in zip(self.param_groups, self._schedules, strict=True):
            if schedule is not None or not 0.0 <= group["lr"] < inf:
                group["lr"] = rate_at(schedule or group["lr"], self.step_count)
        if not (self._before and call_hooks(self._before, self, gradients)):
            if not in_arena:
                arena = self._gathered(gradients)
            if arena is None or not self._apply_blocks(arena, self._ages.common):
                self._apply(gradients)
            self.step_count += 1
        if self._after:
            call_hooks(self._after, self, gradients)

    def _gathered(self, gradients: Gradients) -> GradientArena | None:
        """Return the gradients copied into one arena where they are few and small: a kernel call costs more than the
        copy."""
        if not self._is_small or self._ages.common is None:
            return None
        there = [g for g, p in zip(gradients, self.parameters, strict=True) if g is not None and g.dtype == p.dtype]
        if len(there) != len(gradients):
            return None
        if self._copies is None:
            self._copies = self._memory.gradient_arena()
        for view, gradient in zip(self._copies.views, there, strict=True):
            view[...] = gradient
        return self._copies

    def _apply_blocks(self, arena: GradientArena, age: int | None) -> bool:
        """Return whether the gradients of the arena could be applied block by block; if not, nothing was."""
        if age is None or not self._memory.is_native:
            return False
        step = age + 1
        rules = [self._rule(self.param_groups[block.group], step) for block in self._memory.blocks]
        for rule in rules:
            if rule.scope != "element":
                return False
        for rule, block, gradients in zip(rules, self._memory.blocks, arena.blocks, strict=True):
            slots = block.flat_slots if rule.uses_slots else ()
            rule.kernel(block.flat, gradients.flat, *slots, *rule.scalars)
        self._ages.common = step
        for parameter in self.parameters:
            parameter._version[0] += 1
        return True

    def _apply(self, gradients: Gradients) -> None:
        """Update every parameter that has a gradient."""
        ages = self._ages.each()
        rules: dict[tuple[int, int], UpdateRule] = {}  # most parameters of a group have made equally many steps
        for number, gradient in enumerate(gradients):
            if gradient is None:
                continue
            key = (self._group_of[number], ages[number] + 1)
            rule = rules.get(key)
            if rule is None:
                rule = rules[key] = self._rule(self.param_groups[key[0]], key[1])
            move(self._memory.places[number], gradient, rule)
            ages[number] = key[1]
            self.parameters[number].mark_changed()
        self._ages.set(ages)

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed optimizer needs: counters, options of the groups and a copy of every slot."""
        return {
            "kind": type(self).__name__,
            "step_count": self.step_count,
            "steps": np.array(self._ages.each(), dtype=np.int64),
            "groups": [{k: v for k, v in group.items() if k != "params"} for group in self.param_groups],
            "slots": {name: [array.copy() for array in arrays] for name, arrays in self.slots().items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take counters, options and slots from `state`, or change nothing.

        Raises:
            ValueError: The state is of another formula, or of other groups, slots or shapes; all differences are named.
        """
        faults = _differences(self, state)
        if faults:
            raise ValueError(f"{type(self).__name__} cannot take this state: {'; '.join(faults)}")
        self.step_count = int(state["step_count"])
        self._ages.set([int(count) for count in state["steps"]])
        for group, saved in zip(self.param_groups, state["groups"], strict=True):
            group.update(saved)
        for name, arrays in self.slots().items():
            for array, saved in zip(arrays, state["slots"][name], strict=True):
                array[...] = saved


def _checked(optimizer: Optimizer, parameter: Parameter, gradient: Array) -> Array:
    """Return the gradient, if it is one of that parameter."""
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
    """Return what keeps the optimizer from taking this state, fault by fault."""
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


class _LaterStep:
    """A step that a compiled function makes at the end of each of its runs.

    Args:
        optimizer: Whose step.
        places: Which of its parameters have a gradient.
    """

    __slots__ = ("_optimizer", "_places")

    def __init__(self, optimizer: Optimizer, places: tuple[bool, ...]) -> None:
        self._optimizer, self._places = optimizer, places

    def __call__(self, *gradients: Tensor) -> None:
        """Make the step."""
        rest = iter(gradients)
        self._optimizer([next(rest) if is_there else None for is_there in self._places])

    def destinations(self) -> tuple[Array, ...]:
        """Return where the gradients are wanted: a graph that writes them there saves the step a pass over them."""
        views = self._optimizer.gradient_arena().views
        return tuple(view for view, is_there in zip(views, self._places, strict=True) if is_there)
