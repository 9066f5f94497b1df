"""Polynomials with integer coefficients in named lengths, and bounds of them that hold for all lengths of 2 or more.

A polynomial is a dictionary from products of atoms to their factors. An atom is a name, or a pair: numerator and
denominator of a floor division, each a number or a `Dim`.

Reference:
    The convention "2 or more, unless known" is PyTorch's: 0 and 1 are special to broadcasting and are specialised on.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

#: A name, or (numerator, denominator) of a floor division.
Atom: TypeAlias = Any
#: Atoms and their powers, in order.
Monomial: TypeAlias = tuple[tuple[Atom, int], ...]
Terms: TypeAlias = dict[Monomial, int]


def rank(term: tuple[Monomial, int]) -> tuple[int, str]:
    """Return what terms are sorted by, the highest power first."""
    monomial = term[0]
    return -sum(power for _, power in monomial), str(monomial)


def terms_of(value: object) -> Terms | None:
    """Return the polynomial of a length or an integer, None for anything else."""
    if hasattr(value, "_terms"):
        found: Terms = value._terms
        return found
    if not hasattr(value, "__index__") or getattr(value, "shape", ()) != ():
        return None
    return {(): int(value)} if int(value) else {}


def added(a: Terms, b: Terms) -> Terms:
    """Return the sum; factors that are zero stay."""
    result = dict(a)
    for monomial, factor in b.items():
        result[monomial] = result.get(monomial, 0) + factor
    return result


def multiplied(a: Terms, b: Terms) -> Terms:
    """Return the product."""
    result: Terms = {}
    for first, x in a.items():
        for second, y in b.items():
            monomial = joined(first, second)
            result[monomial] = result.get(monomial, 0) + x * y
    return result


def joined(first: Monomial, second: Monomial) -> Monomial:
    """Return the product of two products of atoms."""
    powers = dict(first)
    for atom, power in second:
        powers[atom] = powers.get(atom, 0) + power
    return tuple(sorted(((a, p) for a, p in powers.items() if p), key=lambda pair: str(pair[0])))


def quotient(monomial: Monomial, by: Monomial) -> Monomial | None:
    """Return one product of atoms divided by another, None if that leaves a fraction."""
    powers = dict(monomial)
    for atom, power in by:
        powers[atom] = powers.get(atom, 0) - power
    if any(power < 0 for power in powers.values()):
        return None
    return tuple(sorted(((a, p) for a, p in powers.items() if p), key=lambda pair: str(pair[0])))


#: What every named length is at least.
LEAST = 2

_Number: TypeAlias = Fraction | int


def bounds(length: Any) -> tuple[_Number | None, _Number | None]:
    """Return the least and the largest value that can be proved, None where none can."""
    if isinstance(length, int):
        return length, length
    low = _least(length._terms)
    high = _least({monomial: -factor for monomial, factor in length._terms.items()})
    return low, None if high is None else -high


def _least(terms: Terms) -> _Number | None:
    """Return the better of two proofs: by the bounds of every atom; with `a // b` between `(a - b + 1) / b` and `a /
    b`."""
    found = [bound for bound in (_shifted(dict(terms)), _relaxed(terms)) if bound is not None]
    return max(found) if found else None


def _atom_least(atom: Atom) -> _Number | None:
    if isinstance(atom, str):
        return LEAST
    low, below = bounds(atom[0])[0], bounds(atom[1])[0]
    if low is None or below is None or below <= 0:
        return None
    return low // atom[1] if isinstance(atom[1], int) else (0 if low >= 0 else None)


def _shifted(terms: Mapping[Monomial, _Number]) -> _Number | None:
    """Return the constant term when every atom is written as its least value plus something from 0 up, if that proves
    it."""
    atoms = {atom for monomial in terms for atom, _ in monomial}
    least = {atom: _atom_least(atom) for atom in atoms}
    if any(bound is None for bound in least.values()):
        return None
    expanded: dict[Monomial, _Number] = {}
    for monomial, factor in terms.items():
        partial: dict[Monomial, _Number] = {(): factor}
        for atom, power in monomial:
            for _ in range(power):
                grown: dict[Monomial, _Number] = {}
                for m, f in partial.items():
                    for piece, g in ((m, f * (least[atom] or 0)), (joined(m, ((atom, 1),)), f)):
                        grown[piece] = grown.get(piece, 0) + g
                partial = grown
        for m, f in partial.items():
            expanded[m] = expanded.get(m, 0) + f
    if any(factor < 0 for monomial, factor in expanded.items() if monomial):
        return None
    return expanded.get((), 0)


def _relaxed(terms: Mapping[Monomial, _Number]) -> _Number | None:
    """Return the bound with single floor divisions by numbers replaced by the fractions that they lie between."""
    flat: dict[Monomial, _Number] = {}
    changed = False
    for monomial, factor in terms.items():
        atom = monomial[0][0] if len(monomial) == 1 and monomial[0][1] == 1 else ""
        if isinstance(atom, str) or not isinstance(atom[1], int):
            flat[monomial] = flat.get(monomial, 0) + factor
            continue
        changed = True
        above, below = atom
        shift = above if factor < 0 else above - (below - 1)
        for m, f in (terms_of(shift) or {}).items():
            flat[m] = flat.get(m, 0) + Fraction(factor) * f / below
    if not changed:
        return None
    again = _relaxed(flat) if any(isinstance(a, tuple) for m in flat for a, _ in m) else None
    return again if again is not None else _shifted(flat)
