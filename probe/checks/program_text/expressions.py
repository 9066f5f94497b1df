"""Small questions about expressions: what they name, what they call, and with which sign a part enters."""

import ast
from collections.abc import Callable, Iterator
from typing import Final

from .bindings import called, pairs_of
from .names import words_of
from .trees import walked

#: Calls that leave the sign and the meaning of what they are called on or given.
_KEEPS = frozenset(
    {
        "mean", "sum", "view", "reshape", "squeeze", "unsqueeze", "flatten", "float", "detach", "nanmean", "to", "item",
        "contiguous", "clone", "double",
    }
)  # fmt: skip


#: Removes the numbers of twins from their names.
DIGITS: Final = str.maketrans("", "", "0123456789")


def words_in(node: ast.AST | None) -> set[str]:
    """Return the words of all names and attributes of an expression."""
    found: set[str] = set()
    for one in walked(node) if node is not None else ():
        if isinstance(one, ast.Name):
            found |= words_of(one.id)
        elif isinstance(one, ast.Attribute):
            found |= words_of(one.attr)
        elif isinstance(one, ast.Constant) and isinstance(one.value, str):
            found |= words_of(one.value)
    return found


def inner(node: ast.expr) -> ast.expr:
    """Return what an expression is made of by calls that leave its sign, `x` of `x.view(-1).mean()`."""
    while isinstance(node, ast.Call) and called(node) in _KEEPS:
        is_method = isinstance(node.func, ast.Attribute) and not _is_module(node.func.value)
        if is_method and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif node.args:
            node = node.args[0]
        else:
            return node
    return node


def terms(node: ast.expr, sign: int = 1) -> Iterator[tuple[ast.expr, int]]:
    """Yield the terms of a sum with their signs; the sign of a product is that of its only term that is no number."""
    node = inner(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield from terms(node.operand, -sign)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
        yield from terms(node.left, sign)
        yield from terms(node.right, sign if isinstance(node.op, ast.Add) else -sign)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div) and _number(node.right) is not None:
        yield from terms(node.left, sign if (_number(node.right) or 0) >= 0 else -sign)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and _number(node.left) is not None:
        yield from terms(node.right, sign if (_number(node.left) or 0) >= 0 else -sign)
    else:
        yield node, sign


def factors(node: ast.expr) -> tuple[list[ast.expr], int]:
    """Return the factors of a product that are no numbers, and the sign of the others together."""
    node = inner(node)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        found, sign = factors(node.operand)
        return found, -sign
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        (left, first), (right, second) = factors(node.left), factors(node.right)
        return left + right, first * second
    number = _number(node)
    return ([node], 1) if number is None else ([], 1 if number >= 0 else -1)


def calls_in(node: ast.AST, *names: str) -> Iterator[ast.Call]:
    """Yield the calls of functions or methods of these names."""
    for one in walked(node):
        if isinstance(one, ast.Call) and called(one) in names:
            yield one


def operand(call: ast.Call, number: int = 0) -> ast.expr | None:
    """Return what a function is given, or what a method is called on: `x` of `torch.exp(x)` and of `x.exp()`."""
    is_method = isinstance(call.func, ast.Attribute) and not _is_module(call.func.value)
    given = [call.func.value, *call.args] if is_method and isinstance(call.func, ast.Attribute) else call.args
    return given[number] if number < len(given) else None


def assignments(tree: ast.AST) -> Iterator[tuple[str, ast.expr, int]]:
    """Yield name, value and line of each assignment of a name or attribute, also of one beside others."""
    for node in walked(tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        for target, value in pairs_of(node.targets[0], node.value):
            if isinstance(target, ast.Name | ast.Attribute):
                yield name_of(target), value, node.lineno


def rest_of_one(node: ast.AST | None) -> ast.expr | None:
    """Return `x` of `1 - x`; None for anything else."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
        return None
    return node.right if ast.unparse(node.left) in ("1", "1.0") else None


def blocks_in(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Yield the bodies of files, functions, classes, loops and branches."""
    for node in walked(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            yield body


def find(node: ast.AST, is_wanted: Callable[[ast.AST], bool]) -> bool:
    """Return whether any part of an expression is wanted."""
    return any(is_wanted(one) for one in walked(node))


def is_difference(node: ast.AST | None) -> bool:
    """Return whether an expression is `a - b`."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)


def names_in(node: ast.AST) -> set[str]:
    """Return the plain names of an expression or statement."""
    return {one.id for one in walked(node) if isinstance(one, ast.Name)}


def name_of(node: ast.AST | None) -> str:
    """Return a name, or the last name of an attribute; empty for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def is_name(node: ast.AST, name: str) -> bool:
    """Return whether an expression is this name."""
    return isinstance(node, ast.Name) and node.id == name


def _number(node: ast.expr) -> float | None:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        inside = _number(node.operand)
        return None if inside is None else -inside
    is_number = isinstance(node, ast.Constant) and isinstance(node.value, int | float)
    return float(node.value) if is_number and isinstance(node, ast.Constant) else None  # type: ignore[arg-type]


def _is_module(node: ast.expr) -> bool:
    """Return whether an expression is a module of functions, as `torch`, `F`, `np` or `torch.nn.functional`."""
    return ast.unparse(node) in ("torch", "F", "np", "numpy", "jnp", "math", "nn.functional", "torch.nn.functional")
