"""Expressions of a program that do the opposite of what their names say, as its text shows.

Names that programmers choose tell what a value is, and a swapped operand can be seen from them (Pradel and Sen 2018,
"DeepBugs", arXiv:1805.11683).
"""

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Final, Literal

from ..check_result import CheckResult, broken, held
from .bindings import Function, called, trees_of
from .expressions import assignments, calls_in, find, inner, is_difference, operand, terms, words_in
from .names import words_of

#: `sign`: a step makes worse what it should make better. `formula`: a value is not what its name says.
Sort = Literal["sign", "formula"]

SIGNS, FORMULAS = "losses_fit_their_names", "values_fit_their_names"
_CLAIMS: Final[Mapping[str, tuple[Sort, str]]] = {
    SIGNS: ("sign", "the program's losses lower what their names call bad, and raise what they call good"),
    FORMULAS: ("formula", "the program computes what it names by the formula of that name"),
}
_MOST_TOLD: Final = 3
_OLD: Final = frozenset({"old", "behavior", "behaviour", "prev"})
_LOG: Final = frozenset({"log", "logp", "logprob", "logprobs", "logps", "lp", "logpi", "prob", "probs"})
_POSITIVE: Final = frozenset({"pos", "positive", "positives", "chosen", "win", "winner", "preferred"})
_NEGATIVE: Final = frozenset({"neg", "negative", "negatives", "rejected", "lose", "loser", "dispreferred"})
_DISTANCE: Final = frozenset({"d", "dist", "distance", "distances", "dists", "cost"})
_VARIANCE: Final = frozenset({"logvar", "lv", "logvariance"})
_NOISE: Final = frozenset({"eps", "epsilon", "noise", "randn", "normal", "z"})
_JUDGE: Final = frozenset({"d", "disc", "discriminator", "critic"})
_MAKER: Final = frozenset({"g", "gen", "generator"})
_FAKE: Final = frozenset({"fake", "fakes", "generated", "gen"})
_REAL: Final = frozenset({"real", "reals", "true"})
_DISCOUNTS: Final = frozenset({"gamma", "discount", "lam"})
_COSTS: Final = frozenset({"loss", "losses", "err", "error", "mae", "mse", "rmse", "nll", "ppl", "perplexity"})
_GAINS: Final = frozenset({"acc", "accuracy", "f1", "auc", "iou", "score", "reward", "return", "psnr", "recall", "map"})
_RUNNING: Final = frozenset({"trace", "traces", "eligibility", "rms", "normalizer"})


@dataclass(frozen=True, slots=True)
class Contradiction:
    """An expression that does not fit its names.

    Args:
        words: What it does, and what its names ask for.
        file, line: Where it stands.
    """

    sort: Sort
    words: str
    file: str
    line: int

    @property
    def place(self) -> str:
        """File and line."""
        return f"{Path(self.file).name}:{self.line}"


_Found = tuple[Sort, str, int]


def expressions_fit_their_names(sources: Mapping[str, str]) -> Iterator[CheckResult]:
    """Yield, of losses and of other values, whether their expressions fit their names."""
    found = contradictions(sources)
    for check, (sort, claim) in _CLAIMS.items():
        mine = [one for one in found if one.sort == sort]
        words = "; ".join(f"{one.place}: {one.words}" for one in mine[:_MOST_TOLD])
        yield broken(check, claim, words, subject=mine[0].place) if mine else held(check, claim)


def contradictions(sources: Mapping[str, str]) -> list[Contradiction]:
    """Return the expressions of a program that contradict their names.

    Args:
        sources: The texts of the program's own files, by path; a text that cannot be parsed is left out.
    """
    found: list[Contradiction] = []
    for path, tree in trees_of(sources).items():
        for pattern in _PATTERNS:
            found += [Contradiction(sort, words, path, line) for sort, words, line in pattern(tree)]
    return sorted(found, key=lambda one: (one.file, one.line))


