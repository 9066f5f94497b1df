"""Measures of an evaluation: decibels, intervals, thresholds."""

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from ..bindings import called, functions_in
from ..expressions import assignments, calls_in, name_of, operand, words_in
from ..known_values import words_through
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

#: Quantiles of the normal distribution that intervals are made with.
_QUANTILES: Final = (1.28, 1.2816, 1.282, 1.64, 1.645, 1.6449, 1.96, 1.95996, 1.959964, 2.33, 2.576, 2.58, 2.5758)
_SPREAD: Final = frozenset({"std", "sigma", "stddev", "sd", "sqrt", "scale"})
_ERRORS: Final = frozenset({"mse", "mses"})
_SCORES: Final = frozenset({"logit", "logits"})
_LOG10: Final = ("log10", "log10_")


def _decibels(tree: ast.AST) -> Iterator[Found]:
    """The signal-to-noise ratio is 10 log10(peak^2 / MSE), or 20 log10(peak / RMSE)."""
    for function in functions_in(tree):
        known = {name: value for name, value, _ in assignments(function)}
        for node in walked(function):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                found = _is_twice_squared(node, known)
                if found:
                    yield "formula", f"{ast.unparse(node)} {found}", node.lineno


def _is_twice_squared(node: ast.BinOp, known: Mapping[str, ast.expr]) -> str:
    """Return what is wrong with a number of decibels; empty if nothing is, or if it cannot be told."""
    for number, call in ((node.left, node.right), (node.right, node.left)):
        factor = ast.unparse(number).lstrip("-").removesuffix(".0")
        given = operand(call) if isinstance(call, ast.Call) and called(call) in _LOG10 else None
        if factor not in ("10", "20") or given is None:
            continue
        words = words_through(given, known)
        is_root = "sqrt" in words or "rmse" in words or "** 0.5" in ast.unparse(given)
        if factor == "20" and words & _ERRORS and not is_root:
            return "takes 20 times the logarithm of a squared error: that is twice the decibels"
    return ""


def _variance_in_an_interval(tree: ast.AST) -> Iterator[Found]:
    """An interval of a normal distribution is so many deviations wide, and not so many variances."""
    known = {name: value for name, value, _ in assignments(tree)}
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        for number, other in ((node.left, node.right), (node.right, node.left)):
            is_quantile = isinstance(number, ast.Constant) and number.value in _QUANTILES
            words = words_of(name_of(other))
            inside = words_through(other, known)
            if is_quantile and words & {"var", "variance", "variances"} and not inside & _SPREAD:
                words_told = f"{ast.unparse(node)} is so many variances; an interval is as many deviations wide"
                yield "formula", words_told, node.lineno


def _threshold_of_a_probability(tree: ast.AST) -> Iterator[Found]:
    """A probability of one half is a logit of zero."""
    if next(calls_in(tree, "BCEWithLogitsLoss", "binary_cross_entropy_with_logits"), None) is None:
        return
    known: dict[str, list[ast.expr]] = {}
    for name, value, _ in assignments(tree):
        known.setdefault(name, []).append(value)
    for node in walked(tree):
        if not isinstance(node, ast.Compare) or len(node.ops) != 1 or not isinstance(node.ops[0], ast.Gt | ast.GtE):
            continue
        name, limit = name_of(node.left), ast.unparse(node.comparators[0])
        bounded = any(words_in(value) & {"sigmoid", "softmax", "exp", "expit"} for value in known.get(name, []))
        if words_of(name) & _SCORES and limit == "0.5" and not bounded:
            yield (
                "formula",
                f"{ast.unparse(node)} takes logits for probabilities: one half is a logit of 0",
                node.lineno,
            )


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_decibels, _variance_in_an_interval, _threshold_of_a_probability)
