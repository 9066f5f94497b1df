"""A symbolic length: a polynomial in named lengths and floor divisions, in a normal form.

Equal expressions are equal objects, and shape inference computes with them as it does with integers. Questions about
order are answered where the answer is one for all lengths of 2 or more. Else it is an error that names the length; or,
while a function is captured by example (`assuming`), what holds for the example, and the assumption is written down.
"""

import re
from collections.abc import Iterable, Mapping
from math import prod
from typing import Any, TypeAlias, Union

from .bounds import bounds
from .order import EXAMPLE, Assumption, SymbolicError, answered, decided
from .polynomial import Atom, Monomial, Terms, added, multiplied, quotient, rank, terms_of
from .quotient import Quotient

__all__ = ["Dim", "Length"]


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

    def __add__(self, other: object) -> Any:
        terms = terms_of(other)
        return NotImplemented if terms is None else _made(added(self._terms, terms))

    __radd__ = __add__

    def __neg__(self) -> Any:
        return _made({monomial: -factor for monomial, factor in self._terms.items()})

    def __sub__(self, other: object) -> Any:
        terms = terms_of(other)
        return NotImplemented if terms is None else _made(added(self._terms, {m: -f for m, f in terms.items()}))

    def __rsub__(self, other: object) -> Any:
        return (-self) + other

    def __mul__(self, other: object) -> Any:
        terms = terms_of(other)
        return NotImplemented if terms is None else _made(multiplied(self._terms, terms))

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Any:
        return prod([self] * power)

    def __floordiv__(self, other: object) -> Any:
        return NotImplemented if terms_of(other) is None else _divided(self, other)  # type: ignore[arg-type] # a length

    def __rfloordiv__(self, other: object) -> Any:
        return NotImplemented if terms_of(other) is None else _divided(other, self)  # type: ignore[arg-type] # a length

    def __mod__(self, other: object) -> Any:
        return NotImplemented if terms_of(other) is None else self - (self // other) * other

    def __rmod__(self, other: object) -> Any:
        return NotImplemented if terms_of(other) is None else other - (other // self) * self

    def conjugate(self) -> "Dim":
        """Itself: lengths are real, as rules of complex tensors ask."""
        return self

    def __truediv__(self, other: object) -> Any:
        return Quotient(self, other)

    def __rtruediv__(self, other: object) -> Any:
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
        """The lengths that it depends on."""
        found: set[str] = set()
        for atom in {atom for monomial in self._terms for atom, _ in monomial}:
            parts = (atom,) if isinstance(atom, str) else atom
            found |= {name for part in parts for name in ({part} if isinstance(part, str) else _names(part))}
        return found

    def at(self, lengths: "Mapping[str, Length]") -> "Length":
        """The expression with these lengths for names."""
        total: Any = 0
        for monomial, factor in self._terms.items():
            term: Any = factor
            for atom, power in monomial:
                term = term * prod([_at(atom, lengths)] * power)
            total = total + term
        return total  # type: ignore[no-any-return] # lengths give a length


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
    """A number where nothing else is left, else a Dim."""
    terms = {monomial: factor for monomial, factor in terms.items() if factor}
    if not terms or set(terms) == {()}:
        return terms.get((), 0)
    result = Dim.__new__(Dim)
    result._terms = terms
    result._hash = hash(frozenset(terms.items()))
    return result


def _divided(above: Length, below: Length) -> Length:
    """The floor division; what divides without a remainder leaves the fraction."""
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
    """One step of a long division: what the highest term that can be divided holds of the divisor's highest term."""
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


def _at(atom: Atom, lengths: Mapping[str, Length]) -> Any:
    if isinstance(atom, str):
        return lengths[atom] if atom in lengths else Dim(atom)
    above, below = (part.at(lengths) if isinstance(part, Dim) else part for part in atom)
    return above // below
