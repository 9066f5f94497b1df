"""An identity that shows what flows through it: the value on the way forward, the gradient on the way back."""

from typing import Protocol

from ..primitive import Primitive
from ..tensor import Array, Tensor


class Tap(Protocol):
    """What looks at a place of the network. Arrays are shown, not given away: copy what is to be kept."""

    def value(self, array: Array) -> None:
        """Nothing; called with the value."""

    def gradient(self, array: Array) -> None:
        """Nothing; called with the gradient, if one comes back."""


def _show_value(x: Array, *, tap: Tap) -> Array:
    tap.value(x)
    return x


def _show_gradient(g: Array, *, tap: Tap) -> Array:
    tap.gradient(g)
    return g


_observe: Primitive = Primitive(
    "observe", _show_value, lambda x, *, tap: x, (lambda g, _, x, *, tap: _observe_gradient(g, tap=tap),)
)
_observe_gradient: Primitive = Primitive(
    "observe_gradient",
    _show_gradient,
    lambda g, *, tap: g,
    (lambda gg, _, g, *, tap: gg,),
)


def observe(x: Tensor, tap: Tap) -> Tensor:
    """The same values; the tap sees them, and their gradient."""
    return _observe(x, tap=tap)
