"""Elements of one tensor or of another, by a condition."""

from typing import Any

import numpy as np

from ..dtype import bool_
from ..primitive import Primitive
from ..shape import Spec, broadcast_shapes
from ..tensor import Array, Tensor, TensorLike, method
from .operands import as_tensor, cast_to, pair
from .reduce import sum_to


def _infer_where(condition: Spec, a: Spec, b: Spec) -> Spec:
    shape = broadcast_shapes(condition.shape, a.shape, b.shape)
    return Spec(shape, b.dtype if a.weak else a.dtype)


def _choose(condition: Array, a: Any, b: Any) -> Array:
    """`np.where`, in which a Python number takes the dtype of the other operand, bfloat16 too."""
    if not isinstance(a, np.ndarray):
        a = b.dtype.type(a)
    elif not isinstance(b, np.ndarray):
        b = a.dtype.type(b)
    chosen: Array = np.where(condition, a, b)
    return chosen


_where: Primitive = Primitive(
    "where",
    _choose,
    _infer_where,
    (
        None,
        lambda g, _, condition, a, b: sum_to(_where(condition, g, 0.0), a),
        lambda g, _, condition, a, b: sum_to(_where(condition, 0.0, g), b),
    ),
)


def where(condition: Tensor, a: TensorLike, b: TensorLike) -> Tensor:
    """`a` where the condition holds, else `b`."""
    a, b = pair(a, b)
    return _where(cast_to(as_tensor(condition), bool_), a, b)


@method
def masked_fill(x: Tensor, mask: Tensor, value: TensorLike) -> Tensor:
    """The tensor with one value where the mask, which broadcasts, holds."""
    return where(mask, value, x)
