"""Symbolic lengths: polynomials in named lengths and floor divisions, in a normal form.

Equal expressions are equal objects, and shape inference computes with them as it does with integers. Questions about
order are answered where the answer is the same for all lengths of 2 or more. Otherwise they raise an error with the
length; or, while a function is captured by example (`assuming`), the example answers and the assumption is recorded.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from math import prod
from typing import Any, NamedTuple, TypeAlias, Union

from ..errors import EngineError
from .polynomial import LEAST, Atom, Monomial, Terms, added, bounds, multiplied, quotient, rank, terms_of

#: A number that depends on lengths, or does not.
Scalar: TypeAlias = Union[complex, "Dim", "Quotient"]


class Quotient:
    """A number that depends on lengths: `1.0 / n`, as a mean has it; it can be multiplied by numbers."""

    __slots__ = ("above", "below")

    def __init__(self, above: Scalar, below: Scalar) -> None:
        self.above, self.below = above, below

    def __mul__(self, number: Scalar) -> "Quotient":
        return Quotient(self.above * number, self.below)

    __rmul__ = __mul__

    def __truediv__(self, number: Scalar) -> "Quotient":
        return Quotient(self.above, self.below * number)

    def __rtruediv__(self, number: Scalar) -> "Quotient":
        return Quotient(number * self.below, self.above)

    def __neg__(self) -> "Quotient":
        return Quotient(-self.above, self.below)

    def conjugate(self) -> "Quotient":
        """Return itself: lengths are real."""
        return self

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quotient) and (self.above, self.below) == (other.above, other.below)

    def __hash__(self) -> int:
        return hash((Quotient, self.above, self.below))

    def __repr__(self) -> str:
        return f"{self.above!r} / ({self.below})"


class SymbolicError(EngineError, TypeError):
    """A question about a symbolic length that has no answer yet."""


class Assumption(NamedTuple):
    """Whether `length relation 0` was taken to hold."""

    length: "Length"
    relation: str
    answer: bool

    def holds(self, lengths: Mapping[str, int]) -> bool:
        """Return whether it is so for these lengths."""
        value = self.length if isinstance(self.length, int) else self.length.at(lengths)
        return isinstance(value, int) and _RELATIONS[self.relation](value) is self.answer


_RELATIONS: dict[str, Callable[[int], bool]] = {
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
    """Open a block in which questions without an answer for all lengths are answered for these; gives what was
    assumed."""
    example = _Example(lengths, [])
    token = EXAMPLE.set(example)
    try:
        yield example.assumptions
    finally:
        EXAMPLE.reset(token)


def decided(a: "Length", relation: str, b: Any) -> bool:
    """Return whether `a relation b`."""
    if terms_of(b) is None:
        raise SymbolicError(f"the length {a} can be compared with lengths and integers, got {b!r}")
    return answered(a - b, relation, f"{a} {relation} {b}")


def answered(difference: "Length", relation: str, question: str = "") -> bool:
    """Return whether `difference relation 0`, for all lengths, or else for the example."""
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
    """Return the answer for all lengths, None if there is none."""
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


#: A length that is known, or an expression.
Length: TypeAlias = Union[int, "Dim"]


_NAME = re.compile(r"[A-Za-z_]\w*")


class Dim:
    """A length that is not a known number: `Dim("batch")`, `3 * Dim("n") + 1`.

    Args:
        name: A Python name; equal names are the same length.
    """

    __slots__ = ("_hash", "_terms")
    _terms: Terms

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise SymbolicError(f"a length must be called by a plain name, like 'batch', got {name!r}")
        self._terms = {((name, 1),): 1}
        self._hash = hash(frozenset(self._terms.items()))

    # Equality, text.

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Dim) and self._terms == other._terms:
            return True
        if EXAMPLE.get() is None or not isinstance(other, Dim | int):
            return False
        return answered(self - other, "==")

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        text = ""
        for monomial, factor in sorted(self._terms.items(), key=rank):
            sign = "-" if factor < 0 else "+" if text else ""
            text += f" {sign} " if text else sign
            text += "*".join(_words(monomial, abs(factor)))
        return text

    # Arithmetic.

    def __add__(self, other: object) -> "Length":
        terms = terms_of(other)
        return NotImplemented if terms is None else _made(added(self._terms, terms))

    __radd__ = __add__

    def __neg__(self) -> Length:
        return _made({monomial: -factor for monomial, factor in self._terms.items()})

    def __sub__(self, other: object) -> "Length":
        terms = terms_of(other)
        return NotImplemented if terms is None else _made(added(self._terms, {m: -f for m, f in terms.items()}))

    def __rsub__(self, other: "Length") -> Length:
        return (-self) + other

    def __mul__(self, other: object) -> "Length":
        terms = terms_of(other)
        return NotImplemented if terms is None else _made(multiplied(self._terms, terms))

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Length:
        return prod([self] * power)

    def __floordiv__(self, other: object) -> Length:
        return NotImplemented if terms_of(other) is None else _divided(self, other)  # type: ignore[arg-type] # a length

    def __rfloordiv__(self, other: object) -> Length:
        return NotImplemented if terms_of(other) is None else _divided(other, self)  # type: ignore[arg-type] # a length

    def __mod__(self, other: "Length") -> Length:
        return NotImplemented if terms_of(other) is None else self - (self // other) * other

    def __rmod__(self, other: "Length") -> Length:
        return NotImplemented if terms_of(other) is None else other - (other // self) * self

    def conjugate(self) -> "Dim":
        """Return itself: lengths are real, as rules of complex tensors ask."""
        return self

    def __truediv__(self, other: Scalar) -> Quotient:
        return Quotient(self, other)

    def __rtruediv__(self, other: Scalar) -> Quotient:
        return Quotient(other, self)

    # Comparison.

    def __lt__(self, other: object) -> bool:
        return decided(self, "<", other)

    def __le__(self, other: object) -> bool:
        return decided(self, "<=", other)

    def __gt__(self, other: object) -> bool:
        return decided(self, ">", other)

    def __ge__(self, other: object) -> bool:
        return decided(self, ">=", other)

    def __bool__(self) -> bool:
        return not answered(self, "==")

    def __index__(self) -> int:
        example = EXAMPLE.get()
        if example is not None:
            value = self.at(example.lengths)
            if isinstance(value, int):
                example.assumptions.append(Assumption(self - value, "==", True))
                return value
        raise SymbolicError(
            f"the length {self} is symbolic: its value is known only when the compiled function runs; compute with it "
            f"by + - * // %, or compile for fixed shapes (dynamic=False)"
        )

    __int__ = __index__

    # Names in, numbers out.

    def names(self) -> set[str]:
        """Return the lengths that it depends on."""
        found: set[str] = set()
        for atom in {atom for monomial in self._terms for atom, _ in monomial}:
            parts = (atom,) if isinstance(atom, str) else atom
            found |= {name for part in parts for name in ({part} if isinstance(part, str) else _names(part))}
        return found

    def at(self, lengths: "Mapping[str, Length]") -> "Length":
        """Return the expression with these lengths for names."""
        total: Length = 0
        for monomial, factor in self._terms.items():
            term: Length = factor
            for atom, power in monomial:
                term = term * prod([_at(atom, lengths)] * power)
            total = total + term
        return total


def _words(monomial: Monomial, factor: int) -> Iterable[str]:
    if factor != 1 or not monomial:
        yield str(factor)
    for atom, power in monomial:
        word = atom if isinstance(atom, str) else f"({_grouped(atom[0])} // {_grouped(atom[1])})"
        yield from [word] * power


def _grouped(length: Length) -> str:
    text = str(length)
    return text if _NAME.fullmatch(text) or text.isdigit() else f"({text})"


def _made(terms: Terms) -> Length:
    """Return a number where nothing else is left, else a Dim."""
    terms = {monomial: factor for monomial, factor in terms.items() if factor}
    if not terms or set(terms) == {()}:
        return terms.get((), 0)
    result = Dim.__new__(Dim)
    result._terms = terms
    result._hash = hash(frozenset(terms.items()))
    return result


def _divided(above: Length, below: Length) -> Length:
    """Return the floor division; what divides without a remainder leaves the fraction."""
    if isinstance(below, int) and below < 0:
        above, below = -above, -below
    divisor = terms_of(below) or {}
    if not divisor:
        raise ZeroDivisionError(f"the length {above} is divided by zero")
    whole: Terms = {}
    rest = dict(terms_of(above) or {})
    step = _first_share(rest, divisor)
    while step:
        whole = added(whole, step)
        rest = added(rest, multiplied({m: -f for m, f in step.items()}, divisor))
        step = _first_share(rest, divisor)
    remainder = _made(rest)
    if isinstance(remainder, int) and isinstance(below, int):
        return _made(added(whole, {(): remainder // below}))
    low = bounds(remainder)[0]
    if low is not None and low >= 0 and _surely_less(remainder, below):
        return _made(whole)
    return _made(added(whole, {(((remainder, below), 1),): 1}))


def _first_share(rest: Terms, divisor: Terms) -> Terms:
    """Return one step of a long division: what the highest term that can be divided holds of the divisor's highest
    term."""
    (leading, factor), *others = sorted(divisor.items(), key=rank)
    for monomial, count in sorted(rest.items(), key=rank):
        share = quotient(monomial, leading)
        if share is not None and count // factor and not (others and count % factor):
            return {share: count // factor}
    return {}


def _surely_less(a: Length, b: Length) -> bool:
    low, _ = bounds(b - a)
    return low is not None and low > 0


def _names(length: Length) -> set[str]:
    return length.names() if isinstance(length, Dim) else set()


def _at(atom: Atom, lengths: Mapping[str, Length]) -> Length:
    if isinstance(atom, str):
        return lengths[atom] if atom in lengths else Dim(atom)
    above, below = (part.at(lengths) if isinstance(part, Dim) else part for part in atom)
    return above // below
