"""Formulas of a training around its model: preferences, loops over parameters, schedules."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import Function, called, functions_in
from ..expressions import assignments, calls_in, factors, inner, is_name, name_of, operand, terms, words_in
from ..known_values import values_of_names, words_through
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

_POSITIVE: Final = frozenset({"pos", "positive", "positives", "chosen", "win", "winner", "preferred"})
_NEGATIVE: Final = frozenset({"neg", "negative", "negatives", "rejected", "lose", "loser", "dispreferred"})
_DISTANCE: Final = frozenset({"d", "dist", "distance", "distances", "dists", "cost"})
_COSTS: Final = frozenset({"loss", "losses", "err", "error", "mae", "mse", "rmse", "nll", "ppl", "perplexity"})
_GAINS: Final = frozenset({"acc", "accuracy", "f1", "auc", "iou", "score", "reward", "return", "psnr", "recall", "map"})
#: Names of what two masks have in common, of its share, and of loss functions that a sum is known by.
_BOTH: Final = frozenset({"inter", "intersection", "intersect", "overlap", "tp"})
_SHARES: Final = frozenset({"dice", "iou", "jaccard", "tversky"})
#: Words of the chance that a model gives to what is true.
_TRUE_CHANCE: Final = ({"pt"}, {"p", "t"})
_FITS: Final = frozenset({"bce", "ce", "loss", "criterion", "entropy", "focal", "mse", "l1", "nll", "xent"})


def _preference(tree: ast.AST) -> Iterator[Found]:
    """What is preferred is raised (Rendle et al. 2009, arXiv:1205.2618; Rafailov et al. 2023, arXiv:2305.18290)."""
    for name, value, line in assignments(tree):
        for term, sign in terms(value):
            call = next(calls_in(term, "logsigmoid", "softplus"), None)
            given = inner(call.args[0]) if call is not None and call.args else None
            if call is None or given is None or sign * (-1 if "logsigmoid" in ast.unparse(call.func) else 1) < 0:
                continue
            parts, own = factors(given)
            is_raised = ("logsigmoid" in ast.unparse(call.func)) == (own > 0)
            for one in (inside for part in parts for inside in walked(part)):
                if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub) and _is_swapped(one, is_raised=is_raised):
                    yield "sign", f"{name} falls as {ast.unparse(one)} {'rises' if is_raised else 'falls'}", line


def _rebound(tree: ast.AST) -> Iterator[Found]:
    """A variable of a loop over parameters is given another value, which changes no parameter."""
    for loop in walked(tree):
        if not isinstance(loop, ast.For) or not next(
            calls_in(loop.iter, "parameters", "buffers", "named_parameters"), None
        ):
            continue
        targets = {one.id for one in walked(loop.target) if isinstance(one, ast.Name)}
        for node in loop.body:
            name = node.targets[0].id if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) else ""
            later = loop.body[loop.body.index(node) + 1 :]
            is_read = any(is_name(one, name) for statement in later for one in walked(statement))
            if isinstance(node, ast.Assign) and name in targets and not is_read and isinstance(node.value, ast.BinOp):
                words = f"{name} = {ast.unparse(node.value)} gives the loop's variable another value, and no parameter"
                yield "formula", words, node.lineno


def _plateau(tree: ast.AST) -> Iterator[Found]:
    """A schedule that waits for a plateau is told whether its metric should fall or rise."""
    modes = {
        name: _mode(value)
        for name, value, _ in assignments(tree)
        if isinstance(value, ast.Call) and ast.unparse(value.func).endswith("ReduceLROnPlateau")
    }
    known = {name: value for name, value, _ in assignments(tree)}
    for call in calls_in(tree, "step"):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        mode = modes.get(ast.unparse(owner).rpartition(".")[2]) if owner is not None else None
        if mode not in ("'min'", "'max'") or not call.args:
            continue
        given = call.args[0]
        is_turned = isinstance(given, ast.UnaryOp | ast.BinOp)  # `-accuracy`, `1 - accuracy`
        words = words_through(given, known)
        is_cost = bool(words & _COSTS) or any(word.endswith("loss") for word in words)
        is_gain = bool(words & _GAINS)
        if not is_turned and is_cost != is_gain and is_cost == (mode == "'max'"):
            yield "formula", f"the schedule has mode={mode} and is given {ast.unparse(given)}", call.lineno


def _agreement(tree: ast.AST) -> Iterator[Found]:
    """A loss falls as the overlap with its target grows (Milletari et al. 2016, arXiv:1606.04797, section 3)."""
    makers = {one.name for one in walked(tree) if isinstance(one, Function) and _returns_overlap(one)}
    for function in functions_in(tree):
        known = values_of_names(function)
        overlaps = {name for name, values in known.items() if all(_is_overlap(one, makers, name) for one in values)}
        for value, name, line in _losses(function):
            for term, sign in terms(value):
                found = _overlap_in(term, overlaps, makers)
                if found is not None and sign > 0:
                    yield "sign", f"{name} grows with {ast.unparse(found)}, the share in which both agree", line


def _losses(function: Function) -> Iterator[tuple[ast.expr, str, int]]:
    """Yield values that are losses: those of that name, and a sum that is returned and holds one."""
    for node in walked(function):
        if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and _is_cost(node.target):
            yield node.value, ast.unparse(node.target), node.lineno
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and _is_cost(node.targets[0]):
            yield node.value, ast.unparse(node.targets[0]), node.lineno
        elif isinstance(node, ast.Return) and node.value is not None:
            parts = [part for part, _ in terms(node.value)]
            calls = [one for part in parts for one in walked(part) if isinstance(one, ast.Call)]
            if len(parts) > 1 and any(words_in(one.func) & _FITS for one in calls):
                yield node.value, f"the value of {function.name}", node.lineno


def _is_cost(node: ast.expr) -> bool:
    return isinstance(node, ast.Name | ast.Attribute) and bool(words_in(node) & {"loss", "objective", "cost"})


def _overlap_in(term: ast.expr, overlaps: set[str], makers: set[str]) -> ast.expr | None:
    """Return the share of agreement that a term is, alone or weighed by a factor."""
    term = inner(term)
    if isinstance(term, ast.BinOp) and isinstance(term.op, ast.Mult):
        found = [_overlap_in(side, overlaps, makers) for side in (term.left, term.right)]
        return next((one for one in found if one is not None), None)
    if isinstance(term, ast.Name):
        return term if term.id in overlaps else None
    return term if _is_overlap(term, makers) else None


def _returns_overlap(function: Function) -> bool:
    """Return whether all that a function returns is a share of agreement, and its name calls it no loss."""
    known = {name: value for name, value, _ in assignments(function)}
    values = [one.value for one in walked(function) if isinstance(one, ast.Return) and one.value is not None]
    found = [inner(one) for one in values]
    found = [known.get(one.id, one) if isinstance(one, ast.Name) else one for one in found]
    return bool(found) and not words_of(function.name) & _COSTS and all(_is_overlap(one, set()) for one in found)


def _is_overlap(node: ast.expr, makers: set[str], name: str = "") -> bool:
    """Return whether a value is an intersection over something, or a call of a function that returns one.

    Args:
        name: What it is called, which may tell as well as the names inside of it.
    """
    node = inner(node)
    if isinstance(node, ast.Call):
        return called(node) in makers and isinstance(node.func, ast.Name)
    is_share = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
    is_named = bool(words_of(name) & _SHARES) and not words_of(name) & _COSTS
    if not is_share or not isinstance(node, ast.BinOp) or not _has_sum(node.right):
        return False
    return _counts_both(node.left) or (is_named and all(sign > 0 for _, sign in terms(node.left)))


def _counts_both(node: ast.expr) -> bool:
    """Return whether a value adds up where both agree, without anything that is taken off."""
    signs = [sign for part, sign in terms(node) if words_in(part) & _BOTH]
    return bool(signs) and all(sign > 0 for sign in signs)


def _has_sum(node: ast.expr) -> bool:
    """Return whether a value holds a sum, as the size of both together does."""
    sums = [one for one in walked(node) if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Add)]
    return bool(sums) or bool(words_in(node) & {"union", "cardinality", "denominator", "denom"})


def _is_swapped(node: ast.BinOp, *, is_raised: bool) -> bool:
    """Return whether a difference that is raised, or lowered, has its sides the wrong way round."""
    plus, minus = (node.left, node.right) if is_raised else (node.right, node.left)
    first, second = words_in(plus), words_in(minus)
    is_distance = bool((first | second) & _DISTANCE)
    is_reversed = bool(first & _NEGATIVE) and bool(second & _POSITIVE)
    return is_reversed and not first & _POSITIVE and not second & _NEGATIVE and not is_distance


def _mode(call: ast.Call) -> str:
    """Return the mode that the schedule is given, by name or behind the optimizer; `min` is that of one without."""
    named = [one.value for one in call.keywords if one.arg == "mode"]
    is_hidden = any(one.arg is None for one in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args)
    given = named or call.args[1:2]
    return "" if is_hidden else ast.unparse(given[0]) if given else "'min'"


def _easy_ones_first(tree: ast.AST) -> Iterator[Found]:
    """A focal loss weighs by (1 - p) ** gamma, so what is known well counts little (arXiv:1708.02002, equation 4)."""
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        for part in factors(node)[0]:
            base = _raised(part)
            if words_of(name_of(base)) in _TRUE_CHANCE:
                yield (
                    "formula",
                    f"{ast.unparse(part)} weighs most what is known well; a focal loss raises 1 - pt",
                    node.lineno,
                )
                break


def _raised(node: ast.expr) -> ast.expr | None:
    """Return what is raised to a power named as that of a focal loss."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, power = node.left, node.right
    elif isinstance(node, ast.Call) and called(node) == "pow" and operand(node, 1) is not None:
        base, power = operand(node) or node, operand(node, 1) or node
    else:
        return None
    return base if words_in(power) & {"gamma", "focal"} else None


