"""Elements written to places along one axis, alone or joined with what stands there."""

from typing import Any, Literal, TypeAlias

import numpy as np

from ..errors import ShapeError
from ..primitive import Primitive
from ..shape import Spec, normalize_axis
from ..tensor import Array, Tensor, TensorLike, method
from .arithmetic import add, divide, multiply
from .choose import where
from .compare import equal
from .create import full
from .elements import check_indices, gather_primitive, places_along, put_primitive
from .operands import as_tensor, cast_to, conjugate, pair

Reduction: TypeAlias = Literal["none", "add", "mul", "max", "min"]
_UPDATES: dict[str, Any] = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}


def _scatter_of(x: Array, indices: Array, updates: Array, *, axis: int, reduction: Reduction) -> Array:
    _check_updates(x, indices, updates, axis)
    result = x.copy()
    places = places_along(indices, axis, x.shape[axis])
    if reduction == "none":
        result[places] = updates
    else:
        _UPDATES[reduction].at(result, places, updates)
    return result


def _check_updates(x: Spec | Array, indices: Spec | Array, updates: Spec | Array, axis: int) -> None:
    check_indices(x, indices, axis)
    if updates.shape != indices.shape:
        raise ShapeError(f"updates expect the shape of the indices {indices.shape}, got {updates.shape}")


def _infer_scatter(x: Spec, indices: Spec, updates: Spec, *, axis: int, reduction: Reduction) -> Spec:
    _check_updates(x, indices, updates, axis)
    return x


def _of_base(
    g: Tensor, out: Tensor, x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: Reduction
) -> Tensor:
    if reduction == "add":
        return g
    if reduction == "none":
        return _scatter(g, indices, _constant(updates, 0.0), axis=axis, reduction="none")
    if reduction == "mul":
        ones = _constant(x, 1.0)
        return multiply(g, conjugate(_scatter(ones, indices, updates, axis=axis, reduction="mul")))
    return where(equal(x, out), _shared(g, out, x, indices, updates, axis), 0.0)


def _of_updates(
    g: Tensor, out: Tensor, x: Tensor, indices: Tensor, updates: Tensor, *, axis: int, reduction: Reduction
) -> Tensor:
    if reduction in ("add", "none"):
        return gather_primitive(g, indices, axis=axis)
    if reduction == "mul":
        alone = gather_primitive(multiply(g, conjugate(x)), indices, axis=axis)  # right where no index comes twice
        nothing = equal(updates, 0.0)
        whole = gather_primitive(multiply(g, conjugate(out)), indices, axis=axis)
        return where(nothing, alone, divide(whole, conjugate(where(nothing, 1.0, updates))))
    shared = gather_primitive(_shared(g, out, x, indices, updates, axis), indices, axis=axis)
    return where(equal(updates, gather_primitive(out, indices, axis=axis)), shared, 0.0)


def _shared(g: Tensor, out: Tensor, x: Tensor, indices: Tensor, updates: Tensor, axis: int) -> Tensor:
    """The gradient of an extreme, divided among those that are equal to it."""
    hits = cast_to(equal(updates, gather_primitive(out, indices, axis=axis)), g.dtype)
    count = add(cast_to(equal(x, out), g.dtype), put_primitive(hits, indices, axis=axis, shape=x.shape))
    return divide(g, count)


def _constant(like: Tensor, value: float) -> Tensor:
    return full(like.shape, value, like.dtype)


_scatter: Primitive = Primitive(
    "scatter_elements", _scatter_of, _infer_scatter, (_of_base, None, _of_updates), saves_output=True
)


@method
def scatter_elements(
    x: Tensor, indices: Tensor, updates: TensorLike, axis: int = 0, reduction: Reduction = "none"
) -> Tensor:
    """`x` with updates put in (added, multiplied, ...) where `gather_elements` with the same indices would look.

    Args:
        x: `(*shape)`.
        indices: Integers of as many axes, none longer than that of `x` except `axis`; negative ones count from the end.
        updates: Of the shape of the indices, or a number.
        axis: Along which.
        reduction: "none" replaces (of equal indices one wins), "add", "mul", "max", "min" combine.

    Returns:
        Of the shape of `x`. Equal extremes share the gradient.
    """
    if reduction != "none" and reduction not in _UPDATES:
        raise ValueError(f"no reduction {reduction!r}; use 'none', 'add', 'mul', 'max' or 'min'")
    x, indices = as_tensor(x), as_tensor(indices)
    if not isinstance(updates, Tensor):
        updates = full(indices.shape, updates, x.dtype)
    x, updates = pair(x, updates)
    how: dict[str, Any] = {"axis": normalize_axis(axis, x.ndim), "reduction": reduction}
    return _scatter(x, indices, updates, **how)
