"""Samples that are mixed with others: each label has the share of its input."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import called
from ..expressions import assignments, factors, rest_of_one, words_in
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

_OTHERS: Final = frozenset({"b", "2", "perm", "permuted", "shuffled", "shuf", "other", "mix"})


def _exchanged_shares(tree: ast.AST) -> Iterator[Found]:
    """Inputs and labels are mixed by one share (Zhang et al. 2018, arXiv:1710.09412, section 2)."""
    orders = {name for name, value, _ in assignments(tree) if called(value) in ("randperm", "permutation")}
    others = {name for name, value, _ in assignments(tree) if _is_permuted(value, orders)}
    found: dict[str, list[tuple[bool, ast.BinOp]]] = {}
    for node in walked(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            share, is_rest = _share_of_the_others(node, orders, others)
            if share:
                found.setdefault(share, []).append((is_rest, node))
    for share, mixtures in found.items():
        first = mixtures[0]
        for is_rest, node in mixtures[1:]:
            if is_rest != first[0]:
                words = (
                    f"{ast.unparse(node)} gives the others another share than {ast.unparse(first[1])} does ({share})"
                )
                yield "formula", words, node.lineno


def _share_of_the_others(node: ast.BinOp, orders: set[str], others: set[str]) -> tuple[str, bool]:
    """Return the share in `s a + (1 - s) b`, and whether the permuted samples have the rest of it; empty of others."""
    left, right = factors(node.left)[0], factors(node.right)[0]
    for plain, rest in ((left, right), (right, left)):
        shares = [one for one in plain if isinstance(one, ast.Name)]
        rests = [ast.unparse(inside) for one in rest if (inside := rest_of_one(one)) is not None]
        share = next((one.id for one in shares if one.id in rests), "")
        if not share:
            continue
        sides = [any(_is_of_others(one, orders, others) for one in side) for side in (plain, rest)]
        if sides.count(True) == 1:
            return share, sides[1]
    return "", False


def _is_of_others(node: ast.expr, orders: set[str], others: set[str]) -> bool:
    """Return whether an expression holds samples in another order, by their index or by their name."""
    for one in walked(node):
        if isinstance(one, ast.expr) and _is_permuted(one, orders):
            return True
        if isinstance(one, ast.Name) and (one.id in others or _is_named_second(one.id)):
            return True
    return False


def _is_named_second(name: str) -> bool:
    """Return whether a name is that of the second of two, `y_b`, `yb`, `targets2`, `y_perm`."""
    words = words_of(name)
    return bool(words & _OTHERS and len(words) > 1) or name in ("yb", "y2", "tb", "yj")


def _is_permuted(value: ast.AST, orders: set[str]) -> bool:
    """Return whether a value is `x[order]` or `x.flip(0)`."""
    if isinstance(value, ast.Subscript):
        is_drawn = isinstance(value.slice, ast.Call) and called(value.slice) in ("randperm", "permutation")
        is_named = isinstance(value.slice, ast.Name) and bool(
            value.slice.id in orders or words_in(value.slice) & {"perm", "permutation", "shuffle"}
        )
        return is_drawn or is_named
    is_turned = isinstance(value, ast.Call) and called(value) in ("flip", "roll")
    return is_turned and isinstance(value, ast.Call) and "0" in [ast.unparse(one) for one in value.args]


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_exchanged_shares,)