def _one_temperature(tree: ast.AST) -> Iterator[Found]:
    """Teacher and student are softened by one temperature (Hinton et al. 2015, arXiv:1503.02531, section 2)."""
    known = {name: value for name, value, _ in assignments(tree)}
    for call in calls_in(tree, "kl_div"):
        if len(call.args) < 2:
            continue
        sides = [known.get(name_of(one), one) for one in call.args[:2]]
        if not all(next(calls_in(side, "softmax", "log_softmax"), None) for side in sides):
            continue
        softened = [_divisors(side) for side in sides]
        hot = softened[0] or softened[1]
        other = sides[1] if softened[0] else sides[0]
        inside = known.get(name_of(operand(next(calls_in(other, "softmax", "log_softmax")))))
        if softened.count(set()) == 1 and hot and not (inside is not None and hot & words_in(inside)):
            words = f"{ast.unparse(call)} divides one side by {sorted(hot)[0]} and the other by nothing"
            yield "formula", words, call.lineno


def _divisors(node: ast.expr) -> set[str]:
    """Return the words of the temperatures that something in an expression is divided by."""
    found = set[str]()
    for one in walked(node):
        if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Div):
            found |= words_in(one.right) & {"t", "temp", "temperature", "tau"}
    return found


def _term_twice(tree: ast.AST) -> Iterator[Found]:
    """A loss of two directions asks both: the same call added to itself asks one of them twice."""
    makers = {name for name, value, _ in assignments(tree) if called(value).endswith("Loss")}
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            continue
        is_loss = called(node.left) in {"cross_entropy", "binary_cross_entropy", "kl_div", "mse_loss", *makers}
        draws = isinstance(node.left, ast.Call) and any(isinstance(one, ast.Call) for one in walked(node.left)[1:])
        if is_loss and not draws and ast.dump(node.left) == ast.dump(node.right):
            yield "formula", f"{ast.unparse(node)} adds one term to itself", node.lineno


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _preference,
    _rebound,
    _plateau,
    _agreement,
    _easy_ones_first,
    _one_temperature,
    _term_twice,
)
