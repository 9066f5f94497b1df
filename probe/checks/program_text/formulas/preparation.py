"""How samples are prepared: their moments, and what changes a picture and its mask."""

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from ..bindings import Function, called, functions_in
from ..expressions import assignments, blocks_in, calls_in, name_of, words_in
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

_MEANS: Final = frozenset({"mean", "means", "mu"})
_SPREADS: Final = frozenset({"std", "stds", "sd", "stddev", "sigma"})
_PICTURES: Final = frozenset({"img", "imgs", "image", "images", "x", "picture", "lr", "frame"})
_MAPS: Final = frozenset({"mask", "masks", "seg", "segmentation", "map", "target", "targets", "hr", "depth", "y"})
_DRAWS: Final = frozenset({"rand", "random", "randint", "randn", "uniform", "choice", "bernoulli", "integers"})


def _exchanged_moments(tree: ast.AST) -> Iterator[Found]:
    """What is normalised loses its mean and is divided by its deviation, and what is brought back gets both again."""
    for node in walked(tree):
        if not isinstance(node, ast.BinOp):
            continue
        inside, moment = node.left, node.right
        is_there = isinstance(node.op, ast.Div) and isinstance(inside, ast.BinOp) and isinstance(inside.op, ast.Sub)
        is_back = isinstance(node.op, ast.Add) and isinstance(inside, ast.BinOp) and isinstance(inside.op, ast.Mult)
        if not isinstance(inside, ast.BinOp) or not (is_there or is_back):
            continue
        taken, other = (_SPREADS, _MEANS) if is_there else (_MEANS, _SPREADS)
        if _is_only(inside.right, taken, other) and _is_only(moment, other, taken):
            yield "formula", f"{ast.unparse(node)} has mean and deviation exchanged", node.lineno


def _is_only(node: ast.expr, wanted: frozenset[str], other: frozenset[str]) -> bool:
    """Return whether an expression is a name of one moment, and not of the other."""
    words = words_of(name_of(node))
    return bool(words & wanted) and not words & other


def _changed_apart(tree: ast.AST) -> Iterator[Found]:
    """A picture and its map are changed by one draw: two calls of a function that draws make two changes."""
    drawing = {function.name for function in functions_in(tree) if _draws(function)}
    for block in blocks_in(tree):
        for first, second in pairwise(block):
            one, other = _changed(first, drawing), _changed(second, drawing)
            if one and other and one[0] == other[0] and one[1] & _PICTURES and other[1] & _MAPS - _PICTURES:
                words = f"{ast.unparse(first)} and {ast.unparse(second)} draw their changes apart"
                yield "formula", words, second.lineno


def _draws(function: Function) -> bool:
    """Return whether a function of one argument decides by chance, with nothing that its caller could fix."""
    given = [one.arg for one in function.args.args if one.arg not in ("self", "cls")]
    tests = [one.test for one in walked(function) if isinstance(one, ast.If)]
    by_chance = (
        any(words_in(test) & _DRAWS for test in tests) and next(calls_in(function, "manual_seed", "seed"), None) is None
    )
    return len(given) == 1 and by_chance


def _changed(statement: ast.stmt, drawing: set[str]) -> tuple[str, set[str]] | None:
    """Return which function changes what, in `x = change(x)`."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
        return None
    call = statement.value
    if called(call) not in drawing or len(call.args) != 1 or call.keywords:
        return None
    return called(call), words_of(name_of(statement.targets[0]))


def _brought_back_wrongly(tree: ast.AST) -> Iterator[Found]:
    """What was made by (x - a) / b comes back by y * b + a."""
    there = {
        (ast.unparse(node.left.right), ast.unparse(node.right))
        for node in walked(tree)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if isinstance(node.left, ast.BinOp) and isinstance(node.left.op, ast.Sub)
        if isinstance(node.right, ast.Name | ast.Attribute) and isinstance(node.left.right, ast.Name | ast.Attribute)
    }
    inverse = {name for name, value, _ in assignments(tree) if isinstance(value, ast.BinOp) and _is_one_over(value)}
    for node in walked(tree) if there else ():
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            continue
        for scaled, moved in ((node.left, node.right), (node.right, node.left)):
            if not isinstance(scaled, ast.BinOp) or not isinstance(scaled.op, ast.Div):
                continue
            scale = scaled.right
            is_known = (ast.unparse(moved), ast.unparse(scale)) in there and name_of(scale) not in inverse
            if is_known and not isinstance(scaled.left, ast.BinOp):
                words = f"{ast.unparse(node)} is divided by {ast.unparse(scale)}: (x - a) / b comes back as y * b + a"
                yield "formula", words, node.lineno


def _is_one_over(value: ast.BinOp) -> bool:
    return isinstance(value.op, ast.Div) and isinstance(value.left, ast.Constant) and value.left.value == 1


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_exchanged_moments, _changed_apart, _brought_back_wrongly)