def _ratio(tree: ast.AST) -> Iterator[_Found]:
    """A policy's ratio is the new probability over the old one (Schulman et al. 2017, arXiv:1707.06347, section 2)."""
    for name, value, line in assignments(tree):
        inside = [operand(call) for call in calls_in(value, "exp")]
        differences = [one for one in [inner(value), *(inner(one) for one in inside if one)] if is_difference(one)]
        is_ratio = "ratio" in words_of(name) or "ratios" in words_of(name)
        for one in differences:
            if not isinstance(one, ast.BinOp) or not is_ratio:
                continue
            left, right = words_in(one.left), words_in(one.right)
            if left & _OLD and not right & _OLD and left & _LOG and right & _LOG:
                yield "sign", f"{name} is made of {ast.unparse(one)}: the old probability over the new one", line


def _surrogate(tree: ast.AST) -> Iterator[_Found]:
    """The smaller surrogate is raised (Schulman et al. 2017, arXiv:1707.06347, equation 7)."""
    known = {name: value for name, value, _ in assignments(tree)}
    for name, value, line in assignments(tree):
        for term, sign in terms(value):
            is_larger = isinstance(term, ast.Call) and next(calls_in(term, "max", "maximum"), None) is term
            if sign < 0 and is_larger and _words_through(term, known) & {"surr", "surr1", "ratio", "unclipped"}:
                yield "formula", f"{name} raises the larger surrogate: {ast.unparse(term)}", line


def _words_through(node: ast.expr, known: Mapping[str, ast.expr]) -> set[str]:
    """Return the words of an expression, and of what its names were given."""
    names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
    return words_in(node).union(*(words_in(known[name]) for name in names if name in known))


def _twin_maximum(tree: ast.AST) -> Iterator[_Found]:
    """The target of twin critics is the smaller value (Fujimoto et al. 2018, arXiv:1802.09477, equation 10)."""
    for name, value, line in assignments(tree):
        for call in calls_in(value, "max", "maximum"):
            first, second = operand(call), operand(call, 1)
            if isinstance(first, ast.Name) and isinstance(second, ast.Name):
                one, two = first.id, second.id
                is_twin = one != two and one.translate(_DIGITS) == two.translate(_DIGITS) and one.startswith("q")
                if is_twin:
                    yield "formula", f"{name} takes the larger of two critics: {ast.unparse(call)}", line


def _forward_discount(tree: ast.AST) -> Iterator[_Found]:
    """Returns and advantages are summed from the end (Schulman et al. 2016, arXiv:1506.02438, equation 16)."""
    for loop in ast.walk(tree):
        if not isinstance(loop, ast.For) or _is_backwards(loop):
            continue
        kept = {one.id for call in calls_in(loop, "append") for one in ast.walk(call) if isinstance(one, ast.Name)}
        for node in loop.body:
            name = node.targets[0].id if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) else ""
            stored = {one.id for other in loop.body for one in _stored(other)}
            if not isinstance(node, ast.Assign) or name not in kept | stored or words_of(name) & _RUNNING:
                continue
            if _is_discounted(node.value, name):
                words = f"{name} = {ast.unparse(node.value)} runs forward in time: it discounts the past"
                yield "formula", words, node.lineno


def _preference(tree: ast.AST) -> Iterator[_Found]:
    """What is preferred is raised (Rendle et al. 2009, arXiv:1205.2618; Rafailov et al. 2023, arXiv:2305.18290)."""
    for name, value, line in assignments(tree):
        for term, sign in terms(value):
            call = next(calls_in(term, "logsigmoid", "softplus"), None)
            given = inner(call.args[0]) if call is not None and call.args else None
            if call is None or given is None or sign * (-1 if "logsigmoid" in ast.unparse(call.func) else 1) < 0:
                continue
            is_raised = "logsigmoid" in ast.unparse(call.func)
            for one in ast.walk(given):
                if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub) and _is_swapped(one, is_raised=is_raised):
                    yield "sign", f"{name} falls as {ast.unparse(one)} rises", line


