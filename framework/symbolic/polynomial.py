"""Polynomials with integer coefficients, as dictionaries from products of atoms to their factors.

An atom is a name, or a pair: numerator and denominator of a floor division, each a number or a `Dim`.
"""

from typing import Any, TypeAlias

__all__ = ["Atom", "Monomial", "Terms", "added", "joined", "multiplied", "quotient", "rank", "terms_of"]

#: A name, or (numerator, denominator) of a floor division.
Atom: TypeAlias = Any
#: Atoms and their powers, in order.
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]
Terms: TypeAlias = dict[Monomial, int]


def rank(term: tuple[Monomial, int]) -> tuple[int, str]:
    """What terms are sorted by, the highest power first."""
    monomial = term[0]
    return -sum(power for _, power in monomial), str(monomial)


def terms_of(value: Any) -> Terms | None:
    """The polynomial of a length or an integer, None for anything else."""
    if hasattr(value, "_terms"):
        found: Terms = value._terms
        return found
    if not hasattr(value, "__index__") or getattr(value, "shape", ()) != ():
        return None
    return {(): int(value)} if int(value) else {}


def added(a: Terms, b: Terms) -> Terms:
    """The sum; factors that are zero stay."""
    result = dict(a)
    for monomial, factor in b.items():
        result[monomial] = result.get(monomial, 0) + factor
    return result


def multiplied(a: Terms, b: Terms) -> Terms:
    """The product."""
    result: Terms = {}
    for first, x in a.items():
        for second, y in b.items():
            monomial = joined(first, second)
            result[monomial] = result.get(monomial, 0) + x * y
    return result


def joined(first: Monomial, second: Monomial) -> Monomial:
    """The product of two products of atoms."""
    powers = dict(first)
    for atom, power in second:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(((a, p) for a, p in powers.items() if p), key=lambda pair: str(pair[0])))


def quotient(monomial: Monomial, by: Monomial) -> Monomial | None:
    """One product of atoms divided by another, None if that leaves a fraction."""
    powers = dict(monomial)
    for atom, power in by:
        powers[atom] = powers.get(atom, 0) - power
    if any(power < 0 for power in powers.values()):
        return None
    return tuple(sorted(((a, p) for a, p in powers.items() if p), key=lambda pair: str(pair[0])))
