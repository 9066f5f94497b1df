"""Weights of a mean: of the parameters of a slow copy, and of the classes in a loss."""

import ast
from collections.abc import Iterator
from typing import Final, TypeGuard

from ..bindings import Function, called, parameters_of
from ..expressions import assignments, calls_in, find, inner, is_difference, is_name, name_of, rest_of_one, words_in
from ..known_values import known_numbers
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

#: Share of the other network from which on a slow copy is none (our choice; usual are 0.001 to 0.1).
_MOST_TAKEN: Final = 0.9
#: Words of networks that follow another one.
_SLOW: Final = frozenset({"target", "targ", "tgt", "ema", "teacher", "slow", "momentum", "shadow", "average", "avg"})
_DECAYS: Final = frozenset({"decay", "decays"})
_COUNTS: Final = frozenset({"count", "counts", "freq", "freqs", "frequency", "frequencies", "bincount", "n"})
_TOTALS: Final = frozenset({"sum", "total", "len", "n", "numel", "size"})
_LOSSES: Final = ("CrossEntropyLoss", "NLLLoss", "cross_entropy", "nll_loss")


def _fast_copy(tree: ast.AST) -> Iterator[Found]:
    """A slow copy keeps nearly all of itself in an update (Lillicrap et al. 2016, arXiv:1509.02971, algorithm 1)."""
    numbers = known_numbers(tree)
    for loop in walked(tree):
        slow = _slow_parameter(loop) if isinstance(loop, ast.For) else ""
        for node in walked(loop) if slow else ():
            taken, kept = _share_taken(node, slow), _share_kept(node, slow)
            share = numbers.get(taken, 0.0) if taken else 1 - numbers.get(kept, 1.0)
            if _MOST_TAKEN <= share < 1.0 and isinstance(node, ast.expr | ast.Assign):
                words = (
                    f"{ast.unparse(node)} keeps {1 - share:.3g} of {slow} and takes {share:.3g} of the other network"
                )
                yield "formula", words, node.lineno


def _exchanged_decay(tree: ast.AST) -> Iterator[Found]:
    """A decay is the share of a moving average that stays: m = decay m + (1 - decay) x (Polyak and Juditsky 1992).

    Found is `m.mul_(1 - decay).add_(x, alpha=decay)`, and the same written as a sum; `_fast_copy` looks at copies.
    """
    loops = [loop for loop in walked(tree) if isinstance(loop, ast.For) and _slow_parameter(loop)]
    copies = {id(node) for loop in loops for node in walked(loop)}
    for node in walked(tree):
        name = "" if id(node) in copies else _taken_decay(node)
        if name and words_of(name) & _DECAYS and isinstance(node, ast.expr | ast.stmt):
            words = f"{ast.unparse(node)} keeps 1 - {name} of the average, and takes {name} of what is new"
            yield "formula", words, node.lineno


def _exchanged_networks(tree: ast.AST) -> Iterator[Found]:
    """The slow copy is what a soft update writes to: `soft_update(critic, critic_target)` may write to the critic."""
    written = {node.name: place for node in walked(tree) if isinstance(node, Function) and (place := _written_of(node))}
    for call in calls_in(tree, *written):
        parameters, own = written[called(call)]
        is_method = parameters[:1] == ["self"] and isinstance(call.func, ast.Attribute)
        given = dict(zip(parameters[is_method:], call.args, strict=False))
        into, others = given.pop(own, None), [words_in(one) for one in given.values()]
        if into is not None and not words_in(into) & _SLOW and any(words & _SLOW for words in others):
            words = f"{ast.unparse(call)} writes to {ast.unparse(into)}, which is trained, and not to its slow copy"
            yield "formula", words, call.lineno


def _written_of(function: Function) -> tuple[list[str], str] | None:
    """Return the parameters of a soft update, and the one to whose network it writes; None for other functions."""
    if not find(function, _mixes):
        return None  # a copy, which may go either way
    for loop in walked(function):
        slow = _slow_parameter(loop) if isinstance(loop, ast.For) else ""
        if (
            slow
            and isinstance(loop, ast.For)
            and isinstance(loop.iter, ast.Call)
            and isinstance(loop.target, ast.Tuple)
        ):
            number = [name_of(one) for one in loop.target.elts].index(slow)
            owner = loop.iter.args[number]
            networks = [one.id for one in walked(owner) if isinstance(one, ast.Name)]
            names = parameters_of(function)
            return next(((names, name) for name in networks if name in names), None)
    return None