def _deviation(tree: ast.AST) -> Iterator[_Found]:
    """A standard deviation is exp(0.5 logvar) (Kingma and Welling 2014, arXiv:1312.6114, appendix B)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if _is_noise(other) and (_is_exp_of_variance(one) or _is_variance(one)):
                    words = (
                        f"{ast.unparse(node)} scales the noise by a variance or its logarithm: half of it is missing"
                    )
                    yield "formula", words, node.lineno
    for name, value, line in assignments(tree):
        if words_of(name) & {"std", "sigma", "stddev"} and _is_exp_of_variance(value):
            yield "formula", f"{name} = {ast.unparse(value)} is the variance", line


def _judge(tree: ast.AST) -> Iterator[_Found]:
    """A discriminator is told that data are real, and a generator wants to be taken for data (arXiv:1406.2661)."""
    for name, value, line in assignments(tree):
        words = words_of(name)
        if "loss" not in words and "loss" not in name:
            continue
        is_maker = bool(words & _MAKER) and not words & _JUDGE
        for term, sign in terms(value):
            told = _told(term)
            if told is None or sign < 0:
                continue
            is_fake, is_one = told
            wrong_for_judge = bool(words & (_JUDGE | _REAL | _FAKE)) and not is_maker and is_fake == is_one
            if wrong_for_judge or (is_maker and is_fake and not is_one):
                yield "sign", f"{name} teaches the opposite: {ast.unparse(term)}", line


def _hinge(tree: ast.AST) -> Iterator[_Found]:
    """A critic's hinge lifts data above 1 and what is generated below -1 (Lim and Ye 2017, arXiv:1705.02894)."""
    for name, value, line in assignments(tree):
        if not words_of(name) & (_JUDGE | _REAL | _FAKE) or "loss" not in name:
            continue
        for call in calls_in(value, "relu"):
            given = call.args[0] if call.args else None
            if not isinstance(given, ast.BinOp) or not isinstance(given.left, ast.Constant):
                continue
            words, is_sum = words_in(given.right), isinstance(given.op, ast.Add)
            if (words & _REAL and not words & _FAKE and is_sum) or (words & _FAKE and not words & _REAL and not is_sum):
                yield "sign", f"{name} holds {ast.unparse(call)}, which pushes the score the wrong way", line


def _attention_scale(tree: ast.AST) -> Iterator[_Found]:
    """Scores of attention are divided by the root of their width (Vaswani et al. 2017, arXiv:1706.03762, eq. 1)."""
    for name, value, line in assignments(tree):
        for node in ast.walk(value):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and _is_product(node.left):
                root = next(calls_in(node.right, "sqrt"), None)
                if root is not None and root is node.right and not words_of(name) & {"emb", "embed", "embedded"}:
                    yield "formula", f"{name} multiplies scores by {ast.unparse(root)} instead of dividing", line


def _noising(tree: ast.AST) -> Iterator[_Found]:
    """Signal and noise are weighed by sqrt(a) and sqrt(1 - a) (Ho et al. 2020, arXiv:2006.11239, equation 4)."""
    for function in ast.walk(tree):
        if not isinstance(function, Function):
            continue
        known = {name: value for name, value, _ in assignments(function)}
        for node in ast.walk(function):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
                continue
            weights = [_weight(one, known) for one in (node.left, node.right)]
            noisy = [bool(words_in(one) & {"noise", "eps", "epsilon"}) for one in (node.left, node.right)]
            if None in weights or noisy.count(True) != 1:
                continue
            signal, noise = (weights[noisy.index(False)], weights[noisy.index(True)])
            if signal is not None and noise is not None and _is_not_preserved(*signal, *noise):
                yield "formula", f"the root of one weight is missing in {ast.unparse(node)}", node.lineno


def _self_messages(tree: ast.AST) -> Iterator[_Found]:
    """Messages that are taken from nodes go to their neighbours, and not back to the same nodes."""
    for function in ast.walk(tree):
        known = {name: value for name, value, _ in assignments(function)} if isinstance(function, Function) else {}
        for call in calls_in(function, "index_add_", "index_add", "scatter_add_", "scatter_add") if known else ():
            if len(call.args) < 3:
                continue
            index, message = call.args[1], call.args[2]
            message = known.get(message.id, message) if isinstance(message, ast.Name) else message
            taken = [one for one in ast.walk(message) if isinstance(one, ast.Subscript)]
            if isinstance(index, ast.Name) and taken and all(_is_name(one.slice, index.id) for one in taken):
                words = f"what is taken from {index.id} is added to {index.id} again: {ast.unparse(call)}"
                yield "formula", words, call.lineno


