"""The table of batching rules: how a primitive is applied to all samples at once."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from ..errors import EngineError
from ..ops.operands import infer_broadcast, infer_same
from ..primitive import PRIMITIVES, Primitive
from ..tables import entering
from ..tensor import Tensor

__all__ = ["BATCHING", "Application", "BatchingError", "Rule", "batching", "rule_of"]


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
    level: Any  # Level, which knows this class
    inputs: tuple[Any, ...]
    batched: tuple[bool, ...]
    samples: tuple[Any, ...]
    attributes: dict[str, Any]

    def apply(self, *inputs: Any, **changed: Any) -> Any:
        """The primitive applied to these inputs, some attributes changed."""
        return self.primitive(*inputs, **{**self.attributes, **changed})

    def full(self, position: int) -> Any:
        """An input with all samples along axis 0, repeated if it is the same for each."""
        x = self.inputs[position]
        return x if self.batched[position] else repeated(x, self.level.size)

    def whole(self, sample: Any) -> Any:
        """A result as the mapped function sees it, now with all samples along axis 0."""
        return sample.value if getattr(sample, "level", None) is self.level else repeated(sample, self.level.size)

    def every(self) -> list[Any]:
        """All inputs, tensors with all samples along axis 0."""
        return [self.full(i) if isinstance(x, Tensor) else x for i, x in enumerate(self.inputs)]

    def rank(self, position: int) -> int:
        """Number of axes of one sample of an input; 0 for a number."""
        x = self.samples[position]
        return len(x.shape) if isinstance(x, Tensor) else 0


def repeated(x: Any, size: int) -> Any:
    """A tensor `size` times along a new axis 0, without a copy."""
    return PRIMITIVES["broadcast_to"](PRIMITIVES["reshape"](x, shape=(1, *x.shape)), shape=(size, *x.shape))


Rule: TypeAlias = Callable[[Application], Any]

BATCHING: dict[str, Rule] = {}


def batching(*names: str) -> Callable[[Rule], Rule]:
    """A decorator that makes a function the batching rule of primitives.

    The rule takes an `Application` and returns the result with all samples along axis 0, or a tuple of such. It is
    written with primitives, so that `vmap` nests, is differentiated and captured.
    """
    return entering(BATCHING, names, "a batching rule")


def rule_of(primitive: Primitive, attributes: dict[str, Any]) -> Rule:
    """The rule of a primitive: its own, or what its way of inference implies.

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
