"""Elements taken from places along one axis, and put back there."""

import numpy as np

from ..errors import DtypeError, ShapeError
from ..primitive import Primitive
from ..shape import Shape, Spec, broadcast_shapes, normalize_axis
from ..tensor import Array, Tensor, method
from .operands import as_tensor
from .reduce import broadcast_to


def places_along(indices: Array, axis: int, length: int) -> tuple[Array, ...]:
    """For each element of `indices` its own place, with the index in the place of `axis`."""
    if indices.size and (indices.min() < -length or indices.max() >= length):
        wrong = indices[(indices < -length) | (indices >= length)].flat[0]
        raise ShapeError(f"index {wrong} does not exist along axis {axis} of length {length}")
    grid = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    grid[axis] = indices
    return tuple(grid)


def check_indices(x: Spec | Array, indices: Spec | Array, axis: int) -> None:
    """Nothing; indices that do not fit the tensor are refused."""
    if indices.dtype.kind not in "iu":
        raise DtypeError(f"indices must be integers, got {indices.dtype}")
    if len(x.shape) != len(indices.shape):
        raise ShapeError(f"indices {indices.shape} expect as many axes as the tensor of shape {x.shape}")
    for i, (a, b) in enumerate(zip(x.shape, indices.shape, strict=True)):
        if i != axis and b > a:
            raise ShapeError(f"indices {indices.shape} are longer than {x.shape} along axis {i}")


def _infer_gather(x: Spec, indices: Spec, *, axis: int) -> Spec:
    check_indices(x, indices, axis)
    return Spec(indices.shape, x.dtype)


def _gather_of(x: Array, indices: Array, *, axis: int) -> Array:
    check_indices(x, indices, axis)
    picked: Array = x[places_along(indices, axis, x.shape[axis])]
    return picked


def _put_of(g: Array, indices: Array, *, axis: int, shape: Shape) -> Array:
    result = np.zeros(shape, g.dtype)
    np.add.at(result, places_along(indices, axis, shape[axis]), g)
    return result


gather_primitive: Primitive = Primitive(
    "gather_elements",
    _gather_of,
    _infer_gather,
    (lambda g, _, x, indices, *, axis: put_primitive(g, indices, axis=axis, shape=x.shape), None),
)


put_primitive: Primitive = Primitive(
    "put_elements",
    _put_of,
    lambda g, indices, *, axis, shape: Spec(tuple(shape), g.dtype),
    (lambda gg, _, g, indices, *, axis, shape: gather_primitive(gg, indices, axis=axis), None),
)


@method
def gather_elements(x: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
    """For each place the element of `x` at that place, but at its own index along `axis`.

    Args:
        x: `(*shape)`.
        indices: Integers of as many axes, none longer than that of `x` except `axis`; negative ones count from the end.
        axis: Along which.

    Returns:
        Of the shape of the indices.
    """
    x = as_tensor(x)
    return gather_primitive(x, as_tensor(indices), axis=normalize_axis(axis, x.ndim))


@method
def take_along_axis(x: Tensor, indices: Tensor, axis: int = -1) -> Tensor:
    """`gather_elements` with indices and tensor broadcast against each other outside of `axis`, as NumPy has it."""
    x, indices = as_tensor(x), as_tensor(indices)
    place = normalize_axis(axis, x.ndim)
    rest = broadcast_shapes(_without(x.shape, place), _without(indices.shape, place))
    x = broadcast_to(x, (*rest[:place], x.shape[place], *rest[place + 1 :]))
    indices = broadcast_to(indices, (*rest[:place], indices.shape[place], *rest[place + 1 :]))
    return gather_primitive(x, indices, axis=place)


def _without(shape: Shape, axis: int) -> Shape:
    return (*shape[:axis], 1, *shape[axis + 1 :])


def put_elements(values: Tensor, indices: Tensor, axis: int, shape: Shape) -> Tensor:
    """Zeros of that shape, to which each value is added at its index along `axis`; the transpose of gathering."""
    return put_primitive(values, indices, axis=normalize_axis(axis, len(shape)), shape=tuple(shape))
