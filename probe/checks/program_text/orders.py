"""Arrays that a program batches together, of which it brings one into another order and leaves the other as it was."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..check_result import CheckResult, broken, held
from .bindings import Function, called, trees_of

BOUND: Final = "arrays_keep_one_order"
_CLAIM = "arrays that are batched together are brought into the same order"
_ORDERS: Final = frozenset({"randperm", "permutation"})


@dataclass(slots=True)
class _Scope:
    """What the statements of one function, or of a file's top, do with orders.

    Args:
        orders: Names of random orders, and of parts of them.
        parts: The slices by which parts of an order are taken.
        reordered: Arrays that were indexed with an order, and what came of it.
        sliced: Arrays by the slice that is taken of them, with the line.
    """

    orders: set[str] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)
    reordered: set[str] = field(default_factory=set)
    sliced: dict[str, dict[str, int]] = field(default_factory=dict)


def arrays_keep_one_order(sources: Mapping[str, str]) -> CheckResult:
    """Return whether arrays of which the same slice is taken were all brought into a random order, or none.

    Args:
        sources: The texts of the program's own files, by path; a text that cannot be parsed is left out.
    """
    for path, tree in trees_of(sources).items():
        for body in _bodies(tree):
            for words, name in _unbound(body):
                return broken(BOUND, _CLAIM, f"{Path(path).name}:{words}", subject=name)
    return held(BOUND, _CLAIM)


def _bodies(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    yield tree.body
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node.body


def _unbound(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    scope, nodes = _Scope(), list(_own_nodes(body))
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _makes_order(node.value):
            scope.orders.add(node.targets[0].id)
    if not scope.orders:
        return
    for node in nodes:
        _note(node, scope)
    for taken, arrays in scope.sliced.items():
        others = {name: line for name, line in arrays.items() if name not in scope.reordered}
        mixed = set(arrays) & scope.reordered or (taken in scope.parts and scope.reordered)
        if mixed and others:
            name, line = next(iter(others.items()))
            first = sorted(mixed)[0]
            yield f"{line}: {name}[{taken}] is batched with {first}, which is in a random order; {name} is not", name


def _note(node: ast.AST, scope: _Scope) -> None:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        indexed = [one for one in ast.walk(node.value) if isinstance(one, ast.Subscript)]
        ordered = [one for one in indexed if _names(one.slice) & scope.orders]
        taken = [one for one in indexed if isinstance(one.value, ast.Name) and one.value.id in scope.orders]
        if ordered:
            scope.reordered |= {node.targets[0].id, *(ast.unparse(one.value) for one in ordered)}
        elif taken:
            scope.orders.add(node.targets[0].id)
            scope.parts |= {ast.unparse(one.slice) for one in taken if isinstance(one.slice, ast.Slice)}
    if isinstance(node, ast.Subscript):
        base = ast.unparse(node.value)
        if _names(node.slice) & scope.orders:
            scope.reordered.add(base)
        elif isinstance(node.slice, ast.Slice) and _names(node.slice) and base not in scope.orders:
            scope.sliced.setdefault(ast.unparse(node.slice), {}).setdefault(base, node.lineno)


def _makes_order(value: ast.expr) -> bool:
    """Return whether a value is a random order, or one that was moved to a device or made a list."""
    while isinstance(value, ast.Call) and called(value) in ("to", "tolist", "numpy", "cuda", "as_tensor", "from_numpy"):
        inside = value.args[0] if called(value) in ("as_tensor", "from_numpy") and value.args else None
        value = inside or (value.func.value if isinstance(value.func, ast.Attribute) else value.func)
    return called(value) in _ORDERS


def _names(node: ast.expr) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of a scope in the order of the text, without those of functions and classes inside."""
    for statement in body:
        if isinstance(statement, Function | ast.ClassDef):
            continue
        waiting: list[ast.AST] = [statement]
        while waiting:
            node = waiting.pop(0)
            yield node
            waiting = [
                *(
                    one
                    for one in ast.iter_child_nodes(node)
                    if not isinstance(one, Function | ast.ClassDef | ast.Lambda)
                ),
                *waiting,
            ]
