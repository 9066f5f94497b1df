"""How the tensors of a value are nested, so that it can be taken apart and put together again."""

from collections.abc import Callable, Sequence
from typing import Any

from ..tensor import Tensor

__all__ = ["Structure", "flattened"]


class Structure:
    """The shape of a container: `filled` makes the value from its tensors.

    Attributes:
        leaves: Number of tensors.
    """

    __slots__ = ("_build", "leaves")

    def __init__(self, leaves: int, build: Callable[[Sequence[Any]], Any]) -> None:
        self.leaves, self._build = leaves, build

    @classmethod
    def nothing(cls) -> "Structure":
        """That of a value without tensors."""
        return cls(0, lambda _: None)

    def filled(self, tensors: Sequence[Any]) -> Any:
        """The value with these tensors."""
        return self._build(tensors)


def flattened(value: Any) -> tuple[list[Tensor], Structure]:
    """The tensors of a value of tuples, lists and dicts, in order, and how they are nested."""
    if isinstance(value, Tensor):
        return [value], Structure(1, lambda tensors: tensors[0])
    if isinstance(value, dict):
        leaves, inner = flattened(list(value.values()))
        keys = list(value)
        return leaves, Structure(inner.leaves, lambda tensors: dict(zip(keys, inner.filled(tensors), strict=True)))
    if isinstance(value, tuple | list):
        parts = [flattened(part) for part in value]
        leaves = [leaf for found, _ in parts for leaf in found]
        below = [structure for _, structure in parts]
        return leaves, Structure(len(leaves), lambda tensors: _sequence(type(value), below, tensors))
    return [], Structure(0, lambda _: value)


def _sequence(kind: type, below: Sequence[Structure], tensors: Sequence[Any]) -> Any:
    parts, start = [], 0
    for structure in below:
        parts.append(structure.filled(tensors[start : start + structure.leaves]))
        start += structure.leaves
    return kind(*parts) if hasattr(kind, "_fields") else kind(parts)
