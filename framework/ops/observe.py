"""Identities that show what flows through them: the value on the way forward, the gradient on the way back.

observe     shows both to a hook
mark        shows nothing: it names an output of a cell in a captured graph, where observers may be inserted
show        hands tensors to a hook and passes on what that returns, for hooks of compiled functions
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from ..context import is_recomputing
from ..errors import ShapeError
from ..primitive import Primitive
from ..tape_node import Gradient
from ..tensor import Array, Tensor, wrap


class ObservationHook(Protocol):
    """What looks at a place of the network. Arrays are shown, not given away: copy what is to be kept."""

    def value(self, array: Array) -> None:
        """Receive the value."""

    def gradient(self, array: Array) -> None:
        """Receive the gradient, if one comes back."""


def _show_value(x: Array, *, hook: ObservationHook) -> Array:
    if not is_recomputing():
        hook.value(x)
    return x


def _show_gradient(g: Array, *, hook: ObservationHook) -> Array:
    hook.gradient(g)
    return g


_observe: Primitive = Primitive(
    "observe",
    _show_value,
    lambda x, *, hook: x,
    (lambda g, _, x, *, hook: _observe_gradient(g, hook=hook),),
    is_effect=True,
)
_observe_gradient: Primitive = Primitive(
    "observe_gradient",
    _show_gradient,
    lambda g, *, hook: g,
    (lambda gg, _, g, *, hook: gg,),
    is_effect=True,
)


def observe(x: Tensor, hook: ObservationHook) -> Tensor:
    """Return the same values; the hook sees them, and their gradient."""
    return _observe(x, hook=hook)


#: `mark(x, cell=, call=, index=)` is x, output `index` of call number `call` of a cell.
mark: Primitive = Primitive(
    "mark",
    lambda x, *, cell, call, index: x,
    lambda x, *, cell, call, index: x,
    (lambda g, _, x, *, cell, call, index: mark_gradient(g, cell=cell, call=call, index=index),),
)
#: `mark_gradient(g, cell=, call=, index=)` is g, the gradient of what is marked so.
mark_gradient: Primitive = Primitive(
    "mark_gradient",
    lambda g, *, cell, call, index: g,
    lambda g, *, cell, call, index: g,
    (lambda gg, _, g, *, cell, call, index: gg,),
)


def _shown(*arrays: Array, hook: Callable[..., Sequence[Tensor | None]]) -> Array | tuple[Array, ...]:
    given = tuple(wrap(array) for array in arrays)
    passed = tuple(before if after is None else after._data for before, after in zip(arrays, hook(given), strict=True))
    for before, after in zip(arrays, passed, strict=True):
        if before.shape != after.shape or before.dtype != after.dtype:
            raise ShapeError(
                f"a hook of a compiled function must return tensors like those it got, {before.shape} {before.dtype}, "
                f"got {after.shape} {after.dtype}; keep shape and dtype, or run the function eagerly"
            )
    return passed if len(passed) > 1 else passed[0]


def _shown_gradient(
    needs: Sequence[bool], g: Gradient, out: object, *inputs: object, hook: object
) -> Sequence[Tensor | None]:
    del needs, out, inputs, hook
    return (g,) if isinstance(g, Tensor) else g


#: `show(*xs, hook=)` is `hook((x, ...))`, tensors like the xs; gradients pass it by.
show: Primitive = Primitive(
    "show",
    _shown,
    lambda *xs, hook: xs if len(xs) > 1 else xs[0],
    _shown_gradient,
    is_effect=True,
)
