"""Overlaps of what is predicted with what is true, over their sizes."""

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from ..bindings import Function, called, functions_in
from ..expressions import assignments, calls_in, name_of, terms, words_in
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

_OVERLAP: Final = frozenset({"inter", "intersection", "intersections", "overlap", "intersect"})
_SMALL: Final = frozenset({"eps", "epsilon", "smooth", "smoothing", "tiny", "delta"})
_CUTS: Final = ("clamp", "clamp_", "clamp_min", "clip", "relu", "where", "abs")
_UNITES: Final = ("logical_or", "maximum", "max", "clamp", "clip", "clamp_min", "bitwise_or", "union", "unique")


def _half_an_overlap(tree: ast.AST) -> Iterator[Found]:
    """An overlap is divided by the size of both together, or its double by the sum of both sizes.

    Jaccard 1901 and Dice 1945: |A and B| / (|A| + |B| - |A and B|), and 2 |A and B| / (|A| + |B|).
    """
    for function in functions_in(tree):
        known = {name: value for name, value, _ in assignments(function)}
        if _doubles(function):
            continue
        for node in walked(function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and words_in(node.left) & _OVERLAP:
                sizes = _sizes(node.right, known)
                if len(sizes) > 1:
                    words = (
                        f"{ast.unparse(node)} divides the overlap by {' + '.join(sizes)}, which counts it twice: "
                        "complete agreement gives one half"
                    )
                    yield "formula", words, node.lineno


def _doubles(function: Function) -> bool:
    """Return whether a function multiplies anything by two, or by a number with a name of Dice's family."""
    for node in walked(function):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
            sides = [ast.unparse(side).lstrip("-") for side in (node.left, node.right)]
            if any(side in ("2", "2.0", "0.5", "(1 + beta ** 2)", "1 + beta ** 2") for side in sides):
                return True
        if isinstance(node, ast.AugAssign) and ast.unparse(node.value) in ("2", "2.0"):
            return True
    return False


def _sizes(node: ast.expr, known: Mapping[str, ast.expr], hops: int = 2) -> list[str]:
    """Return the terms that a size is the sum of; none where the overlap is taken off, or may be."""
    parts = []
    for term, sign in terms(node):
        if isinstance(term, ast.Constant) or words_in(term) & _SMALL:
            continue
        if isinstance(term, ast.Name) and term.id in known and hops:
            inside = _sizes(known[term.id], known, hops - 1)
            if len(inside) > 1 or not inside:
                if not inside:
                    return []
                parts += inside
                continue
        is_united = next(calls_in(term, *_UNITES), None) is not None
        is_both = any(isinstance(one, ast.BinOp) and isinstance(one.op, ast.BitOr) for one in walked(term))
        if sign < 0 or words_in(term) & _OVERLAP or is_united or is_both or name_of(term) in ("union", "denom"):
            return []
        parts.append(ast.unparse(term))
    return parts


def _negative_sides(tree: ast.AST) -> Iterator[Found]:
    """Boxes that do not touch have no overlap: negative sides are cut off at zero before they are multiplied."""
    for function in functions_in(tree):
        known = {name: value for name, value, _ in assignments(function)}
        if next(calls_in(function, *_CUTS), None) is not None or _compares(function):
            continue
        for name, value, line in assignments(function):
            is_product = isinstance(value, ast.BinOp) and isinstance(value.op, ast.Mult)
            if not words_of(name) & _OVERLAP or not is_product or not isinstance(value, ast.BinOp):
                continue
            sides = [known.get(name_of(one), one) for one in (value.left, value.right)]
            if all(_is_between_corners(side, known) for side in sides):
                yield (
                    "formula",
                    f"{name} = {ast.unparse(value)} is no overlap where sides are negative: boxes apart",
                    line,
                )


def _compares(function: Function) -> bool:
    """Return whether a function asks anything about its boxes, as whether they touch."""
    return any(isinstance(node, ast.Compare) for node in walked(function))


def _is_between_corners(side: ast.expr, known: Mapping[str, ast.expr]) -> bool:
    """Return whether a side is the smaller end less the larger begin."""
    if not isinstance(side, ast.BinOp) or not isinstance(side.op, ast.Sub):
        return False
    ends = [known.get(name_of(one), one) for one in (side.left, side.right)]
    return called(ends[0]) in ("min", "minimum") and called(ends[1]) in ("max", "maximum")


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_half_an_overlap, _negative_sides)
