"""Activations computed a second time instead of being kept.

The function runs as always, but what its nodes would save is let go. The way back asks for the first of these tensors;
the function then runs again, from the same arguments and random keys, and what its nodes save this time is
handed out in the same order. The recorded graph itself is the ordinary one, so weights, hooks, higher derivatives and
closures need no care.

Reference:
    Chen et al. 2016, "Training deep nets with sublinear memory cost", arXiv:1604.06174.
"""

from collections.abc import Callable
from contextvars import copy_context
from functools import wraps
from typing import Generic, ParamSpec, TypeVar

from ..context import CAPTURE, RECOMPUTING, quiet, recording
from ..errors import GradientError
from ..ops.segment import in_segment
from ..random import BETWEEN, Key
from ..tape_node import saved_tensors_hooks
from ..tensor import Tensor

__all__ = ["recompute"]


_P = ParamSpec("_P")
_R = TypeVar("_R")


class _RecomputedCall(Generic[_R]):
    """One call of a recomputed function: how to run it again, and what it saved when it was."""

    def __init__(self, run: Callable[[], _R], name: str) -> None:
        self._run, self._name = run, name
        self._keys: list[Key] = []
        self._tickets = 0
        self._found: dict[int, Tensor] = {}

    def forward(self) -> _R:
        """Return the output; of the tensors that were saved only their number is kept."""
        outer = BETWEEN.get()

        def take(source: Callable[[], Key]) -> Key:
            key = source() if outer is None else outer(source)
            self._keys.append(key)
            return key

        token = BETWEEN.set(take)
        try:
            with saved_tensors_hooks(self._ticket, self._redeem):
                return self._run()
        finally:
            BETWEEN.reset(token)

    def _ticket(self, x: Tensor) -> int:
        del x
        self._tickets += 1
        return self._tickets - 1

    def _redeem(self, ticket: int) -> Tensor:
        if ticket not in self._found:
            copy_context().run(self._again)
        return self._found[ticket]

    def _again(self) -> None:
        """Run the function again; what it saved is there then."""
        saved: list[Tensor] = []

        def keep(x: Tensor) -> Tensor:
            saved.append(x)
            return x

        keys = iter(self._keys)
        BETWEEN.set(lambda _: next(keys))
        RECOMPUTING.set(True)
        with recording(), quiet(), saved_tensors_hooks(keep, lambda x: x):
            self._run()
        if len(saved) != self._tickets:
            raise GradientError(
                f"recompute of '{self._name}' saved {self._tickets} tensors the first time and {len(saved)} then; "
                f"the function must do the same again: no state that changes from call to call, no branch on it"
            )
        self._found = dict(enumerate(saved))


def recompute(fn: Callable[_P, _R]) -> Callable[_P, _R]:
    """Return the function, its intermediate tensors not kept for the way back but computed again then.

    What is kept are the arguments. The second run takes the same random keys; hooks and observers can ask
    `is_recomputing()` in order not to see it twice. In a compiled function a pass of the compiler does the same to the
    graph where both ways are in it; what depends on no argument is kept.

    Args:
        fn: A function or a cell; it must do the same when it is run again.

    Example:
        >>> y = recompute(block)(x)
    """

    @wraps(fn)
    def run(*arguments: _P.args, **options: _P.kwargs) -> _R:
        if CAPTURE.get() is not None:
            return in_segment(fn, arguments, options)
        return _RecomputedCall(lambda: fn(*arguments, **options), getattr(fn, "__name__", type(fn).__name__)).forward()

    return run
