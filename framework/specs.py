"""Shapes and specs: what is known of a tensor before its values are, and the arithmetic of shapes.

What comes out of broadcasting, reducing, multiplying and sliding a window, and the errors for unfit arguments.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, TypeAlias

from .dtype import Dtype, bool_, complex64, float32, int64
from .errors import DataDependentShape, DtypeError, EngineError, ShapeError
from .random import Key

Shape: TypeAlias = tuple[int, ...]
Axes: TypeAlias = int | Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Spec:
    """What is known of a tensor before its values are: shape and dtype.

    `weak` marks a Python number, which takes the dtype of the tensor it meets; it plays no part in comparisons.
    """

    shape: Shape
    dtype: Dtype
    weak: bool = field(default=False, compare=False)

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)


def broadcast_shapes(*shapes: Shape) -> Shape:
    """Return the shape that arrays of these shapes broadcast to.

    Raises:
        ShapeError: Two lengths along an axis differ and none is 1.
    """
    ndim = max((len(shape) for shape in shapes), default=0)
    result = [1] * ndim
    for shape in shapes:
        for axis, length in enumerate(shape, ndim - len(shape)):
            if length != 1 and result[axis] not in (1, length):
                raise ShapeError(
                    f"shapes {' and '.join(map(str, shapes))} do not broadcast: "
                    f"counted from the right, lengths must be equal or 1"
                )
            if length != 1:
                result[axis] = length
    return tuple(result)


def normalize_axis(axis: int, ndim: int) -> int:
    """Return the axis counted from the left, for an axis that may be counted from the right."""
    if not -ndim <= axis < ndim:
        raise ShapeError(f"axis {axis} does not exist in a tensor of {ndim} axes; expected {-ndim}..{ndim - 1}")
    return axis % ndim


def normalize_axes(axes: Axes, ndim: int) -> Shape:
    """Return the axes counted from the left, sorted; all of them for None."""
    if axes is None:
        return tuple(range(ndim))
    if isinstance(axes, int):
        return (normalize_axis(axes, ndim),)
    found = tuple(sorted(normalize_axis(axis, ndim) for axis in axes))
    if len(set(found)) != len(found):
        raise ShapeError(f"axes {tuple(axes)} name one axis twice in a tensor of {ndim} axes")
    return found


def reduced_shape(shape: Shape, axes: Axes, keepdims: bool) -> Shape:
    """Return the shape after reducing over `axes`."""
    gone = normalize_axes(axes, len(shape))
    if keepdims:
        return tuple(1 if axis in gone else length for axis, length in enumerate(shape))
    return tuple(length for axis, length in enumerate(shape) if axis not in gone)


def reshaped(shape: Shape, wanted: Sequence[int]) -> Shape:
    """Return the wanted shape with its -1 filled in."""
    size, free = prod(shape), [axis for axis, length in enumerate(wanted) if length == -1]
    known = prod(length for length in wanted if length != -1)
    if len(free) == 1 and known > 0 and size % known == 0:
        filled = list(wanted)
        filled[free[0]] = size // known
        return tuple(filled)
    if free or known != size or any(length < 0 for length in wanted):
        raise ShapeError(
            f"cannot reshape {shape} ({size} elements) to {tuple(wanted)}; the number of elements must stay"
        )
    return tuple(wanted)


def matmul_shape(a: Shape, b: Shape) -> Shape:
    """Return the shape of `a @ b`: vectors, matrices, and stacks of matrices that broadcast."""
    if not a or not b:
        raise ShapeError(f"matmul expects tensors of one axis or more, got {a} and {b}")
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise ShapeError(f"matmul of {a} and {b}: last axis of the first ({a[-1]}) must equal {inner} of the second")
    left = a[-2:-1] if len(a) > 1 else ()
    right = b[-1:] if len(b) > 1 else ()
    return (*broadcast_shapes(a[:-2], b[:-2]), *left, *right)


def window_length(length: int, kernel: int, stride: int, padding: int, dilation: int = 1) -> int:
    """Return how many windows fit along an axis of `length`, padded by `padding` on both sides."""
    reach = dilation * (kernel - 1) + 1
    count = (length + 2 * padding - reach) // stride + 1
    if count < 1:
        raise ShapeError(
            f"a window of {kernel} (dilation {dilation}) does not fit an axis of {length} with padding {padding}"
        )
    return count


def spec_of(value: Any) -> Any:  # of an array, a tensor or a number a Spec; a key stands for itself
    """Return the shape and dtype of a value; a random key, which has neither, stands for itself."""
    if isinstance(value, bool):
        return Spec((), bool_, weak=True)
    if isinstance(value, int):
        return Spec((), int64, weak=True)
    if isinstance(value, float):
        return Spec((), float32, weak=True)
    if isinstance(value, complex):
        return Spec((), complex64, weak=True)
    if isinstance(value, Key):
        return value
    dtype: Dtype = value.dtype
    return Spec(tuple(value.shape), dtype)


def evaluation_error(
    name: str,
    infer: Callable[..., object],
    values: Sequence[object],
    attributes: Mapping[str, object],
    error: Exception,
) -> EngineError:
    """Return NumPy's error in the words of the primitive: what its inference says of the arguments, or NumPy's text.

    Args:
        name: Of the primitive that was evaluated.
        infer: Its inference.
        values: Arrays, numbers and keys that it was given.
        attributes: Its keyword attributes.
        error: What its evaluation raised.
    """
    specs = [spec_of(value) for value in values]
    shapes = ", ".join(f"{s.shape} {s.dtype}" if isinstance(s, Spec) else type(s).__name__ for s in specs)
    reason: Exception = error
    try:
        infer(*specs, **attributes)
    except DataDependentShape:
        pass
    except EngineError as inferred:
        reason = inferred
    except (ValueError, TypeError, IndexError):
        pass
    builtin_kind = DtypeError if isinstance(reason, TypeError) else ShapeError
    kind = type(reason) if isinstance(reason, EngineError) else builtin_kind
    return kind(f"'{name}' cannot take {shapes}: {reason}")
