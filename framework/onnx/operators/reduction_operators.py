"""Reductions over axes, running totals, and order."""

from collections.abc import Callable

import numpy as np

from ... import ops
from ...dtype import Dtype
from ...tensor import Tensor, wrap
from ..operator_call import Elements, OperatorCall, Value, array_of, operator, whole_numbers


def _log_sum(x: Tensor, axes: tuple[int, ...] | None, keepdims: bool) -> Tensor:
    return ops.log(ops.sum(x, axes, keepdims))


def _l1(x: Tensor, axes: tuple[int, ...] | None, keepdims: bool) -> Tensor:
    return ops.sum(abs(x), axes, keepdims)


def _l2(x: Tensor, axes: tuple[int, ...] | None, keepdims: bool) -> Tensor:
    return ops.sqrt(ops.sum(x * x, axes, keepdims))


def _sum_square(x: Tensor, axes: tuple[int, ...] | None, keepdims: bool) -> Tensor:
    return ops.sum(x * x, axes, keepdims)


def _extreme(name: str) -> Callable[..., Tensor]:
    def reduced(x: Tensor, axes: tuple[int, ...] | None, keepdims: bool) -> Tensor:
        taken = x.shape if axes is None else [x.shape[axis] for axis in axes]
        if 0 not in taken:
            if x.dtype.kind == "b":
                x = ops.cast(x, "uint8")
            found: Tensor = getattr(ops, name)(x, axes, keepdims)
            return found
        # Of no element: the number that loses against every other.
        filled = Tensor(np.full([max(n, 1) for n in x.shape], _loser(x.dtype, name), x.dtype))
        reduced: Tensor = getattr(ops, name)(filled, axes, keepdims)
        return reduced

    return reduced


def _loser(dtype: Dtype, name: str) -> float:
    if dtype.kind == "b":
        return name == "min"
    if dtype.kind in "iu":
        return np.iinfo(dtype).min if name == "max" else np.iinfo(dtype).max
    return -np.inf if name == "max" else np.inf


_REDUCTIONS: dict[str, tuple[Callable[..., Tensor], int]] = {
    # name: the function, and the version since which the axes are an input
    "ReduceL1": (_l1, 18),
    "ReduceL2": (_l2, 18),
    "ReduceLogSum": (_log_sum, 18),
    "ReduceLogSumExp": (ops.logsumexp, 18),
    "ReduceMax": (_extreme("max"), 18),
    "ReduceMean": (ops.mean, 18),
    "ReduceMin": (_extreme("min"), 18),
    "ReduceProd": (ops.prod, 18),
    "ReduceSum": (ops.sum, 13),
    "ReduceSumSquare": (_sum_square, 18),
}


def _register(name: str, function: Callable[..., Tensor], axes_since: int) -> None:
    def reduced(call: OperatorCall, x: Tensor, axes: Elements | None = None) -> Tensor:
        if call.version < axes_since:
            given = call.get("axes")
        else:
            given = None if axes is None else whole_numbers(axes)
            if not given and call.get("noop_with_empty_axes", 0):
                return _of_each(name, x)
        where = tuple(axis % max(x.ndim, 1) for axis in given) if given else None
        return ops.cast(function(x, where, bool(call.get("keepdims", 1))), x.dtype)

    operator(name)(reduced)


def _of_each(name: str, x: Tensor) -> Tensor:
    """Return what a reduction over no axis does to each element."""
    if name in ("ReduceL1", "ReduceL2"):
        return abs(x)
    if name == "ReduceSumSquare":
        return x * x
    return ops.log(x) if name == "ReduceLogSum" else x


for _name, (_function, _since) in _REDUCTIONS.items():
    _register(_name, _function, _since)


def _extreme_place(call: OperatorCall, x: Tensor, find: Callable[..., Tensor]) -> Tensor:
    axis = call.get("axis", 0) % x.ndim
    if call.get("select_last_index", 0):
        backwards = x[(*(slice(None),) * axis, slice(None, None, -1))]
        places = ops.subtract(x.shape[axis] - 1, find(backwards, axis))
    else:
        places = find(x, axis)
    places = ops.cast(places, "int64")
    return ops.expand_dims(places, axis) if call.get("keepdims", 1) else places


@operator("ArgMax")
def argmax(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the place of the largest element along an axis, the first or the last of equals."""
    return _extreme_place(call, x, ops.argmax)


@operator("ArgMin")
def argmin(call: OperatorCall, x: Tensor) -> Tensor:
    """Return the place of the smallest element along an axis, the first or the last of equals."""
    return _extreme_place(call, x, ops.argmin)


def _axis_of(axis: Elements) -> int:
    return whole_numbers(axis)[0]


@operator("CumSum")
def cumsum(call: OperatorCall, x: Tensor, axis: Elements) -> Tensor:
    """Return sums of the elements up to each, with or without it, from either end."""
    how = {"exclusive": bool(call.get("exclusive", 0)), "reverse": bool(call.get("reverse", 0))}
    return ops.cast(ops.cumsum(x, _axis_of(axis) % x.ndim, **how), x.dtype)


@operator("CumProd")
def cumprod(call: OperatorCall, x: Tensor, axis: Elements) -> Tensor:
    """Return products of the elements up to each, with or without it, from either end."""
    how = {"exclusive": bool(call.get("exclusive", 0)), "reverse": bool(call.get("reverse", 0))}
    return ops.cast(ops.cumprod(x, _axis_of(axis) % x.ndim, **how), x.dtype)


@operator("TopK")
def top_k(call: OperatorCall, x: Tensor, k: Elements | None = None) -> tuple[Tensor, Tensor]:
    """Return the `k` largest or smallest elements along an axis, and their places; of equals the first."""
    count = call.get("k") if k is None else whole_numbers(k)[0]
    axis = call.get("axis", -1) % x.ndim
    values, places = ops.topk(x, count, axis, largest=bool(call.get("largest", 1)))
    return values, ops.cast(places, "int64")


@operator("Unique")
def unique(call: OperatorCall, x: Elements) -> tuple[Value, ...]:
    """Return the distinct elements (or slices along an axis), where each stands first, which one each is, and how
    many."""
    values = array_of(x)
    axis = call.get("axis")
    found, first, inverse, counts = np.unique(
        values, return_index=True, return_inverse=True, return_counts=True, axis=axis
    )
    inverse = inverse.reshape(-1)
    if not call.get("sorted", 1):
        order = np.argsort(first)
        found = np.take(found, order, axis or 0)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        first, inverse, counts = first[order], rank[inverse], counts[order]
    numbers = (wrap(np.asarray(a, np.int64)) for a in (first, inverse, counts))
    return (wrap(found) if isinstance(x, Tensor) else found, *numbers)
