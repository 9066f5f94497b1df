"""Hooks: functions called when something happens, the handles that remove them, and the nodes that hold some."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import count
from typing import Any, Final, Protocol, TypeAlias

__all__ = ["SKIP_STEP", "AutogradNode", "Handle", "Hooks"]

_numbers = count()

#: Counts added and removed hooks and attributes set on cells: compiled functions check their guards when it moves.
CHANGES = [0]

# The signatures of hooks differ by the caller; each `register_*_hook` states its own.
Hooks: TypeAlias = dict[int, Callable[..., Any]]


class Handle:
    """A registered hook; `remove()` removes it, as often as one likes, and so does the end of a `with` block."""

    __slots__ = ("_hooks", "_number")

    def __init__(self, hooks: Hooks, hook: Callable[..., object]) -> None:
        self._hooks = hooks
        self._number = next(_numbers)
        hooks[self._number] = hook
        CHANGES[0] += 1

    def remove(self) -> None:
        """Remove the hook; it is not called any more, not even later in the running round of calls."""
        self._hooks.pop(self._number, None)
        CHANGES[0] += 1

    def __enter__(self) -> "Handle":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


#: Returned by a hook before an optimizer's update to skip that update.
SKIP_STEP: Final = object()


def call_hooks(hooks: Hooks, *arguments: object) -> bool:
    """Call all hooks in order of registration and return whether any returned `SKIP_STEP`.

    Hooks may be added and removed while they run.
    """
    skips = False
    for number in tuple(hooks):
        hook = hooks.get(number)
        if hook is not None and hook(*arguments) is SKIP_STEP:
            skips = True
    return skips


class NamedOperation(Protocol):
    """An operation that was recorded: a primitive, or a function with its own backward."""

    name: str


class AutogradNode(ABC):
    """The recorded operation that made a tensor, as the tensor knows it; `tape_node.TapeNode` implements it.

    Attributes:
        order: Larger than that of every node recorded before.
        primitive: The operation.
        inputs: Its arguments; None once they are freed.
        is_packed: Whether the arguments were packed by `saved_tensors_hooks`.
        hooks: The hooks on the gradient of each output that has some.
    """

    __slots__ = ()
    order: int
    primitive: NamedOperation
    is_packed: bool
    inputs: tuple[object, ...] | None
    hooks: dict[int, Hooks] | None

    def __lt__(self, other: "AutogradNode") -> bool:
        return self.order > other.order  # the latest first: the order of the backward pass, as a heap wants it

    @abstractmethod
    def hooks_of(self, index: int) -> Hooks:
        """Return the hooks on the gradient of output `index`, to which more can be added."""

    @abstractmethod
    def saved_inputs(self) -> tuple[object, ...]:
        """Return the arguments, if they are saved and unchanged."""
