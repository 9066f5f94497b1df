"""Tensors and keys that stand for one of many samples, and the table of rules that apply a primitive to all of them."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, NoReturn, TypeAlias

import numpy as np
import numpy.typing as npt

from ..context import is_recomputing
from ..dtype import Dtype
from ..errors import EngineError
from ..ops.operands import as_tensor, infer_broadcast, infer_same
from ..primitive import PRIMITIVES, Primitive, Results
from ..random import Key
from ..registration import entering
from ..specs import Shape
from ..tensor import Array, Tensor, TensorLike


class BatchingError(EngineError, TypeError):
    """Something that cannot be mapped over a batch."""


class Application(NamedTuple):
    """One application of a primitive to inputs of which some are batched.

    Attributes:
        primitive: What is applied.
        level: The running `vmap`: its size and how it takes randomness.
        inputs: Tensors, keys and numbers; a batched tensor has its samples along axis 0.
        batched: Which of the inputs are batched.
        samples: The inputs as the mapped function sees them.
        attributes: Of the primitive, as for one sample.
    """

    primitive: Primitive
    level: "VmapLevel"
    inputs: tuple[Any, ...]
    batched: tuple[bool, ...]
    samples: tuple[Any, ...]
    attributes: dict[str, Any]

    def apply(self, *inputs: object, **changed: object) -> Tensor:
        """Return the primitive applied to these inputs, some attributes changed."""
        return self.primitive(*inputs, **{**self.attributes, **changed})

    def results(self, *inputs: object, **changed: object) -> Results:
        """Return what `apply` does, for a rule of primitives of which some have several outputs."""
        return self.apply(*inputs, **changed)

    def full(self, position: int) -> Tensor:
        """Return an input with all samples along axis 0, repeated if it is the same for each."""
        x = self.inputs[position]
        return x if self.batched[position] else repeated(x, self.level.size)

    def whole(self, sample: Tensor) -> Tensor:
        """Return a result as the mapped function sees it, now with all samples along axis 0."""
        return all_samples(sample, self.level)

    def every(self) -> list[Any]:
        """Return all inputs, tensors with all samples along axis 0."""
        return [self.full(i) if isinstance(x, Tensor) else x for i, x in enumerate(self.inputs)]

    def rank(self, position: int) -> int:
        """Number of axes of one sample of an input; 0 for a number."""
        x = self.samples[position]
        return len(x.shape) if isinstance(x, Tensor) else 0


def repeated(x: Tensor, size: int) -> Tensor:
    """Return a tensor `size` times along a new axis 0, without a copy."""
    return PRIMITIVES["broadcast_to"](PRIMITIVES["reshape"](x, shape=(1, *x.shape)), shape=(size, *x.shape))


BatchingRule: TypeAlias = Callable[[Application], Any]

BATCHING: dict[str, BatchingRule] = {}


def batching(*names: str) -> Callable[[BatchingRule], BatchingRule]:
    """Return a decorator that makes a function the batching rule of primitives.

    The rule takes an `Application` and returns the result with all samples along axis 0, or a tuple of such. It is
    written with primitives, so that `vmap` nests, is differentiated and captured.
    """
    return entering(BATCHING, names, "a batching rule")


def rule_of(primitive: Primitive, attributes: Mapping[str, object]) -> BatchingRule:
    """Return the rule of a primitive: its own, or what its way of inference implies.

    What infers as an element-wise function, and what reduces `axes` with `keepdims`, needs no entry in the table.

    Raises:
        BatchingError: It has none.
    """
    rule = BATCHING.get(primitive.name)
    if rule is not None:
        return rule
    if primitive.infer is infer_broadcast or (primitive.infer is infer_same and not attributes):
        return BATCHING["add"]
    if attributes.keys() == {"axes", "keepdims"}:
        return BATCHING["sum"]
    raise BatchingError(
        f"'{primitive.name}' has no batching rule; register one with @batching({primitive.name!r}), "
        f"or call it outside of vmap"
    )


class VmapLevel:
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
    """Return an array of that shape without memory, for code that asks the array for its shape."""
    return np.broadcast_to(np.zeros((), dtype), shape)


class BatchedTensor(Tensor):
    """One sample of many: its shape is that of a sample, its value holds all of them, along axis 0."""

    __slots__ = ("level", "value")
    __fallback_priority__ = 20

    def __init__(self, value: Tensor, level: VmapLevel) -> None:
        self._data = _hollow(value.shape[1:], value.dtype)
        self._grad = self._node = self._hooks = None
        self._index = 0
        self._version = value._version
        self.requires_grad = False
        self.value, self.level = value, level

    @classmethod
    def __fallback__(cls, primitive: Primitive, inputs: tuple[object, ...], attributes: dict[str, object]) -> Results:
        """Return the result for all samples, by the primitive's rule."""
        return intercept(primitive, inputs, attributes)

    def numpy(self) -> Array:
        """Raise: there are many values."""
        _no_single_value("numpy()")

    def asnumpy(self) -> Array:
        """Raise: there are many values."""
        _no_single_value("asnumpy()")

    def item(self) -> bool | int | float:
        """Raise: there are many values."""
        _no_single_value("item(), float(), int() or a Python condition")

    def tolist(self) -> NoReturn:
        """Raise: there are many values."""
        _no_single_value("tolist()")

    def copy_(self, data: object) -> Tensor:
        """Raise: which of the samples would be meant is not known."""
        del data
        raise BatchingError("a tensor inside vmap cannot be overwritten in place; make a new one")

    def __setitem__(self, index: object, value: object) -> None:
        raise BatchingError("item assignment inside vmap is not possible; use ops.where or scatter operations")

    def __index__(self) -> int:
        _no_single_value("a Python index or range()")

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> Array:
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
    level: VmapLevel

    def __init__(self, base: Key, level: VmapLevel) -> None:
        object.__setattr__(self, "bits", base.bits)
        object.__setattr__(self, "base", base)
        object.__setattr__(self, "level", level)

    @classmethod
    def __fallback__(cls, primitive: Primitive, inputs: tuple[object, ...], attributes: dict[str, object]) -> Results:
        """Return the result for all samples, by the primitive's rule."""
        return intercept(primitive, inputs, attributes)

    def child(self, word: bytes, *numbers: int) -> Key:
        """Return a child that differs from sample to sample too."""
        return BatchedKey(self.base.child(word, *numbers), self.level)


def intercept(primitive: Primitive, inputs: tuple[object, ...], attributes: dict[str, object]) -> Results:
    """Return what a primitive gives for inputs of which some are batched; the innermost `vmap` of them is resolved."""
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


def _inside(x: object) -> object:
    if isinstance(x, BatchedTensor):
        return x.value
    return x.base if isinstance(x, BatchedKey) else x


def all_samples(x: TensorLike, level: VmapLevel) -> Tensor:
    """Return the tensor with all samples along axis 0, repeated if it is the same for each."""
    if isinstance(x, BatchedTensor) and x.level is level:
        return x.value
    return repeated(as_tensor(x), level.size)
