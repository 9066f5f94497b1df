"""Hooks on complete gradients and on the start of a pass; those of a captured pass are called when the graph runs."""

from typing import Any

from ..context import CAPTURE
from ..hooks import BACKWARD_START, Hooks, call_hooks
from ..primitive import PRIMITIVES
from ..tensor import Tensor, wrap

__all__ = ["apply_hooks", "tell_start", "tell_start_of"]


def apply_hooks(hooks: Hooks, gradient: Tensor) -> Tensor:
    """The gradient, or what the hooks put in its place."""
    if CAPTURE.get() is not None:
        return PRIMITIVES["show"](gradient, hook=lambda given: (apply_hooks(hooks, given[0]),))
    for number in tuple(hooks):
        hook = hooks.get(number)
        replaced = hook(gradient) if hook is not None else None
        if replaced is not None:
            gradient = replaced
    return gradient


def tell_start(root: Tensor) -> None:
    """Nothing; who registered a hook is told that a pass starts from `root`."""
    capture = CAPTURE.get()
    if capture is None:
        call_hooks(BACKWARD_START, root)
    elif BACKWARD_START:
        capture.host(tell_start_of, (root,), ())


def tell_start_of(root: Any) -> tuple[()]:
    """Nothing; the same for an array, which is what a graph hands over."""
    call_hooks(BACKWARD_START, wrap(root))
    return ()