def _mixes(node: ast.AST) -> bool:
    """Return whether an expression takes a share of something."""
    is_product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
    return is_product or called(node) in ("lerp", "lerp_", "mul_", "mul")


def _taken_decay(node: ast.AST) -> str:
    """Return the name `d` of `m.mul_(1 - d).add_(x, alpha=d)`, and of `m = (1 - d) * m + d * x`; empty of others."""
    if isinstance(node, ast.Call) and called(node) == "add_" and isinstance(node.func, ast.Attribute):
        kept = node.func.value
        is_kept = isinstance(kept, ast.Call) and called(kept) == "mul_" and len(kept.args) == 1
        rest = _rest_of(kept.args[0]) if is_kept and isinstance(kept, ast.Call) else ""
        taken = next((one.value for one in node.keywords if one.arg == "alpha"), None)
        return rest if rest and name_of(taken) == rest else ""
    if isinstance(node, ast.Assign) and isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.Add):
        own, sides = ast.unparse(node.targets[0]), (node.value.left, node.value.right)
        for kept, taken in (sides, sides[::-1]):
            if not _is_product(kept) or not _is_product(taken):
                continue
            rest = _rest_of(kept.left) or _rest_of(kept.right)
            is_own = own in (ast.unparse(kept.left), ast.unparse(kept.right))
            if rest and is_own and rest in (name_of(taken.left), name_of(taken.right)):
                return rest
    return ""


def _is_product(node: ast.expr) -> TypeGuard[ast.BinOp]:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)


def _slow_parameter(loop: ast.For) -> str:
    """Return the first name of a loop over the parameters of two networks; empty for another loop."""
    is_pair = called(loop.iter) == "zip" and isinstance(loop.iter, ast.Call) and len(loop.iter.args) == 2
    if not is_pair or not isinstance(loop.iter, ast.Call) or not isinstance(loop.target, ast.Tuple):
        return ""
    holds = all(next(calls_in(one, "parameters"), None) is not None for one in loop.iter.args)
    names = [one.id for one in loop.target.elts if isinstance(one, ast.Name)]
    written = [name for name in names if any(_is_written(node, name) for node in walked(loop))]
    return written[0] if holds and len(names) == 2 and len(written) == 1 else ""


def _is_written(node: ast.AST, name: str) -> bool:
    """Return whether a statement writes a tensor of this name, or its data, in place."""
    if isinstance(node, ast.Assign):
        return any(_is_of(target, name) and not isinstance(target, ast.Name) for target in node.targets)
    is_method = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr.endswith("_")
    return is_method and isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_of(node.func, name)


def _is_of(node: ast.expr, name: str) -> bool:
    """Return whether an expression is a tensor of this name, its data, or a chain of methods on it."""
    while isinstance(node, ast.Attribute | ast.Call):
        node = node.value if isinstance(node, ast.Attribute) else node.func
    return is_name(node, name)


def _share_taken(node: ast.AST, slow: str) -> str:
    """Return the name of the share of the other network that an update takes; empty for what is no such update.

    It is `x` of `slow.mul_(1 - x).add_(other, alpha=x)`, of `slow.lerp_(other, x)`, and of `slow.copy_((1 - x) * slow +
    x * other)` or its assignment.
    """
    if isinstance(node, ast.Call) and called(node) == "lerp_" and _is_of(node.func, slow) and len(node.args) == 2:
        return name_of(node.args[1])
    if isinstance(node, ast.Call) and called(node) == "add_" and _is_of(node.func, slow):
        kept = next((call for call in calls_in(node.func, "mul_") if call.args), None)
        rest = _rest_of(kept.args[0]) if kept is not None else ""
        given = [*(one.value for one in node.keywords if one.arg == "alpha"), *node.args]
        return rest if rest and any(find(one, lambda part: name_of(part) == rest) for one in given) else ""
    if isinstance(node, ast.Call) and called(node) == "copy_" and _is_of(node.func, slow) and node.args:
        return _share_in(node.args[0], slow)
    return _share_in(node.value, slow) if isinstance(node, ast.Assign) else ""


def _share_kept(node: ast.AST, slow: str) -> str:
    """Return the name `x` of the share that stays in `slow.mul_(x).add_((1 - x) * other)`; empty for anything else."""
    if not isinstance(node, ast.Call) or called(node) != "add_" or not _is_of(node.func, slow):
        return ""
    kept = next((name_of(call.args[0]) for call in calls_in(node.func, "mul_") if call.args), "")
    given = [*(one.value for one in node.keywords if one.arg == "alpha"), *node.args]
    rests = [_rest_of(part) for one in given for part in walked(one) if isinstance(part, ast.expr)]
    return kept if kept in rests else ""


