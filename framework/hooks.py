"""Hooks: functions that are called when something happens, and the handles that take them off again."""

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any, Final, TypeAlias

if TYPE_CHECKING:
    from .tensor import Tensor

__all__ = ["SKIP_STEP", "Handle", "Hooks", "register_backward_start_hook", "register_loss_scaled_hook"]

_numbers = count()

#: How often a hook came or went, or an attribute of a cell was set: compiled functions look again when it moves.
CHANGES = [0]

# The signatures of hooks differ by the place that calls them; each `register_*_hook` states its own.
Hooks: TypeAlias = dict[int, Callable[..., Any]]


class Handle:
    """A registered hook; `remove()` takes it off, as often as one likes, and so does the end of a `with` block."""

    __slots__ = ("_hooks", "_number")

    def __init__(self, hooks: Hooks, hook: Callable[..., Any]) -> None:
        self._hooks = hooks
        self._number = next(_numbers)
        hooks[self._number] = hook
        CHANGES[0] += 1

    def remove(self) -> None:
        """Nothing; the hook is not called any more, not even later in the round of calls that is running."""
        self._hooks.pop(self._number, None)
        CHANGES[0] += 1

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


BACKWARD_START: Hooks = {}


def register_backward_start_hook(hook: "Callable[[Tensor], object]") -> Handle:
    """A handle on `hook(root)`, called in this process whenever a backward pass starts from a tensor `root`.

    Called by `Tensor.backward`, `grad` and `value_and_grad`, before any gradient is computed. What it returns is
    ignored.
    """
    return Handle(BACKWARD_START, hook)


LOSS_SCALED: Hooks = {}


def register_loss_scaled_hook(hook: "Callable[[Tensor, Tensor, float], object]") -> Handle:
    """A handle on `hook(loss, scaled, scale)`, called in this process whenever a loss scaler has multiplied a loss."""
    return Handle(LOSS_SCALED, hook)


#: What a hook before an optimizer's update returns to keep it from being made.
SKIP_STEP: Final = object()


def call_hooks(hooks: Hooks, *arguments: object) -> bool:
    """Whether any returned `SKIP_STEP`; all are called, in order of registration, also when hooks come and go."""
    skips = False
    for number in tuple(hooks):
        hook = hooks.get(number)
        if hook is not None and hook(*arguments) is SKIP_STEP:
            skips = True
    return skips
