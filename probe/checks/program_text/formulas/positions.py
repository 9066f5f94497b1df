"""Positions in a sequence: waves, rotations, and places that are written twice."""

import ast
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from ..bindings import called, functions_in, parameters_of
from ..expressions import assignments, blocks_in, calls_in, name_of, names_in, operand, words_in
from ..known_values import values_of_names
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

_BASES: Final = ("10000", "10000.0", "10000.")
_ROTATES: Final = frozenset({"rope", "rotary", "rotate", "rot"})
_CACHES: Final = frozenset({"cache", "caches", "past", "kv", "kvs"})
_POSITIONS: Final = frozenset({"pos", "position", "positions", "wpe", "positional"})
_EARLIER: Final = frozenset({"offset", "start", "begin", "length", "seen", "pasts", "shift"})


def _rising_frequencies(tree: ast.AST) -> Iterator[Found]:
    """Frequencies of positions fall, 10000 ** (-2i / d) (Vaswani et al. 2017, arXiv:1706.03762, section 3.5)."""
    known = values_of_names(tree)
    for name, value, line in assignments(tree):
        if _rises(value, known) and _is_only_a_factor(tree, name):
            words = f"{name} = {ast.unparse(value)} rises to 10000, and positions are multiplied by it: waves of noise"
            yield "formula", words, line


def _rises(value: ast.expr, known: dict[str, list[ast.expr]]) -> bool:
    """Return whether a value is a rising power of 10000, written as one or by its logarithm."""
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Pow):
        return ast.unparse(value.left) in _BASES and not _is_negated(value.right)
    given = (
        operand(value) if isinstance(value, ast.Call) and ast.unparse(value.func) in ("torch.exp", "np.exp") else None
    )
    if given is None:
        return False
    names = names_in(given)
    parts = [given, *(one for name in names for one in known.get(name, []) if one is not value)]
    logs = [call for part in parts for call in calls_in(part, "log") if operand(call) is not None]
    is_of_base = any(ast.unparse(operand(call) or call) in _BASES for call in logs)
    return is_of_base and not any(_is_negated(part) for part in parts)


def _is_negated(node: ast.expr) -> bool:
    """Return whether anything in an expression has the other sign, or is a divisor under one."""
    return any(isinstance(one, ast.UnaryOp) and isinstance(one.op, ast.USub) for one in walked(node))


def _is_only_a_factor(tree: ast.AST, name: str) -> bool:
    """Return whether a value is multiplied with something, and divides nothing."""
    is_factor = False
    for node in walked(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and words_in(node.right) >= words_of(name):
            return False
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and words_in(node) >= words_of(name):
            return False
        is_product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.MatMult)
        if is_product and isinstance(node, ast.BinOp):
            sides = [_base(side) for side in (node.left, node.right)]
            is_factor = is_factor or name in sides
        if isinstance(node, ast.Call) and name_of(node.func) in ("outer", "einsum"):
            is_factor = is_factor or any(name_of(one) == name for one in node.args)
    return is_factor


def _base(node: ast.expr) -> str:
    """Return the name of what is indexed or given more axes, `f` of `f[None]` and of `f.unsqueeze(0)`."""
    while True:
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "unsqueeze":
            node = node.func.value
        else:
            return name_of(node)


def _written_twice(tree: ast.AST) -> Iterator[Found]:
    """What a statement writes is not overwritten by the next one."""
    for block in blocks_in(tree):
        for first, second in pairwise(block):
            if not isinstance(first, ast.Assign) or not isinstance(second, ast.Assign):
                continue
            one, other = first.targets[0], second.targets[0]
            if not isinstance(one, ast.Subscript) or not isinstance(other, ast.Subscript):
                continue
            is_same = ast.unparse(one) == ast.unparse(other) and ast.dump(first.value) != ast.dump(second.value)
            reads = {ast.unparse(node) for node in walked(second.value) if isinstance(node, ast.expr)}
            calls = any(isinstance(node, ast.Call) for node in walked(one.slice))
            is_part = any(isinstance(node, ast.Slice) for node in walked(one.slice))
            if is_same and is_part and not calls and ast.unparse(one.value) not in reads:
                words = f"{ast.unparse(one)} is written twice, and what {ast.unparse(first.value)} gave is lost"
                yield "formula", words, second.lineno


def _one_rotated(tree: ast.AST) -> Iterator[Found]:
    """Queries and keys are rotated both, so that products know distances (Su et al. 2021, arXiv:2104.09864)."""
    for function in functions_in(tree):
        together = [names for names in _given_together(function) if {"q", "k"} <= names or {"query", "key"} <= names]
        rotated = [
            call for call in walked(function) if isinstance(call, ast.Call) and words_of(name_of(call.func)) & _ROTATES
        ]
        if not together or len(rotated) != 1 or len(rotated[0].args) == 0:
            continue
        given = set[str]().union(*(words_in(one) for one in rotated[0].args))
        queries, keys = bool(given & {"q", "query", "queries"}), bool(given & {"k", "key", "keys"})
        if queries != keys:
            kept = "keys" if queries else "queries"
            yield (
                "formula",
                f"{ast.unparse(rotated[0])} rotates one of the two, and {kept} stay as they are",
                rotated[0].lineno,
            )


def _given_together(function: ast.AST) -> Iterator[set[str]]:
    """Yield the names that one statement gives, `q, k, v = ...`."""
    for node in walked(function):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple):
            yield {name_of(one) for one in node.targets[0].elts}


def _positions_from_zero(tree: ast.AST) -> Iterator[Found]:
    """New tokens come behind those that a cache holds, so their positions are counted on from its length."""
    for function in functions_in(tree):
        caches = [name for name in parameters_of(function) if words_of(name) & _CACHES]
        if not caches or words_in(function) & _EARLIER or set(parameters_of(function)) & {"pos", "positions", "t0"}:
            continue
        for call in (one for one in walked(function) if isinstance(one, ast.Call) and called(one) != "arange"):
            if not words_of(called(call)) & _POSITIONS:
                continue
            for counted in (each for one in call.args for each in calls_in(one, "arange")):
                if len(counted.args) == 1 and not words_in(counted) & _CACHES and not _is_moved(call, counted):
                    words = f"{ast.unparse(call)} counts from 0 again for what comes behind {caches[0]}"
                    yield "formula", words, call.lineno


def _is_moved(call: ast.Call, counted: ast.Call) -> bool:
    """Return whether something is added to what was counted."""
    sums = [one for one in walked(call) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add)]
    return any(counted in walked(one) for one in sums)


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _rising_frequencies,
    _written_twice,
    _one_rotated,
    _positions_from_zero,
)