def _share_in(node: ast.expr, slow: str) -> str:
    """Return `x` of `(1 - x) * slow + x * other`."""
    node = inner(node)
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return ""
    for kept, taken in ((node.left, node.right), (node.right, node.left)):
        sides = [(one.left, one.right) for one in (kept, taken) if isinstance(one, ast.BinOp)]
        if len(sides) != 2:
            return ""
        rest = next((found for side in sides[0] if (found := _rest_of(side))), "")
        is_kept = any(_is_of(side, slow) for side in sides[0])
        if rest and is_kept and any(name_of(side) == rest for side in sides[1]):
            return rest
    return ""


def _rest_of(node: ast.expr) -> str:
    """Return the name `x` of `1 - x`."""
    return name_of(rest_of_one(node))


def _weights_of_counts(tree: ast.AST) -> Iterator[Found]:
    """Weights of classes make up for their frequencies, so they fall with them (King and Zeng 2001, equation 7)."""
    used = {
        name_of(one.value)
        for call in calls_in(tree, *_LOSSES)
        for one in call.keywords
        if one.arg == "weight" and name_of(one.value)
    }
    for name, value, line in assignments(tree):
        value = inner(value)
        if name not in used or not words_of(name) & {"weight", "weights", "w"} or not isinstance(value, ast.BinOp):
            continue
        is_share = isinstance(value.op, ast.Div) and not find(value.left, _is_quotient)
        of_counts = words_in(value.left) & _COUNTS and words_in(value.right) & _TOTALS
        if is_share and of_counts and not _is_inverted(tree, name) and not find(value.left, is_difference):
            words = f"{name} = {ast.unparse(value)} weighs the frequent classes most; a loss has the rare ones to weigh"
            yield "formula", words, line


def _is_quotient(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Pow)


def _is_inverted(tree: ast.AST, name: str) -> bool:
    """Return whether a value of this name is divided by, or subtracted, anywhere."""

    def is_below(node: ast.AST) -> bool:
        is_turned = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div | ast.Sub | ast.Pow)
        if not is_turned or not isinstance(node, ast.BinOp) or not find(node, lambda one: is_name(one, name)):
            return False
        is_scaled = is_name(node.left, name) and called(node.right) in _TOTALS | {"mean"}
        return not (is_scaled and isinstance(node.op, ast.Div))  # as `weight / weight.mean()`

    return find(tree, is_below) or any(
        find(call, lambda one: is_name(one, name)) for call in calls_in(tree, "reciprocal", "flip")
    )


def _statistics_of_an_average(tree: ast.AST) -> Iterator[Found]:
    """Averaged weights need batch statistics of their own (Izmailov et al. 2018, arXiv:1803.05407, section 3.2)."""
    names = {name_of(one) for one in walked(tree) if isinstance(one, ast.Name | ast.Attribute)}
    if "update_bn" in names or not any("BatchNorm" in name for name in names):
        return
    for call in calls_in(tree, "AveragedModel"):
        if not any(one.arg in ("avg_fn", "multi_avg_fn", "use_buffers", None) for one in call.keywords):
            words = f"{ast.unparse(call)} averages weights, and nothing computes batch statistics for them: update_bn"
            yield "formula", words, call.lineno


def _weight_of_positives(tree: ast.AST) -> Iterator[Found]:
    """Positives are weighed by negatives over positives (King and Zeng 2001, equation 7, for two classes)."""
    known = {name: value for name, value, _ in assignments(tree)}
    for call in calls_in(tree, "BCEWithLogitsLoss", "binary_cross_entropy_with_logits"):
        given = next((one.value for one in call.keywords if one.arg == "pos_weight"), None)
        value = known.get(name_of(given), given)
        for node in walked(value) if value is not None else ():
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
                continue
            above, below = node.left, node.right
            is_named = bool(words_in(above) & {"pos", "positive", "positives"}) and not is_difference(above)
            is_rest = isinstance(below, ast.BinOp) and is_difference(below) and ast.dump(below.right) == ast.dump(above)
            if (is_named and bool(words_in(below) & {"neg", "negative", "negatives"})) or is_rest:
                yield "formula", f"{ast.unparse(node)} gives rare positives the least weight: turned round", node.lineno


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _fast_copy,
    _exchanged_decay,
    _exchanged_networks,
    _weights_of_counts,
    _statistics_of_an_average,
    _weight_of_positives,
)
