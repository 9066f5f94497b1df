"""Bounds of lengths that hold whatever the named lengths are, as long as each is 2 or more.

Reference:
    The convention "2 or more, unless known" is PyTorch's: 0 and 1 are special to broadcasting and are specialised on.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from .polynomial import Atom, Monomial, Terms, joined, terms_of

__all__ = ["LEAST", "bounds"]

#: What every named length is at least.
LEAST = 2

_Number: TypeAlias = Fraction | int


def bounds(length: Any) -> tuple[_Number | None, _Number | None]:
    """The least and the largest value that can be proved, None where none can."""
    if isinstance(length, int):
        return length, length
    low = _least(length._terms)
    high = _least({monomial: -factor for monomial, factor in length._terms.items()})
    return low, None if high is None else -high


def _least(terms: Terms) -> _Number | None:
    """The better of two proofs: by the bounds of every atom; with `a // b` between `(a - b + 1) / b` and `a / b`."""
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
    """The constant term when every atom is written as its least value plus something from 0 up, if that proves it."""
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
    """The bound with single floor divisions by numbers replaced by the fractions that they lie between."""
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
