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
_BEST: Final = frozenset({"top", "topk", "best", "recommended", "recs"})
_RISING_SCORES: Final = frozenset({"score", "scores", "sim", "sims", "similarity", "logits", "probs"})
_SINGLE: Final = {"BCEWithLogitsLoss", "binary_cross_entropy_with_logits"}
_COMPETING: Final = {"cross_entropy", "CrossEntropyLoss", "nll_loss", "NLLLoss", "kl_div", "KLDivLoss"}
_LOG10: Final = ("log10", "log10_")
_BITS: Final = frozenset({"bits", "bit", "bpc", "bpd", "bpb", "bpt"})
_APART: Final = frozenset({"pairwise", "distance", "distances", "dists", "pdist"})
_NEAREST: Final = frozenset({"argmin", "argmax"})
_DIAGONAL: Final = frozenset({"diagonal", "diag", "eye", "identity", "inf", "self", "itself", "same", "exclude"})


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


def _rank_of_nothing(tree: ast.AST) -> Iterator[Found]:
    """The gain at the first place is divided by log2(2): places count from 1 (Jaervelin and Kekaelaeinen 2002)."""
    from_zero = {name_of(one) for node in walked(tree) for one in _counts_from_zero(node)}
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
            continue
        for call in calls_in(node.right, "log2"):
            given = operand(call)
            is_next = isinstance(given, ast.BinOp) and isinstance(given.op, ast.Add) and ast.unparse(given.right) == "1"
            place = given.left if is_next and isinstance(given, ast.BinOp) else None
            is_range = isinstance(place, ast.Call) and called(place) == "arange" and len(place.args) == 1
            if is_range or (isinstance(place, ast.Name) and place.id in from_zero):
                yield "formula", f"{ast.unparse(call)} is zero at the first place, which divides by it", node.lineno


def _counts_from_zero(node: ast.AST) -> list[ast.expr]:
    """Return the variables that `range(n)` and `enumerate(x)` count from zero."""
    if not isinstance(node, ast.For | ast.comprehension) or not isinstance(node.iter, ast.Call):
        return []
    if called(node.iter) == "enumerate" and len(node.iter.args) == 1 and not node.iter.keywords:
        return node.target.elts[:1] if isinstance(node.target, ast.Tuple) else []
    return [node.target] if called(node.iter) == "range" and len(node.iter.args) == 1 else []


def _worst_for_best(tree: ast.AST) -> Iterator[Found]:
    """`argsort` begins with the smallest, so the first of it are no best scores."""
    for name, value, line in assignments(tree):
        if not isinstance(value, ast.Subscript) or called(value.value) != "argsort" or not words_of(name) & _BEST:
            continue
        call, cut = value.value, value.slice
        last = cut.elts[-1] if isinstance(cut, ast.Tuple) and cut.elts else cut
        is_first = isinstance(last, ast.Slice) and last.lower is None and last.upper is not None and last.step is None
        given = operand(call) if isinstance(call, ast.Call) else None
        is_turned = given is None or "descending" in ast.unparse(call) or "-" in ast.unparse(given)
        if (
            is_first
            and not is_turned
            and words_in(given) & _RISING_SCORES
            and not words_in(given) & {"dist", "dists", "rank"}
        ):
            yield "formula", f"{name} = {ast.unparse(value)} takes the lowest scores", line


def _competing_labels(tree: ast.AST) -> Iterator[Found]:
    """Labels that are trained each by its own cross-entropy do not compete: their chance is a sigmoid."""
    calls = {called(one) for one in walked(tree) if isinstance(one, ast.Call)}
    if not calls & _SINGLE or calls & _COMPETING:
        return
    for call in calls_in(tree, "softmax"):
        given = operand(call)
        asked = (
            words_of(called(given)) & {"model", "net", "network", "classifier"}
            if isinstance(given, ast.Call)
            else set()
        )
        if asked:
            words = f"{ast.unparse(call)} lets labels compete that the loss, a binary cross-entropy, trains apart"
            yield "formula", words, call.lineno


def _beyond_half_the_rate(tree: ast.AST) -> Iterator[Found]:
    """The n / 2 + 1 bins of a real transform reach from 0 to half the sampling rate (Shannon 1949)."""
    for call in calls_in(tree, "linspace"):
        given = [operand(call, number) for number in range(3)]
        is_bins = given[2] is not None and ast.unparse(given[2]).replace(" ", "").endswith("//2+1")
        if is_bins and words_of(name_of(given[1])) & {"rate", "sr", "fs"}:
            yield (
                "formula",
                f"{ast.unparse(call)} spreads the bins to the whole sampling rate: they end at half of it",
                call.lineno,
            )


