"""Questions about order: answered for all lengths of 2 or more, else for an example, which is then assumed."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import EngineError
from .bounds import LEAST, bounds
from .polynomial import terms_of

if TYPE_CHECKING:
    from .dim import Length

__all__ = ["EXAMPLE", "Assumption", "SymbolicError", "answered", "assuming", "decided"]


class SymbolicError(EngineError, TypeError):
    """A question about a symbolic length that has no answer yet."""


class Assumption(NamedTuple):
    """Whether `length relation 0` was taken to hold."""

    length: "Length"
    relation: str
    answer: bool

    def holds(self, lengths: Mapping[str, int]) -> bool:
        """Whether it is so for these lengths."""
        value = self.length if isinstance(self.length, int) else self.length.at(lengths)
        return isinstance(value, int) and _RELATIONS[self.relation](value) is self.answer


_RELATIONS: dict[str, Callable[[Any], bool]] = {
    "<": lambda x: bool(x < 0),
    "<=": lambda x: bool(x <= 0),
    ">": lambda x: bool(x > 0),
    ">=": lambda x: bool(x >= 0),
    "==": lambda x: bool(x == 0),
}


class _Example(NamedTuple):
    lengths: Mapping[str, int]
    assumptions: list[Assumption]


EXAMPLE: ContextVar[_Example | None] = ContextVar("example", default=None)


@contextmanager
def assuming(lengths: Mapping[str, int]) -> Iterator[list[Assumption]]:
    """A block in which questions without an answer for all lengths are answered for these; gives what was assumed."""
    example = _Example(lengths, [])
    token = EXAMPLE.set(example)
    try:
        yield example.assumptions
    finally:
        EXAMPLE.reset(token)


def decided(a: "Length", relation: str, b: Any) -> bool:
    """Whether `a relation b`."""
    if terms_of(b) is None:
        raise SymbolicError(f"the length {a} can be compared with lengths and integers, got {b!r}")
    return answered(a - b, relation, f"{a} {relation} {b}")


def answered(difference: "Length", relation: str, question: str = "") -> bool:
    """Whether `difference relation 0`, for all lengths, or else for the example."""
    found = _proved(difference, relation)
    if found is not None:
        return found
    example = EXAMPLE.get()
    if example is not None:
        value = difference if isinstance(difference, int) else difference.at(example.lengths)
        if isinstance(value, int):
            example.assumptions.append(Assumption(difference, relation, _RELATIONS[relation](value)))
            return example.assumptions[-1].answer
    names = " and ".join(repr(name) for name in sorted(set() if isinstance(difference, int) else difference.names()))
    raise SymbolicError(
        f"whether {question or f'{difference} {relation} 0'} holds depends on {names}, which is not known while the "
        f"function is compiled (every length is taken to be {LEAST} or more); fix that length, or compile for fixed "
        f"shapes (dynamic=False)"
    )


def _proved(difference: "Length", relation: str) -> bool | None:
    """The answer for all lengths, None if there is none."""
    low, high = bounds(difference)
    positive, negative = low is not None and low > 0, high is not None and high < 0
    at_least, at_most = low is not None and low >= 0, high is not None and high <= 0
    yes, no = {
        "<": (negative, at_least),
        "<=": (at_most, positive),
        ">": (positive, at_most),
        ">=": (at_least, negative),
        "==": (at_least and at_most, positive or negative),
    }[relation]
    return True if yes else False if no else None
