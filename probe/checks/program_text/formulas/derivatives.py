"""Derivatives that are named after another variable than the one they are taken by."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from ..bindings import called, pairs_of
from .pattern import Found, Pattern

#: A name that says what is differentiated by what: `u_x`, `du_dx`, `d2u_dx2`, `u_xx`, `dudt`.
_NAMED: Final = re.compile(r"^(?:d2?)?(?P<of>[a-z]\w*?)_?(?:d|_)(?P<by>[a-z])(?:2|(?P=by))?$")


def _other_variable(tree: ast.AST) -> Iterator[Found]:
    """`u_x` is the derivative by x, as everybody writes it (Raissi et al. 2019, "Physics-informed neural networks")."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        for target, value in pairs_of(node.targets[0], node.value):
            yield from _misnamed(target, value, node.lineno)


def _misnamed(target: ast.expr, value: ast.expr, line: int) -> Iterator[Found]:
    call, at = (value.value, _number(value.slice)) if isinstance(value, ast.Subscript) else (value, None)
    if not isinstance(call, ast.Call) or called(call) not in ("grad", "gradient", "derivative", "gradients"):
        return
    if len(call.args) < 2:
        return
    given = call.args[1]
    variables = [_name(one) for one in given.elts] if isinstance(given, ast.Tuple | ast.List) else [_name(given)]
    names = [_name(one) for one in target.elts] if isinstance(target, ast.Tuple | ast.List) else [_name(target)]
    if at is not None:
        variables = variables[at : at + 1]
    if len(names) != len(variables):
        return
    by = [_by(name) for name in names]
    for name, said, variable in zip(names, by, variables, strict=True):
        is_other = bool(said and variable) and said != variable and len(variable) == 1
        is_of_this = len(variables) == 1 and _name(call.args[0]).startswith(_of(name))
        if is_other and (said in variables or is_of_this):
            yield "formula", f"{name} is the derivative by {variable}: {ast.unparse(call)}", line
            return


def _name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else ""


def _by(name: str) -> str:
    found = _NAMED.match(name)
    return found["by"] if found else ""


def _of(name: str) -> str:
    found = _NAMED.match(name)
    return found["of"] if found else ""


def _number(node: ast.expr) -> int | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, int) else None


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_other_variable,)