def _rebound(tree: ast.AST) -> Iterator[_Found]:
    """A variable of a loop over parameters is given another value, which changes no parameter."""
    for loop in ast.walk(tree):
        if not isinstance(loop, ast.For) or not next(
            calls_in(loop.iter, "parameters", "buffers", "named_parameters"), None
        ):
            continue
        targets = {one.id for one in ast.walk(loop.target) if isinstance(one, ast.Name)}
        for node in loop.body:
            name = node.targets[0].id if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) else ""
            later = loop.body[loop.body.index(node) + 1 :]
            is_read = any(_is_name(one, name) for statement in later for one in ast.walk(statement))
            if isinstance(node, ast.Assign) and name in targets and not is_read and isinstance(node.value, ast.BinOp):
                words = f"{name} = {ast.unparse(node.value)} gives the loop's variable another value, and no parameter"
                yield "formula", words, node.lineno


def _plateau(tree: ast.AST) -> Iterator[_Found]:
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
        words = _words_through(call.args[0], known)
        is_cost, is_gain = bool(words & _COSTS), bool(words & _GAINS)
        if is_cost != is_gain and is_cost == (mode == "'max'"):
            yield "formula", f"the schedule has mode={mode} and is given {ast.unparse(call.args[0])}", call.lineno


def _mode(call: ast.Call) -> str:
    """Return the mode that the schedule is given, by name or behind the optimizer; `min` is that of one without."""
    named = [one.value for one in call.keywords if one.arg == "mode"]
    is_hidden = any(one.arg is None for one in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args)
    given = named or call.args[1:2]
    return "" if is_hidden else ast.unparse(given[0]) if given else "'min'"


def _weight(node: ast.expr, known: Mapping[str, ast.expr]) -> tuple[str, bool] | None:
    """Return what a product weighs its other factor by, and whether its root is taken; None if it is no product."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return None
    factor = inner(node.left)
    factor = inner(known[factor.id]) if isinstance(factor, ast.Name) and factor.id in known else factor
    if isinstance(factor, ast.Call) and called(factor) == "sqrt":
        given = operand(factor)
        return None if given is None else (ast.unparse(inner(given)), True)
    is_root = isinstance(factor, ast.BinOp) and isinstance(factor.op, ast.Pow) and ast.unparse(factor.right) == "0.5"
    inside = factor.left if is_root and isinstance(factor, ast.BinOp) else factor
    return ast.unparse(inner(inside)), is_root


def _is_not_preserved(signal: str, is_root: bool, noise: str, is_noise_root: bool) -> bool:
    """Return whether weights a and 1 - a of signal and noise have a root on one of them only."""
    is_pair = noise.replace("1.0", "1") == f"1 - {signal}" or signal.replace("1.0", "1") == f"1 - {noise}"
    return is_pair and is_root != is_noise_root


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _twin_call(tree: ast.AST) -> Iterator[_Found]:
    """Of two twins, the second statement asks the first one again."""
    known = {one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute)}
    known |= {one.id for one in ast.walk(tree) if isinstance(one, ast.Name)}
    for block in _blocks(tree):
        for first, second in pairwise(block):
            if _is_assignment_of_call(first) and _is_assignment_of_call(second):
                yield from _asked_again(first, second, known)


def _asked_again(first: ast.stmt, second: ast.stmt, known: set[str]) -> Iterator[_Found]:
    if not isinstance(first, ast.Assign) or not isinstance(second, ast.Assign):
        return
    one, two = ast.unparse(first.targets[0]), ast.unparse(second.targets[0])
    function = ast.unparse(second.value.func) if isinstance(second.value, ast.Call) else ""
    if (
        one == two
        or one.translate(_DIGITS) != two.translate(_DIGITS)
        or ast.dump(first.value) != ast.dump(second.value)
    ):
        return
    old, new = _digit_of(one), _digit_of(two)
    last = function.rpartition(".")[2]
    twin = last.replace(old, new) if old else last
    if old and new and twin != last and twin in known:
        yield "formula", f"{two} = {ast.unparse(second.value)} asks {last} again, and not {twin}", second.lineno


#: Removes the numbers of twins from their names.
_DIGITS: Final = str.maketrans("", "", "0123456789")
_PATTERNS: Final[tuple[Callable[[ast.AST], Iterator[_Found]], ...]] = (
    _ratio, _surrogate, _twin_maximum, _forward_discount, _preference, _deviation, _judge, _hinge, _attention_scale,
    _twin_call, _noising, _self_messages, _rebound, _plateau,
)  # fmt: skip


def _is_backwards(loop: ast.For) -> bool:
    words = ast.unparse(loop.iter)
    return "reversed" in words or "-1" in words or "flip" in words or "[::" in words


def _stored(node: ast.stmt) -> Iterator[ast.Name]:
    """Yield the names that a statement stores into an element of something."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript):
        yield from (one for one in ast.walk(node.value) if isinstance(one, ast.Name))


