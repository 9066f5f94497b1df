"""Borders of a segment of a captured graph whose values are computed again on the way back instead of being kept."""

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, TypeVar

from ..primitive import Primitive
from ..tensor import Tensor

_numbers = count()


def _pull(g: Tensor, _: None, x: Tensor, *, number: int, side: str) -> Tensor:
    return segment(g, number=number, side="back") if side == "out" else g


#: `segment(x, number=, side=)` is x, which goes "in" to the segment of that number or comes "out" of it, or the
#: gradient that comes "back" to it.
segment: Primitive = Primitive("segment", lambda x, *, number, side: x, lambda x, *, number, side: x, (_pull,))

_R = TypeVar("_R")


def in_segment(fn: Callable[..., _R], arguments: tuple[object, ...], options: Mapping[str, object]) -> _R:
    """Return what the function returns, its tensors marked where they go in and come out."""
    number = next(_numbers)
    given = _mapped((arguments, options), lambda x: segment(x, number=number, side="in"))
    output: _R = _mapped(fn(*given[0], **given[1]), lambda x: segment(x, number=number, side="out"))
    return output


def _mapped(value: object, change: Callable[[Tensor], Tensor]) -> Any:
    """Return the value with its tensors changed, also in tuples, lists and dicts."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, dict):
        return {name: _mapped(part, change) for name, part in value.items()}
    if isinstance(value, tuple | list):
        parts = [_mapped(part, change) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value
