"""Actions that are tried at random, and how far a policy may move."""

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from ..bindings import called
from ..expressions import assignments, calls_in, name_of, operand, words_in
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

_EPSILONS: Final = frozenset({"eps", "epsilon"})
_ENDS: Final = frozenset({"end", "min", "final", "last", "floor"})
_DRAWS: Final = ("random", "rand", "uniform", "random_sample")
_ANY_ACTION: Final = ("randint", "randrange", "choice", "sample", "integers", "random_action")
_BEST_ACTION: Final = ("argmax", "max")


def _greedy_by_chance(tree: ast.AST) -> Iterator[Found]:
    """With chance epsilon an action is drawn, else the best one is taken (Sutton and Barto 2018, section 2.2)."""
    for node in walked(tree):
        then: Sequence[ast.AST]
        other: Sequence[ast.AST]
        if isinstance(node, ast.IfExp):
            then, other = [node.body], [node.orelse]
        elif isinstance(node, ast.If):
            then, other = node.body, node.orelse
        else:
            continue
        chance = _chance_of(node.test)
        if chance is None:
            continue
        drawn, best = (then, other) if chance > 0 else (other, then)
        if _calls_any(drawn, _BEST_ACTION) and _calls_any(best, _ANY_ACTION) and not _calls_any(drawn, _ANY_ACTION):
            words = f"{ast.unparse(node.test)} draws actions with chance 1 - epsilon, and is greedy with chance epsilon"
            yield "formula", words, node.lineno


def _chance_of(test: ast.expr) -> int | None:
    """Return 1 for `random() < eps`, which is true with chance eps, -1 for its opposite, None for anything else."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    left, right = test.left, test.comparators[0]
    is_less = isinstance(test.ops[0], ast.Lt | ast.LtE)
    if not is_less and not isinstance(test.ops[0], ast.Gt | ast.GtE):
        return None
    for drawn, limit, sign in ((left, right, 1), (right, left, -1)):
        if _calls_any([drawn], _DRAWS) and words_in(limit) & _EPSILONS:
            return sign if is_less else -sign
    return None


def _calls_any(parts: Sequence[ast.AST], names: tuple[str, ...]) -> bool:
    return any(next(calls_in(part, *names), None) is not None for part in parts)


def _falls_at_once(tree: ast.AST) -> Iterator[Found]:
    """What decays stops at its end: it is the larger of both."""
    for name, value, line in assignments(tree):
        if not words_of(name) & _EPSILONS or called(value) != "min" or not isinstance(value, ast.Call):
            continue
        ends = [one for one in value.args if words_in(one) & _ENDS and isinstance(one, ast.Name | ast.Attribute)]
        decays = [one for one in value.args if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Mult)]
        if ends and any("decay" in words_in(one) for one in decays):
            yield (
                "formula",
                f"{name} = {ast.unparse(value)} is at its end from the first step on: `max` keeps it above",
                line,
            )


def _clipped_elsewhere(tree: ast.AST) -> Iterator[Found]:
    """A ratio is kept between 1 - epsilon and 1 + epsilon (Schulman et al. 2017, arXiv:1707.06347, equation 7)."""
    for call in calls_in(tree, "clamp", "clip"):
        given = [operand(call, number) for number in range(3)]
        if "ratio" not in words_of(name_of(given[0])) and "ratios" not in words_of(name_of(given[0])):
            continue
        low, high = given[1], given[2]
        if isinstance(low, ast.UnaryOp) and isinstance(low.op, ast.USub) and isinstance(high, ast.Name | ast.Attribute):
            if ast.unparse(low.operand) == ast.unparse(high):
                yield "formula", f"{ast.unparse(call)} keeps the ratio near to 0, and not near to 1", call.lineno
        elif _is_one_with(low, ast.Add) and _is_one_with(high, ast.Sub):
            yield (
                "formula",
                f"{ast.unparse(call)} has its limits exchanged: every ratio becomes one number",
                call.lineno,
            )


def _is_one_with(node: ast.expr | None, sign: type[ast.operator]) -> bool:
    """Return whether an expression is `1 + e`, or `1 - e`."""
    return isinstance(node, ast.BinOp) and isinstance(node.op, sign) and ast.unparse(node.left) in ("1", "1.0")


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_greedy_by_chance, _falls_at_once, _clipped_elsewhere)