def _is_discounted(value: ast.expr, name: str) -> bool:
    """Return whether a value holds its own earlier one, times a discount."""

    def is_product(node: ast.AST) -> bool:
        is_times = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        return is_times and name in names and bool(words_in(node) & _DISCOUNTS)

    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add) and find(value, is_product)


def _is_swapped(node: ast.BinOp, *, is_raised: bool) -> bool:
    """Return whether a difference that is raised, or lowered, has its sides the wrong way round."""
    plus, minus = (node.left, node.right) if is_raised else (node.right, node.left)
    first, second = words_in(plus), words_in(minus)
    is_distance = bool((first | second) & _DISTANCE)
    is_reversed = bool(first & _NEGATIVE) and bool(second & _POSITIVE)
    return is_reversed and not first & _POSITIVE and not second & _NEGATIVE and not is_distance


def _is_variance(node: ast.expr) -> bool:
    is_name = isinstance(node, ast.Name | ast.Attribute)
    words = words_in(node)
    return is_name and bool(words & _VARIANCE or {"log", "var"} <= words)


def _is_exp_of_variance(node: ast.expr) -> bool:
    given = operand(node) if isinstance(node, ast.Call) and next(calls_in(node, "exp"), None) is node else None
    return given is not None and _is_variance(given)


def _is_noise(node: ast.expr) -> bool:
    return bool(words_in(node) & _NOISE) and not words_in(node) & {"logvar", "var"}


def _told(term: ast.expr) -> tuple[bool, bool] | None:
    """Return whether a loss judges what was generated, and whether it is told that this is real; None otherwise."""
    if not isinstance(term, ast.Call) or len(term.args) < 2 or not _is_criterion(term):
        return None
    scored, target = words_in(term.args[0]), words_in(term.args[1])
    calls = {one for one in ("ones", "ones_like", "zeros", "zeros_like") if next(calls_in(term.args[1], one), None)}
    is_one = bool(calls & {"ones", "ones_like"}) or (not calls and bool(target & {"ones", "real", "valid"}))
    is_zero = bool(calls & {"zeros", "zeros_like"}) or (not calls and bool(target & {"zeros", "fake"}))
    is_fake, is_real = bool(scored & _FAKE), bool(scored & _REAL)
    return (is_fake, is_one) if is_fake != is_real and is_one != is_zero else None


def _is_criterion(call: ast.Call) -> bool:
    name = ast.unparse(call.func).lower()
    return any(part in name for part in ("bce", "binary_cross", "criterion", "mse", "loss"))


def _is_product(node: ast.expr) -> bool:
    is_written = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
    return is_written or (isinstance(node, ast.Call) and bool({"matmul", "bmm", "einsum"} & {_last(node)}))


def _last(node: ast.Call) -> str:
    return ast.unparse(node.func).rpartition(".")[2]


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            yield body


def _is_assignment_of_call(node: ast.stmt) -> bool:
    return isinstance(node, ast.Assign) and isinstance(node.value, ast.Call) and len(node.targets) == 1


def _digit_of(name: str) -> str:
    digits = [one for one in name if one.isdigit()]
    return digits[0] if len(digits) == 1 else ""
