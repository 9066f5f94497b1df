"""Which of the networks of a training is kept: the best one so far, by a measure that can beat where it begins."""

import ast
from collections.abc import Container, Iterator
from math import inf, isnan, nan
from typing import Final

from ..bindings import called
from ..expressions import assignments, name_of
from ..known_values import values_of_names
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

_BEST: Final = frozenset({"best", "lowest", "smallest", "highest", "largest"})
_INFINITE: Final = frozenset({"inf", "Inf", "infty", "Infinity"})


def _never_better(tree: ast.AST) -> Iterator[Found]:
    """The best so far begins where every value beats it: at infinity, for a measure that is to fall.

    Told is a loss or an error that must be below 0, or a value that must be above infinity or below minus infinity:
    nothing is ever kept, and what is used at the end is what stood there at first.
    """
    given = {name: values for name, values in values_of_names(tree).items() if words_of(name) & _BEST}
    for branch in (one for one in walked(tree) if isinstance(one, ast.If)):
        found = _kept_by(branch, given)
        if found is None:
            continue
        name, value, is_below = found
        first = {number for one in given[name] if not isnan(number := _number(one))}
        others = {ast.unparse(one) for one in given[name]} - {ast.unparse(value)}
        if len(first) != 1 or len(others) != 1:
            continue
        start = first.pop()
        if (is_below and start in (0.0, -inf)) or (not is_below and start == inf):
            way = "below" if is_below else "above"
            words = f"{name} begins at {start:g}, and {ast.unparse(value)} is kept where it is {way} that: it never is"
            yield "formula", words, branch.lineno


def _kept_by(branch: ast.If, names: Container[str]) -> tuple[str, ast.expr, bool] | None:
    """Return the name, the value and whether it is to be lower, of `if value < name: name = value`."""
    test = branch.test
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    left, right, sign = test.left, test.comparators[0], test.ops[0]
    if not isinstance(sign, ast.Lt | ast.LtE | ast.Gt | ast.GtE):
        return None
    is_below = isinstance(sign, ast.Lt | ast.LtE)
    for name, value, lower in ((name_of(right), left, is_below), (name_of(left), right, not is_below)):
        body = [pair for statement in branch.body for pair in assignments(statement)]
        if name in names and any(one == name and ast.dump(new) == ast.dump(value) for one, new, _ in body):
            return name, value, lower
    return None


def _number(node: ast.expr) -> float:
    """Return the number that an expression is, infinity among them; not a number for any other."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_number(node.operand)
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float) and not isinstance(node.value, bool):
        return float(node.value)
    if isinstance(node, ast.Call) and called(node) == "float" and len(node.args) == 1:
        text = node.args[0].value if isinstance(node.args[0], ast.Constant) else None
        return {"inf": inf, "-inf": -inf, "+inf": inf}.get(str(text).lower().replace("infinity", "inf"), nan)
    return inf if name_of(node) in _INFINITE else nan


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_never_better,)