def _bits_of_nats(tree: ast.AST) -> Iterator[Found]:
    """Nats become bits when they are divided by log(2) (Shannon 1948, section 1)."""
    named = list(assignments(tree))
    for function in functions_in(tree):
        returned = [one for one in walked(function) if isinstance(one, ast.Return)]
        named += [(function.name, one.value, one.lineno) for one in returned if one.value is not None]
    for name, value, line in named:
        node = value.args[0] if isinstance(value, ast.Call) and called(value) == "float" and value.args else value
        if not words_of(name) & _BITS or not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
            continue
        if any(_is_log_of_two(side) for side in (node.left, node.right)):
            yield "formula", f"{name} is {ast.unparse(value)}: nats are divided by log(2), and not multiplied", line


def _is_log_of_two(node: ast.expr) -> bool:
    given = operand(node) if isinstance(node, ast.Call) and called(node) == "log" else None
    return given is not None and ast.unparse(given) in ("2", "2.0", "torch.tensor(2.0)", "torch.tensor(2)")


def _nearest_is_itself(tree: ast.AST) -> Iterator[Found]:
    """The nearest of the same set is each sample itself, unless it is left out."""
    for function in functions_in(tree):
        if words_in(function) & _DIAGONAL or words_of(function.name) & {"self"}:
            continue
        known = {name: value for name, value, _ in assignments(function)}
        for call in calls_in(function, *_NEAREST):
            given = operand(call)
            given = known.get(given.id, given) if isinstance(given, ast.Name) else given
            twice = _distances_to_itself(given) if called(call) == "argmin" else _likenesses_to_itself(given)
            if twice:
                words = f"{ast.unparse(call)} over {ast.unparse(given or call)} finds each of {twice} itself"
                yield "formula", words, call.lineno


def _distances_to_itself(node: ast.expr | None) -> str:
    """Return `x` of `cdist(x, x)` and of `pairwise_distance(x)`; empty of anything else."""
    if isinstance(node, ast.Call) and words_of(called(node)) & _APART and len(node.args) == 1 and not node.keywords:
        return ast.unparse(node.args[0]) if isinstance(node.func, ast.Name) else ""
    if isinstance(node, ast.Call) and called(node) == "cdist" and len(node.args) > 1:
        first, second = map(ast.unparse, node.args[:2])
        return first if first == second else ""
    return ""


def _likenesses_to_itself(node: ast.expr | None) -> str:
    """Return `x` of `x @ x.T`; empty of anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
        first, second = ast.unparse(node.left), ast.unparse(node.right)
        return first if second in (f"{first}.T", f"{first}.t()", f"{first}.mT") else ""
    return ""


def _means_by_elements(tree: ast.AST) -> Iterator[Found]:
    """A mean over all is the sum of the batches' sums over their elements, or of their means over the batches."""
    for function in functions_in(tree):
        added = [one for one in walked(function) if isinstance(one, ast.AugAssign) and isinstance(one.op, ast.Add)]
        means = {name_of(one.target) for one in added if _is_mean(one.value)} - {""}
        counts = {name_of(one.target) for one in added if _is_count(one.value)} - {""}
        several = [one for one in added if name_of(one.target) in means and not _is_mean(one.value)]
        for node in walked(function) if means and counts and not several else ():
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div):
                continue
            if name_of(node.left) in means and name_of(node.right) in counts:
                words = f"{ast.unparse(node)} divides means of batches by the number of elements"
                yield "formula", words, node.lineno


def _is_mean(node: ast.expr) -> bool:
    """Return whether a value is the mean over a batch, as a number: `(a - b).abs().mean().item()`."""
    while isinstance(node, ast.Call) and called(node) in ("item", "float", "detach", "cpu"):
        given = operand(node)
        if given is None:
            return False
        node = given
    return isinstance(node, ast.Call) and called(node) == "mean" and not node.args and not node.keywords


def _is_count(node: ast.expr) -> bool:
    """Return whether a value is the number of the elements or samples of a batch, which is more than one."""
    text = ast.unparse(node)
    return (
        (isinstance(node, ast.Call) and called(node) in ("numel", "len"))
        or text[-9:] == ".shape[0]"
        or text[-8:] == ".size(0)"
    )


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _decibels,
    _variance_in_an_interval,
    _threshold_of_a_probability,
    _rank_of_nothing,
    _worst_for_best,
    _competing_labels,
    _beyond_half_the_rate,
    _bits_of_nats,
    _nearest_is_itself,
    _means_by_elements,
)
