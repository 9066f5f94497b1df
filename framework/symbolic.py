"""Symbolic lengths: what an axis is called before it is known how long it is, and arithmetic on such names.

A `Dim` is a polynomial with integer coefficients in named lengths and in floor divisions, in a normal form, so that
equal expressions are equal objects. Shape inference computes with it as it does with integers. Comparisons are decided
for all lengths at once, under the assumption that every named length is 2 or more; what cannot be decided so is an
error that names the length. (`==` is not: it asks whether two expressions are the same, so that types can be compared.)

Reference:
    The convention "2 or more, unless known" is PyTorch's: 0 and 1 are special to broadcasting and are specialised on.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from math import prod
from typing import Any, TypeAlias, Union

from .errors import EngineError

__all__ = ["Dim", "Length", "SymbolicError", "dims_of", "is_static", "substitute", "unify"]

#: A length that is known, or an expression.
Length: TypeAlias = Union[int, "Dim"]

#: A name, or (numerator, denominator) of a floor division.
_Atom: TypeAlias = Any
#: Atoms and their powers, in order.
_Monomial: TypeAlias = tuple[tuple[_Atom, int], ...]
_Terms: TypeAlias = dict[_Monomial, int]

_LEAST = 2
_NAME = re.compile(r"[A-Za-z_]\w*")


class SymbolicError(EngineError, TypeError):
    """A question about a symbolic length that has no answer yet."""


class Dim:
    """A length that is not a known number: `Dim("batch")`, `3 * Dim("n") + 1`.

    Args:
        name: A Python name; equal names are the same length.
    """

    __slots__ = ("_hash", "_terms")
    _terms: _Terms

    def __init__(self, name: str) -> None:
        if not _NAME.fullmatch(name):
            raise SymbolicError(f"a length must be called by a plain name, like 'batch', got {name!r}")
        self._terms = {((name, 1),): 1}
        self._hash = hash(frozenset(self._terms.items()))

    # Equality, text.

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Dim) and self._terms == other._terms

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        text = ""
        for monomial, factor in sorted(self._terms.items(), key=_rank):
            sign = "-" if factor < 0 else "+" if text else ""
            text += f" {sign} " if text else sign
            text += "*".join(_words(monomial, abs(factor)))
        return text

    # Arithmetic.

    def __add__(self, other: object) -> Any:
        terms = _terms(other)
        return NotImplemented if terms is None else _made(_sum(self._terms, terms))

    __radd__ = __add__

    def __neg__(self) -> Any:
        return _made({monomial: -factor for monomial, factor in self._terms.items()})

    def __sub__(self, other: object) -> Any:
        terms = _terms(other)
        return NotImplemented if terms is None else _made(_sum(self._terms, {m: -f for m, f in terms.items()}))

    def __rsub__(self, other: object) -> Any:
        return (-self) + other

    def __mul__(self, other: object) -> Any:
        terms = _terms(other)
        return NotImplemented if terms is None else _made(_product(self._terms, terms))

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Any:
        return prod([self] * power)

    def __floordiv__(self, other: object) -> Any:
        return NotImplemented if _terms(other) is None else _divided(self, other)  # type: ignore[arg-type] # a length

    def __rfloordiv__(self, other: object) -> Any:
        return NotImplemented if _terms(other) is None else _divided(other, self)  # type: ignore[arg-type] # a length

    def __mod__(self, other: object) -> Any:
        return NotImplemented if _terms(other) is None else self - (self // other) * other

    def __rmod__(self, other: object) -> Any:
        return NotImplemented if _terms(other) is None else other - (other // self) * self

    def __truediv__(self, other: object) -> Any:
        return Quotient(self, other)

    def __rtruediv__(self, other: object) -> Any:
        return Quotient(other, self)

    # Comparison.

    def __lt__(self, other: object) -> bool:
        return _decided(self, "<", other)

    def __le__(self, other: object) -> bool:
        return _decided(self, "<=", other)

    def __gt__(self, other: object) -> bool:
        return _decided(self, ">", other)

    def __ge__(self, other: object) -> bool:
        return _decided(self, ">=", other)

    def __bool__(self) -> bool:
        low, high = _bounds(self)
        if (low is not None and low > 0) or (high is not None and high < 0):
            return True
        raise SymbolicError(f"whether the length {self} is 0 cannot be decided for all lengths of 2 or more")

    def __index__(self) -> int:
        raise SymbolicError(
            f"the length {self} is symbolic: its value is known only when the compiled function runs; compute with it "
            f"by + - * // %, or compile for fixed shapes (dynamic=False)"
        )

    __int__ = __index__


class Quotient:
    """A number that depends on lengths: `1.0 / n`, as a mean has it; it can be multiplied by numbers."""

    __slots__ = ("above", "below")

    def __init__(self, above: Any, below: Any) -> None:
        self.above, self.below = above, below

    def __mul__(self, number: Any) -> "Quotient":
        return Quotient(self.above * number, self.below)

    __rmul__ = __mul__

    def __neg__(self) -> "Quotient":
        return Quotient(-self.above, self.below)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quotient) and (self.above, self.below) == (other.above, other.below)

    def __hash__(self) -> int:
        return hash((Quotient, self.above, self.below))

    def __repr__(self) -> str:
        return f"{self.above!r} / ({self.below})"


def _words(monomial: _Monomial, factor: int) -> Iterable[str]:
    if factor != 1 or not monomial:
        yield str(factor)
    for atom, power in monomial:
        word = atom if isinstance(atom, str) else f"({_grouped(atom[0])} // {_grouped(atom[1])})"
        yield from [word] * power


def _grouped(length: Length) -> str:
    text = str(length)
    return text if _NAME.fullmatch(text) or text.isdigit() else f"({text})"


def _rank(term: tuple[_Monomial, int]) -> tuple[int, str]:
    monomial = term[0]
    return -sum(power for _, power in monomial), str(monomial)


def _terms(value: object) -> _Terms | None:
    if isinstance(value, Dim):
        return value._terms
    if isinstance(value, int) or (hasattr(value, "__index__") and not hasattr(value, "shape")):
        return {(): int(value)} if int(value) else {}
    if hasattr(value, "__index__") and getattr(value, "shape", None) == ():
        return {(): int(value)} if int(value) else {}
    return None


def _made(terms: _Terms) -> Length:
    """A number where nothing else is left, else a Dim."""
    terms = {monomial: factor for monomial, factor in terms.items() if factor}
    if not terms or set(terms) == {()}:
        return terms.get((), 0)
    result = Dim.__new__(Dim)
    result._terms = terms
    result._hash = hash(frozenset(terms.items()))
    return result


def _sum(a: _Terms, b: _Terms) -> _Terms:
    result = dict(a)
    for monomial, factor in b.items():
        result[monomial] = result.get(monomial, 0) + factor
    return result


def _product(a: _Terms, b: _Terms) -> _Terms:
    result: _Terms = {}
    for first, x in a.items():
        for second, y in b.items():
            monomial = _joined(first, second)
            result[monomial] = result.get(monomial, 0) + x * y
    return result


def _joined(first: _Monomial, second: _Monomial) -> _Monomial:
    powers = dict(first)
    for atom, power in second:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(((a, p) for a, p in powers.items() if p), key=lambda pair: str(pair[0])))


def _quotient(monomial: _Monomial, by: _Monomial) -> _Monomial | None:
    """One product of atoms divided by another, None if that leaves a fraction."""
    powers = dict(monomial)
    for atom, power in by:
        powers[atom] = powers.get(atom, 0) - power
    if any(power < 0 for power in powers.values()):
        return None
    return tuple(sorted(((a, p) for a, p in powers.items() if p), key=lambda pair: str(pair[0])))


def _divided(above: Length, below: Length) -> Length:
    """The floor division; what divides without a remainder leaves the fraction."""
    if isinstance(below, int) and below < 0:
        above, below = -above, -below
    divisor = _terms(below) or {}
    if not divisor:
        raise ZeroDivisionError(f"the length {above} is divided by zero")
    whole: _Terms = {}
    rest = dict(_terms(above) or {})
    step = _first_share(rest, divisor)
    while step:
        whole = _sum(whole, step)
        rest = _sum(rest, _product({m: -f for m, f in step.items()}, divisor))
        step = _first_share(rest, divisor)
    remainder = _made(rest)
    if isinstance(remainder, int) and isinstance(below, int):
        return _made(_sum(whole, {(): remainder // below}))
    low = _bounds(remainder)[0]
    if low is not None and low >= 0 and _surely_less(remainder, below):
        return _made(whole)
    return _made(_sum(whole, {(((remainder, below), 1),): 1}))


def _first_share(rest: _Terms, divisor: _Terms) -> _Terms:
    """One step of a long division: what the highest term that can be divided holds of the divisor's highest term."""
    (leading, factor), *others = sorted(divisor.items(), key=_rank)
    for monomial, count in sorted(rest.items(), key=_rank):
        share = _quotient(monomial, leading)
        if share is not None and count // factor and not (others and count % factor):
            return {share: count // factor}
    return {}


def _surely_less(a: Length, b: Length) -> bool:
    low, _ = _bounds(b - a)
    return low is not None and low > 0


# Bounds, for all lengths of 2 or more.


def _bounds(length: Length) -> tuple[Fraction | int | None, Fraction | int | None]:
    """The least and the largest value that can be proved, None where none can."""
    if isinstance(length, int):
        return length, length
    low = _least(length._terms)
    high = _least({monomial: -factor for monomial, factor in length._terms.items()})
    return low, None if high is None else -high


def _least(terms: _Terms) -> Fraction | int | None:
    """The better of two proofs: by the bounds of every atom; with `a // b` between `(a - b + 1) / b` and `a / b`."""
    found = [bound for bound in (_shifted(dict(terms)), _relaxed(terms)) if bound is not None]
    return max(found) if found else None


def _atom_least(atom: _Atom) -> Fraction | int | None:
    if isinstance(atom, str):
        return _LEAST
    low, below = _bounds(atom[0])[0], _bounds(atom[1])[0]
    if low is None or below is None or below <= 0:
        return None
    return low // atom[1] if isinstance(atom[1], int) else (0 if low >= 0 else None)


def _shifted(terms: Mapping[_Monomial, Fraction | int]) -> Fraction | int | None:
    """The constant term when every atom is written as its least value plus something from 0 up, if that proves it."""
    atoms = {atom for monomial in terms for atom, _ in monomial}
    least = {atom: _atom_least(atom) for atom in atoms}
    if any(bound is None for bound in least.values()):
        return None
    expanded: dict[_Monomial, Fraction | int] = {}
    for monomial, factor in terms.items():
        partial: dict[_Monomial, Fraction | int] = {(): factor}
        for atom, power in monomial:
            for _ in range(power):
                grown: dict[_Monomial, Fraction | int] = {}
                for m, f in partial.items():
                    for piece, g in ((m, f * (least[atom] or 0)), (_joined(m, ((atom, 1),)), f)):
                        grown[piece] = grown.get(piece, 0) + g
                partial = grown
        for m, f in partial.items():
            expanded[m] = expanded.get(m, 0) + f
    if any(factor < 0 for monomial, factor in expanded.items() if monomial):
        return None
    return expanded.get((), 0)


def _relaxed(terms: Mapping[_Monomial, Fraction | int]) -> Fraction | int | None:
    """The bound with single floor divisions by numbers replaced by the fractions that they lie between."""
    flat: dict[_Monomial, Fraction | int] = {}
    changed = False
    for monomial, factor in terms.items():
        atom = monomial[0][0] if len(monomial) == 1 and monomial[0][1] == 1 else ""
        if isinstance(atom, str) or not isinstance(atom[1], int):
            flat[monomial] = flat.get(monomial, 0) + factor
            continue
        changed = True
        above, below = atom
        shift = above if factor < 0 else above - (below - 1)
        for m, f in (_terms(shift) or {}).items():
            flat[m] = flat.get(m, 0) + Fraction(factor) * f / below
    if not changed:
        return None
    again = _relaxed(flat) if any(isinstance(a, tuple) for m in flat for a, _ in m) else None
    return again if again is not None else _shifted(flat)


def _decided(a: Any, relation: str, b: Any) -> bool:
    if _terms(b) is None:
        raise SymbolicError(f"the length {a} can be compared with lengths and integers, got {b!r}")
    low, high = _bounds(a - b)
    answers = {
        "<": (high is not None and high < 0, low is not None and low >= 0),
        "<=": (high is not None and high <= 0, low is not None and low > 0),
        ">": (low is not None and low > 0, high is not None and high <= 0),
        ">=": (low is not None and low >= 0, high is not None and high < 0),
    }
    yes, no = answers[relation]
    if yes or no:
        return yes
    names = " and ".join(repr(name) for name in sorted(dims_of((a, b)))) or "it"
    raise SymbolicError(
        f"whether {a} {relation} {b} holds depends on {names}, which is not known while the function is compiled "
        f"(every length is taken to be {_LEAST} or more); fix that length, or compile for fixed shapes (dynamic=False)"
    )


# Names in, numbers out.


def is_static(shape: Iterable[Any]) -> bool:
    """Whether every length of a shape is a number."""
    return all(isinstance(length, int) for length in shape)


def dims_of(value: Any) -> set[str]:
    """The names of the lengths that a value (an expression, a tuple, anything) depends on."""
    if isinstance(value, Dim):
        return {name for monomial in value._terms for atom, _ in monomial for name in _atom_names(atom)}
    if isinstance(value, Quotient):
        return dims_of(value.above) | dims_of(value.below)
    if isinstance(value, tuple | list):
        return set().union(*(dims_of(part) for part in value))
    return set()


def _atom_names(atom: _Atom) -> set[str]:
    return {atom} if isinstance(atom, str) else dims_of(atom)


def substitute(value: Any, lengths: Mapping[str, Length]) -> Any:
    """The value with these lengths for names, in expressions and in tuples of them."""
    if isinstance(value, Dim):
        total: Any = 0
        for monomial, factor in value._terms.items():
            term: Any = factor
            for atom, power in monomial:
                term = term * prod([_substituted(atom, lengths)] * power)
            total = total + term
        return total
    if isinstance(value, Quotient):
        return substitute(value.above, lengths) / substitute(value.below, lengths)
    if isinstance(value, tuple):
        parts = [substitute(part, lengths) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


def _substituted(atom: _Atom, lengths: Mapping[str, Length]) -> Any:
    if isinstance(atom, str):
        return lengths[atom] if atom in lengths else Dim(atom)
    return substitute(atom[0], lengths) // substitute(atom[1], lengths)


def unify(shape: Sequence[Any], actual: Sequence[int], known: dict[str, int]) -> bool:
    """Whether the actual shape fits the symbolic one; lengths found out are added to `known`.

    Axes that are a plain name tell its length; other expressions are checked once their names are known.
    """
    if len(shape) != len(actual):
        return False
    for length, found in zip(shape, actual, strict=True):
        name = _plain_name(length)
        if name is not None and known.setdefault(name, found) != found:
            return False
    return all(
        substitute(length, known) == found
        for length, found in zip(shape, actual, strict=True)
        if dims_of(length) <= known.keys()
    )


def _plain_name(length: Any) -> str | None:
    names = dims_of(length)
    return next(iter(names)) if len(names) == 1 and length == Dim(next(iter(names))) else None
