"""Primitives that only look at an array in another way: no element moves."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ...tensor import Array

__all__ = ["VIEWS", "view_source"]

#: `function(array, **attributes)`: the array seen otherwise, or a tuple of such; a copy where it cannot be seen so.
VIEWS: dict[str, Callable[..., Any]] = {
    "identity": lambda x: x,
    "stop_gradient": lambda x: x,
    "reshape": lambda x, *, shape: x.reshape(shape),
    "transpose": lambda x, *, axes: x.transpose(axes),
    "swapaxes": lambda x, *, first, second: x.swapaxes(first, second),
    "broadcast_to": lambda x, *, shape: np.broadcast_to(x, shape),
    "split": lambda x, *, sizes, axis: tuple(x[cut] for cut in _cuts(sizes, axis)),
}


def _cuts(sizes: tuple[int, ...], axis: int) -> list[tuple[slice, ...]]:
    ends = np.cumsum(sizes).tolist()
    return [(*(slice(None),) * axis, slice(end - size, end)) for size, end in zip(sizes, ends, strict=True)]


def view_source(name: str, base: str, before: Array, after: Array, attributes: dict[str, Any]) -> str | None:
    """Python source of the view where it is short, else None: `before` seen as `after`."""
    if name in ("identity", "stop_gradient"):
        return base
    if name == "reshape":
        return f"{base}.reshape({tuple(after.shape)!r})"
    if name == "transpose":
        return f"{base}.transpose({tuple(attributes['axes'])!r})"
    if name == "swapaxes":
        return f"{base}.swapaxes({attributes['first']}, {attributes['second']})"
    if name == "broadcast_to":
        return f"broadcast_to({base}, {tuple(after.shape)!r})"
    return None
