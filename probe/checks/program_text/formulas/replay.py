"""Transitions that are replayed: their weights, and steps that are taken together."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import called
from ..expressions import assignments, blocks_in, calls_in, factors, find, inner, name_of, words_in
from ..names import words_of
from ..operations import squared
from ..trees import walked
from .pattern import Found, Pattern

_CHANCES: Final = frozenset({"prob", "probs", "p", "ps", "probabilities", "priority", "priorities", "prios"})
_DISCOUNTS: Final = frozenset({"gamma", "discount"})
_NEXT: Final = frozenset({"target", "tgt", "next"})
_RETURNS: Final = frozenset({"ret", "rets", "returns", "adv", "advs", "advantage", "advantages", "gae"})
_INTEGERS: Final = frozenset({"int", "int64", "int32", "long", "int16", "int8"})  # bytes are masks
_STORES: Final = ("add", "push", "put", "store", "append", "remember")


def _weight_of_the_likely(tree: ast.AST) -> Iterator[Found]:
    """What is drawn more often counts less, (N P) ** -beta (Schaul et al. 2016, arXiv:1511.05952, section 3.4)."""
    for name, value, line in assignments(tree):
        if not words_of(name) & {"w", "weight", "weights"}:
            continue
        powers = [one for one in walked(value) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Pow)]
        powers = [one for one in powers if "beta" in words_in(one.right) and words_in(one.left) & _CHANCES]
        for power in powers:
            below = [one.right for one in walked(value) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div)]
            is_turned = find(power, _turns) or any(power is part for one in below for part in walked(one))
            if not is_turned and isinstance(inner(power.left), ast.BinOp):
                yield (
                    "formula",
                    f"{name} = {ast.unparse(value)} gives most weight to what is drawn most often already",
                    line,
                )


def _turns(node: ast.AST) -> bool:
    """Return whether a part has a minus sign, or divides."""
    is_minus = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub)
    return is_minus or (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div))


def _undiscounted_steps(tree: ast.AST) -> Iterator[Found]:
    """Behind n steps the value is discounted n times (Sutton and Barto 2018, equation 7.1).

    Told where rewards of `n_step` steps are summed with rising powers of the discount, and no power has `n_step`.
    """
    powers = [one for one in walked(tree) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Pow)]
    powers = [one for one in powers if words_of(name_of(one.left)) & _DISCOUNTS]
    sums = [one for one in walked(tree) if isinstance(one, ast.comprehension | ast.For) and _steps_in(one.iter)]
    if not sums or not powers or any(_steps_in(one.right) or words_in(one.right) & {"n", "len", "k"} for one in powers):
        return
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        parts, _ = factors(node)
        is_discounted = any(words_of(name_of(one)) & _DISCOUNTS for one in parts)
        if is_discounted and any(words_in(one) & _NEXT and next(_calls(one), None) is not None for one in parts):
            yield "formula", f"{ast.unparse(node)} discounts once what lies several steps ahead", node.lineno
            return


def _calls(node: ast.AST) -> Iterator[ast.Call]:
    return (one for one in walked(node) if isinstance(one, ast.Call))


def _steps_in(node: ast.AST) -> bool:
    """Return whether an expression names a number of steps that are taken together."""
    return any(
        {"n", "step"} <= words or {"n", "steps"} <= words or bool(words & {"nstep", "nsteps"})
        for words in (words_of(name_of(one)) for one in walked(node))
    )


def _smaller_error(tree: ast.AST) -> Iterator[Found]:
    """Of a value's error and its clipped one the larger counts (Engstrom et al. 2020, arXiv:2005.12729, section 2)."""
    known = {name: value for name, value, _ in assignments(tree)}
    for call in calls_in(tree, "min", "minimum"):
        if len(call.args) != 2:
            continue
        words = [words_in(one) | words_in(known.get(name_of(one))) for one in call.args]
        names = [words_in(one) for one in call.args]
        clipped = [bool(one & {"clip", "clipped"}) for one in words]
        of_values = [bool(one & {"v", "vf", "value", "values", "vloss"}) for one in names]
        are_errors = all(
            bool(one & {"loss", "losses", "err", "error", "l1", "l2"}) or squared(inner(arg)) is not None
            for one, arg in zip(names, call.args, strict=True)
        )
        if (
            any(clipped)
            and all(of_values)
            and are_errors
            and not any(one & {"ratio", "surr", "surrogate", "adv"} for one in words)
        ):
            yield (
                "formula",
                f"{ast.unparse(call)} takes the smaller error of a value, which clipping is to prevent",
                call.lineno,
            )


def _returns_in_integers(tree: ast.AST) -> Iterator[Found]:
    """Discounted sums are no whole numbers: an array of integers cuts off what comes behind the point."""
    for name, value, line in assignments(tree):
        if not isinstance(value, ast.Call) or not words_of(name) & _RETURNS or called(value) not in ("zeros", "empty"):
            continue
        kinds = [*value.args[1:], *(one.value for one in value.keywords if one.arg == "dtype")]
        if any(name_of(one) in _INTEGERS for one in kinds) and words_in(tree) & _DISCOUNTS:
            yield "formula", f"{name} = {ast.unparse(value)} cuts discounted returns off to whole numbers", line


def _reset_for_next(tree: ast.AST) -> Iterator[Found]:
    """The transition of a last step holds the state that it led to, and not the first one of the next episode."""
    for block in blocks_in(tree):
        stepped: set[str] = set()
        begun: dict[str, ast.stmt] = {}
        for statement in block:
            stepped |= _first_of_a_step(statement)
            for name, value, _ in assignments(statement) if isinstance(statement, ast.If) else ():
                if called(value) == "reset" and name in stepped:
                    begun[name] = statement
            for call in calls_in(statement, *_STORES) if begun else ():
                late = [one for one in call.args[1:] if name_of(one) in begun and isinstance(one, ast.Name)]
                if late and begun[name_of(late[0])] is not statement:
                    words = f"{ast.unparse(call)} stores {name_of(late[0])} after it has become that of a new episode"
                    yield "formula", words, call.lineno


def _first_of_a_step(statement: ast.stmt) -> set[str]:
    """Return the name of the state in `state, reward, done, _ = env.step(action)`."""
    if not isinstance(statement, ast.Assign) or called(statement.value) != "step":
        return set()
    target = statement.targets[0]
    first = target.elts[0] if isinstance(target, ast.Tuple) and target.elts else None
    return {first.id} if isinstance(first, ast.Name) else set()


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _weight_of_the_likely,
    _undiscounted_steps,
    _smaller_error,
    _returns_in_integers,
    _reset_for_next,
)
