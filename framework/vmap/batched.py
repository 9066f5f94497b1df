"""Tensors and keys that stand for one of many: what a function sees while it is mapped over a batch."""

from functools import lru_cache
from typing import Any, ClassVar, NoReturn

import numpy as np

from ..context import is_recomputing
from ..dtype import Dtype
from ..ops.operands import as_tensor
from ..random import Key
from ..shape import Shape
from ..tensor import Array, Tensor
from .rule import Application, BatchingError, repeated, rule_of

__all__ = ["BatchedKey", "BatchedTensor", "Level", "intercept"]


class Level:
    """One running `vmap`.

    Attributes:
        depth: 1 for the outermost, 2 for one inside it, and so on.
        size: Number of samples.
        randomness: "error", "same" or "different".
        is_over: Whether it has returned: what is left of it must not be used any more.
    """

    __slots__ = ("depth", "is_over", "randomness", "size")

    def __init__(self, depth: int, size: int, randomness: str) -> None:
        self.depth, self.size, self.randomness = depth, size, randomness
        self.is_over = False


@lru_cache(1024)
def _hollow(shape: Shape, dtype: Dtype) -> Array:
    """An array of that shape without memory, for code that asks the array for its shape."""
    return np.broadcast_to(np.zeros((), dtype), shape)


class BatchedTensor(Tensor):
    """One sample of many: its shape is that of a sample, its value holds all of them, along axis 0."""

    __slots__ = ("level", "value")
    __fallback_priority__ = 20

    def __init__(self, value: Tensor, level: Level) -> None:
        self._data = _hollow(value.shape[1:], value.dtype)
        self._grad = self._node = self._hooks = None
        self._index = 0
        self._version = value._version
        self.requires_grad = False
        self.value, self.level = value, level

    @classmethod
    def __fallback__(cls, primitive: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """The result for all samples, by the primitive's rule."""
        return intercept(primitive, inputs, attributes)

    def numpy(self) -> Array:
        """Never: there are many values."""
        _no_single_value("numpy()")

    def asnumpy(self) -> Array:
        """Never: there are many values."""
        _no_single_value("asnumpy()")

    def item(self) -> bool | int | float:
        """Never: there are many values."""
        _no_single_value("item(), float(), int() or a Python condition")

    def tolist(self) -> Any:
        """Never: there are many values."""
        _no_single_value("tolist()")

    def copy_(self, data: object) -> Tensor:
        """Never: which of the samples would be meant is not known."""
        del data
        raise BatchingError("a tensor inside vmap cannot be overwritten in place; make a new one")

    def __setitem__(self, index: object, value: object) -> None:
        raise BatchingError("item assignment inside vmap is not possible; use ops.where or scatter operations")

    def __index__(self) -> int:
        _no_single_value("a Python index or range()")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        _no_single_value("a NumPy function")

    def __repr__(self) -> str:
        return f"BatchedTensor(shape={self.shape}, dtype={self.dtype}, samples={self.level.size})"


def _no_single_value(who: str) -> NoReturn:
    raise BatchingError(
        f"{who} needs one value, but inside vmap a tensor stands for many samples; use tensor operations "
        f"(ops.where for a condition), or compute this outside of vmap"
    )


class BatchedKey(Key):
    """A key that is another one for each sample: child `i` of `base`."""

    __slots__ = ("base", "level")
    __fallback_priority__: ClassVar[int] = 20
    base: Key
    level: Level

    def __init__(self, base: Key, level: Level) -> None:
        object.__setattr__(self, "bits", base.bits)
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "level", level)

    @classmethod
    def __fallback__(cls, primitive: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
        """The result for all samples, by the primitive's rule."""
        return intercept(primitive, inputs, attributes)

    def child(self, word: bytes, *numbers: int) -> Key:
        """A child that differs from sample to sample too."""
        return BatchedKey(self.base.child(word, *numbers), self.level)


def intercept(primitive: Any, inputs: tuple[Any, ...], attributes: dict[str, Any]) -> Any:
    """What a primitive gives for inputs of which some are batched; the innermost `vmap` of them is resolved."""
    batched = [x for x in inputs if isinstance(x, BatchedTensor | BatchedKey)]
    level = max((x.level for x in batched), key=lambda level: level.depth)
    if level.is_over and not is_recomputing():
        raise BatchingError(
            f"'{primitive.name}' met a tensor of a vmap that has ended; do not keep tensors from inside it in lists, "
            f"attributes, `.grad` or globals: return them"
        )
    flags = tuple([isinstance(x, BatchedTensor | BatchedKey) and x.level is level for x in inputs])
    values = tuple([_inside(x) if flag else x for x, flag in zip(inputs, flags, strict=True)])
    result = rule_of(primitive, attributes)(Application(primitive, level, values, flags, inputs, attributes))
    if isinstance(result, tuple):
        return tuple([BatchedTensor(y, level) for y in result])
    return BatchedTensor(result, level)


def _inside(x: Any) -> Any:
    return x.value if isinstance(x, BatchedTensor) else x.base


def all_samples(x: Any, level: Level) -> Any:
    """The tensor with all samples along axis 0, repeated if it is the same for each."""
    if isinstance(x, BatchedTensor) and x.level is level:
        return x.value
    return repeated(as_tensor(x), level.size)
