"""What holds for the code that is running: whether operations are recorded, and whether numerical faults are silent.

Both are context variables, so threads and coroutines do not disturb each other.
"""

from collections.abc import Callable, Sequence
from contextlib import ContextDecorator
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any, Protocol

import numpy as np

__all__ = ["is_recomputing", "is_recording", "no_grad", "quiet", "recording"]

RECORDING: ContextVar[bool] = ContextVar("recording", default=True)
QUIET: ContextVar[bool] = ContextVar("quiet", default=False)
# How many `grad` transforms are running a function right now: gradients taken inside one are themselves recorded.
DEPTH: ContextVar[int] = ContextVar("depth", default=0)
# Whether rules of differentiation are running: what they make themselves goes where the gradients are.
PULLING: ContextVar[bool] = ContextVar("pulling", default=False)
RECOMPUTING: ContextVar[bool] = ContextVar("recomputing", default=False)


class Capture(Protocol):
    """What turns running code into a graph: while one is set, it sees what would otherwise be computed."""

    # Primitives, tensors, keys, cells and types of nodes are `Any` here: their modules import this one.

    def apply(self, primitive: Any, inputs: tuple[object, ...], attributes: dict[str, object]) -> Any:
        """Return the traced result of a primitive."""

    def assign(self, target: Any, data: object) -> None:
        """Let the graph overwrite the tensor `target` in place."""

    def next_key(self) -> Any:
        """Return the traced next random key."""

    def draw_key(self, source: Callable[[], Any]) -> Any:
        """Return a traced key that `source()` gives when the graph runs."""

    def host(self, function: Callable[..., object], values: tuple[object, ...], types: tuple[Any, ...]) -> Any:
        """Return the traced results, of those types, of a Python function that the graph will call with arrays."""

    def touch_grad(self, leaf: Any, is_overwritten: bool = False) -> None:
        """Let the graph's runs add to or overwrite `.grad` of a leaf; called before either."""

    def act(self, function: Callable[..., object], values: tuple[object, ...]) -> None:
        """Call `function` with tensors of the traced values when the graph has run."""

    def call_cell(self, cell: Any, inputs: tuple[object, ...], options: dict[str, object]) -> object:
        """Return the traced output of a cell."""

    def pull_back(
        self,
        composition: Callable[..., object],
        needs: Sequence[bool],
        g: object,
        inputs: Sequence[object],
        attributes: dict[str, object],
    ) -> Sequence[Any]:
        """Return the traced cotangents of those inputs of a function that need one; only rules ask for this."""


CAPTURE: "ContextVar[Capture | None]" = ContextVar("capture", default=None)


def is_recording() -> bool:
    """Return whether operations on tensors that require gradients are recorded for the way back."""
    return RECORDING.get()


def is_recomputing() -> bool:
    """Return whether the running code ran before and runs again for what it did not save: who counts or observes,
    looks."""
    return RECOMPUTING.get()


class recording:  # noqa: N801 (a block, as `no_grad` is)
    """A block in which operations are recorded (or are not)."""

    __slots__ = ("_enabled", "_token")

    def __init__(self, enabled: bool = True) -> None:
        self._enabled = enabled

    def __enter__(self) -> None:
        self._token = RECORDING.set(self._enabled)

    def __exit__(self, *_: object) -> None:
        RECORDING.reset(self._token)


class no_grad(ContextDecorator):  # noqa: N801 (the field writes it in lower case)
    """A block, or a decorated function, in which nothing is recorded."""

    def __init__(self) -> None:
        self._tokens: list[Token[bool]] = []

    def __enter__(self) -> None:
        self._tokens.append(RECORDING.set(False))

    def __exit__(self, *_: object) -> None:
        RECORDING.reset(self._tokens.pop())


class quiet(ContextDecorator):  # noqa: N801 (a block, as `no_grad` is)
    """A block, or a decorated function, in which overflow, division by zero and NaN follow IEEE 754 without a warning.

    Every primitive computes so on its own. Entering NumPy's error state costs about a microsecond; code that runs
    many primitives (a cell, a backward pass) enters it once here and spares them the price. Nested blocks are free.
    """

    def _recreate_cm(self) -> "quiet":
        return quiet()

    def __enter__(self) -> None:
        self._token: Token[bool] | None = None
        if not QUIET.get():
            self._errors = np.errstate(all="ignore")
            self._errors.__enter__()
            self._token = QUIET.set(True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._token is not None:
            QUIET.reset(self._token)
            self._errors.__exit__(kind, error, traceback)
