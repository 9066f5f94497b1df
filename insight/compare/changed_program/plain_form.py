"""The plain form of a program, in which two ways to write one thing look alike.

A name that only one of two programs has, and gives a value once, stands for that value; statements behind a `return`
are gone.
"""

import ast
from collections import Counter
from collections.abc import Sequence, Set
from contextlib import suppress
from typing import Final

_ENDS: Final = (ast.Return, ast.Raise, ast.Continue, ast.Break)
#: Rounds in which names are put in for names. Our choice: three lines that were taken apart.
_ROUNDS: Final = 3


def tree_of(text: str) -> ast.Module | None:
    """Return the tree of a program's text; None if it cannot be parsed."""
    with suppress(SyntaxError, ValueError, RecursionError):
        return ast.parse(text)
    return None


def in_plain_form(tree: ast.Module, known: Set[str]) -> ast.Module:
    """Return the tree with the values of names that the other program does not have in the place of those names.

    Args:
        tree: Changed in place.
        known: Identifiers of the other program.
    """
    for _ in range(_ROUNDS):
        values = _values(tree, known)
        if not values:
            break
        tree = ast.fix_missing_locations(_PutIn(values).visit(tree))
    return tree


def without_unreached(body: Sequence[ast.AST]) -> Sequence[ast.AST]:
    """Return the statements of a block up to the one that leaves it."""
    ends = [number for number, node in enumerate(body) if isinstance(node, _ENDS)]
    return body[: ends[0] + 1] if ends else body


def _values(tree: ast.Module, known: Set[str]) -> dict[str, ast.expr]:
    """Return the values of names that are given one once, as expressions, and read."""
    nodes = list(ast.walk(tree))
    given = Counter(node.id for node in nodes if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load))
    given.update(node.arg for node in nodes if isinstance(node, ast.arg))
    read = {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    found: dict[str, ast.expr] = {}
    for node in nodes:
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if not isinstance(node, ast.Assign) or not isinstance(target, ast.Name) or target.id in known:
            continue
        if given[target.id] == 1 and target.id in read:
            found[target.id] = node.value
    own = {name for name, value in found.items() if any(getattr(one, "id", "") in found for one in ast.walk(value))}
    return {name: value for name, value in found.items() if name not in own or len(own) == len(found)}


class _PutIn(ast.NodeTransformer):
    """Puts values in the place of names, and takes out the lines that gave them."""

    def __init__(self, values: dict[str, ast.expr]) -> None:
        self._values = values

    def visit_Assign(self, node: ast.Assign) -> ast.AST | None:
        """Take out the line that gives a name its value."""
        target = node.targets[0]
        if isinstance(target, ast.Name) and target.id in self._values:
            return None
        return self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Return the value in the place of its name."""
        return self._values.get(node.id, node) if isinstance(node.ctx, ast.Load) else node
