"""The loss of a quantile: which way the difference between a target and a prediction goes."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import called
from ..expressions import assignments, inner, is_difference, words_in
from ..trees import walked
from .pattern import Found, Pattern

_PREDICTED: Final = frozenset({"pred", "preds", "prediction", "predictions", "output", "outputs", "out", "forecast",
                               "forecasts", "yhat", "hat", "quantiles"})  # fmt: skip
_WANTED: Final = frozenset({"target", "targets", "y", "true", "truth", "label", "labels", "actual", "actuals"})
_LARGER: Final = frozenset({"maximum", "max", "fmax"})


def _pinball(tree: ast.AST) -> Iterator[Found]:
    """The loss is max(q d, (q - 1) d) of d = target - prediction (Koenker and Bassett 1978, equation 2.1).

    With the difference turned round, the 90 % quantile is trained as the 10 % one.
    """
    known = {name: value for name, value, _ in assignments(tree)}
    for call in (one for one in walked(tree) if isinstance(one, ast.Call) and called(one) in _LARGER):
        sides = _sides(call)
        difference = None if sides is None else _difference(*sides)
        if difference is None:
            continue
        given = known.get(difference.id) if isinstance(difference, ast.Name) else difference
        given = None if given is None else inner(given)
        if isinstance(given, ast.BinOp) and is_difference(given) and _is_turned(given):
            words = f"{ast.unparse(call)} with {ast.unparse(given)} gives each quantile the place of the opposite one"
            yield "formula", words, call.lineno


def _sides(call: ast.Call) -> tuple[ast.expr, ast.expr] | None:
    """Return the two products of which a call takes the larger one."""
    given = call.args[0].elts if len(call.args) == 1 and isinstance(call.args[0], ast.Tuple | ast.List) else call.args
    return (given[0], given[1]) if len(given) > 1 else None


def _difference(one: ast.expr, other: ast.expr) -> ast.expr | None:
    """Return `d` of `q * d` and `(q - 1) * d`; None if these are no such products."""
    for first, second in ((one, other), (other, one)):
        for level, difference in _factors(first):
            lower = f"{ast.unparse(level)} - 1"
            if any(ast.unparse(left) == lower and ast.dump(right) == ast.dump(difference)
                   for left, right in _factors(second)):  # fmt: skip
                return difference
    return None


def _factors(node: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield both orders of the factors of a product."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        yield node.left, node.right
        yield node.right, node.left


def _is_turned(given: ast.BinOp) -> bool:
    """Return whether the target is taken from the prediction; `y_pred` is one."""
    left, right = words_in(given.left), words_in(given.right)
    return bool(left & _PREDICTED) and bool(right & _WANTED) and not right & _PREDICTED


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_pinball,)
