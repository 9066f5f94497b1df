"""Likelihoods of normal distributions whose deviation is learned, and scales that are kept as logarithms."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import called
from ..expressions import (
    assignments,
    calls_in,
    factors,
    find,
    inner,
    is_difference,
    name_of,
    operand,
    terms,
    words_in,
)
from ..names import words_of
from ..operations import squared
from ..trees import walked
from .pattern import Found, Pattern

_LOG_VARIANCES: Final = frozenset({"logvar", "logvars", "logsigma", "logstd", "lv"})
_SPREADS: Final = frozenset({"var", "variance", "sigma", "std", "stddev", "sigma2", "var2"})
_INVERSES: Final = frozenset({"prec", "precision", "inv", "inverse", "neg"})
_SCALES: Final = frozenset({"scale", "temp", "temperature", "tau", "sigma", "std", "scales"})
_DEVIATIONS: Final = frozenset({"std", "sigma", "stddev", "sd", "scale"})
_TO_POSITIVE: Final = ("exp", "exp_", "softplus", "sigmoid", "pow", "square", "var", "elu", "clamp")


def _is_log_spread(name: str) -> bool:
    """Return whether a name is that of a logarithm of a variance or deviation."""
    words = words_of(name)
    is_named = bool(words & _LOG_VARIANCES) or ("log" in words and bool(words & _SPREADS))
    return is_named and not words & _INVERSES


def _grows_with_its_variance(tree: ast.AST) -> Iterator[Found]:
    """The squared error is divided by its variance (Nix and Weigend 1994, equation 4)."""
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        parts, _ = factors(node)
        spreads = [one for one in parts if _exponent_sign(one) > 0]
        if spreads and any(_is_squared_difference(one) for one in parts):
            words = f"{ast.unparse(node)} multiplies the squared error by its variance, which divides it"
            yield "formula", words, node.lineno


def _exponent_sign(node: ast.expr) -> int:
    """Return 1 for `exp(logvar)`, -1 for `exp(-logvar)`, and 0 of anything else."""
    if not isinstance(node, ast.Call) or called(node) != "exp":
        return 0
    given = operand(node)
    parts = list(terms(given)) if given is not None else []
    if len(parts) != 1 or not _is_log_spread(name_of(parts[0][0])):
        return 0
    return parts[0][1]


def _is_squared_difference(node: ast.expr) -> bool:
    """Return whether an expression is `(a - b) ** 2`, or the like of `mse_loss(a, b, reduction="none")`."""
    node = inner(node)
    base = squared(node)
    if base is not None:
        return is_difference(base)
    return isinstance(node, ast.Call) and called(node) == "mse_loss"


def _without_its_logarithm(tree: ast.AST) -> Iterator[Found]:
    """Half the logarithm of the variance is added to the weighed error (Nix and Weigend 1994, equation 4).

    Without it the loss falls the further the larger the variance is.
    """
    if find(tree, _adds_log_spread):
        return
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult) or "detach" in ast.unparse(node):
            continue
        parts, _ = factors(node)
        if any(_exponent_sign(one) < 0 for one in parts) and any(_is_squared_difference(one) for one in parts):
            words = f"{ast.unparse(node)} falls as the variance grows, and no term of its logarithm holds against that"
            yield "formula", words, node.lineno


def _adds_log_spread(node: ast.AST) -> bool:
    """Return whether a sum has a logarithm of a variance, or of a deviation, as a term."""
    if isinstance(node, ast.AugAssign):
        return any(
            isinstance(one, ast.Name | ast.Attribute) and _is_log_spread(name_of(one)) for one in walked(node.value)
        )
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
        return False
    for side in (node.left, node.right):
        for term, _ in terms(side):
            parts, _ = factors(term)
            if any(_is_log_spread(name_of(inner(one))) for one in parts):
                return True
            if next(calls_in(term, "log", "log_", "logdet", "log2"), None) is not None:
                return True
    return False


def _deviation_for_variance(tree: ast.AST) -> Iterator[Found]:
    """`gaussian_nll_loss` takes the variance as its third argument."""
    makers = {name for name, value, _ in assignments(tree) if called(value) == "GaussianNLLLoss"}
    given_to = {name: value for name, value, _ in assignments(tree)}
    for call in calls_in(tree, "gaussian_nll_loss", "GaussianNLLLoss", *makers):
        named = [one.value for one in call.keywords if one.arg == "var"]
        third = named[0] if named else call.args[2] if len(call.args) > 2 else None
        name = name_of(third)
        words = words_of(name)
        value = given_to.get(name)
        is_squared = value is not None and (
            "** 2" in ast.unparse(value) or next(calls_in(value, "square", "pow"), None)
        )
        is_deviation = bool(words & _DEVIATIONS) and not words & {"var", "variance", "sq", "squared", "2"}
        if (is_deviation or _is_log_spread(name)) and not is_squared:
            kind = "logarithm" if _is_log_spread(name) else "root"
            yield (
                "formula",
                f"{ast.unparse(call)} is given {name}, the {kind} of what it takes, the variance",
                call.lineno,
            )


def _scale_left_as_logarithm(tree: ast.AST) -> Iterator[Found]:
    """A scale that begins as a logarithm is one behind `exp` (Radford et al. 2021, arXiv:2103.00020, section 2.5)."""
    text_of_calls = [words_in(call) for call in calls_in(tree, *_TO_POSITIVE)]
    for name, value, _ in assignments(tree):
        is_parameter = isinstance(value, ast.Call) and called(value) == "Parameter"
        if not is_parameter or next(calls_in(value, "log"), None) is None or not words_of(name) & _SCALES:
            continue
        if any(words_of(name) <= words for words in text_of_calls):
            continue
        for node in walked(tree):
            is_scaled = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div)
            if is_scaled and isinstance(node, ast.BinOp) and name in (name_of(node.left), name_of(node.right)):
                words = f"{ast.unparse(node)} takes {name}, which begins as a logarithm, for the scale itself"
                yield "formula", words, node.lineno
                break


def _logarithm_for_the_value(tree: ast.AST) -> Iterator[Found]:
    """A parameter that is called the logarithm of something becomes it by `exp`."""
    inside = [words_in(call) for call in calls_in(tree, *_TO_POSITIVE, "softmax", "log_softmax", "logsumexp")]
    for name, value, _ in assignments(tree):
        is_parameter = isinstance(value, ast.Call) and called(value) == "Parameter"
        words = words_of(name)
        if not is_parameter or not name.startswith("log_") or words & {"prob", "probs", "prior", "alpha"}:
            continue
        if any(words <= one for one in inside):
            continue
        for node in walked(tree):
            is_turned = (
                isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and name_of(node.operand) == name
            )
            if is_turned and isinstance(node, ast.UnaryOp):
                yield "formula", f"{ast.unparse(node)} is minus a logarithm, and nothing takes its exp", node.lineno
                break


def _second_moment(tree: ast.AST) -> Iterator[Found]:
    """The variance of a mixture is mean(var + mean^2) - mean^2 (Lakshminarayanan et al. 2017, arXiv:1612.01474)."""
    for name, value, line in assignments(tree):
        if not words_of(name) & {"var", "variance", "vars"} or find(value, is_difference):
            continue
        for call in calls_in(value, "mean"):
            given = operand(call)
            sides = [given.left, given.right] if isinstance(given, ast.BinOp) and isinstance(given.op, ast.Add) else []
            kinds = [bool(words_in(one) & {"var", "vars", "variance", "variances"}) for one in sides]
            squares = [
                one for one, is_spread in zip(sides, kinds, strict=True) if not is_spread and _is_squared_mean(one)
            ]
            if kinds.count(True) == 1 and squares and not _is_lowered(tree, name):
                yield (
                    "formula",
                    f"{name} = {ast.unparse(value)} is the second moment: the squared mean is not taken off",
                    line,
                )


def _is_squared_mean(node: ast.expr) -> bool:
    """Return whether an expression is the square of means."""
    base = squared(node)
    return base is not None and bool(words_in(base) & {"mean", "means", "mu", "mus"})


def _is_lowered(tree: ast.AST, name: str) -> bool:
    """Return whether anything is taken off a value later on."""
    for node in walked(tree):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Sub) and name_of(node.target) == name:
            return True
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and name_of(node.left) == name:
            return True
    return False


def _half_of_the_determinant(tree: ast.AST) -> Iterator[Found]:
    """Half the logarithm of a determinant is sum log diag L (Rasmussen and Williams 2006, algorithm 2.1, line 7)."""
    factors = {
        name for name, value, _ in assignments(tree) if called(value) in ("cholesky", "cholesky_ex", "safe_cholesky")
    }
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        for half, other in ((node.left, node.right), (node.right, node.left)):
            is_half = isinstance(half, ast.Constant) and half.value == 0.5
            is_sum = isinstance(other, ast.Call) and called(other) == "sum" and next(calls_in(other, "log"), None)
            diagonal = [operand(one) for one in calls_in(other, "diagonal", "diag")] if is_sum else []
            if is_half and any(name_of(one) in factors for one in diagonal) and "2" not in ast.unparse(other):
                words = f"{ast.unparse(node)} is a quarter of the determinant's logarithm, where half of it belongs"
                yield "formula", words, node.lineno


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _grows_with_its_variance,
    _without_its_logarithm,
    _deviation_for_variance,
    _scale_left_as_logarithm,
    _logarithm_for_the_value,
    _second_moment,
    _half_of_the_determinant,
)
