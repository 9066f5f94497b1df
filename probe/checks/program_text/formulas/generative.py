"""Formulas of generative models: deviations and their noise, judges and makers, noising."""

import ast
import copy
import re
from collections.abc import Iterator, Mapping
from typing import Final

from ..bindings import called, functions_in
from ..expressions import (
    assignments,
    calls_in,
    factors,
    inner,
    is_difference,
    name_of,
    operand,
    rest_of_one,
    terms,
    words_in,
)
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

_VARIANCE: Final = frozenset({"logvar", "lv", "logvariance"})
_NOISE: Final = frozenset({"eps", "epsilon", "noise", "randn", "normal", "z"})
_JUDGE: Final = frozenset({"d", "disc", "discriminator", "critic"})
_MAKER: Final = frozenset({"g", "gen", "generator"})
_FAKE: Final = frozenset({"fake", "fakes", "generated", "gen"})
_REAL: Final = frozenset({"real", "reals", "true"})
#: Assignments that are followed from a cumulative product on, and a word of a program's text.
_HOPS: Final = 3
#: Arguments of a norm that has its order and its axes.
_WITH_AXIS: Final = 2
_DIVERGENCES: Final = ("kl", "kld", "kl_div", "kl_loss", "kld_loss")
_DECODERS: Final = ("dec", "decode", "decoder")
_DRAWING: Final = ("reparameterize", "reparametrize", "reparameterise", "reparametrise", "rsample")
_NAME: Final = re.compile(r"\w+")
_ERRORS: Final = frozenset({"recon", "rec", "reconstruction", "mse", "bce", "nll"})


def _deviation(tree: ast.AST) -> Iterator[Found]:
    """A standard deviation is exp(0.5 logvar) (Kingma and Welling 2014, arXiv:1312.6114, appendix B)."""
    for node in walked(tree):
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


def _twice_averaged(tree: ast.AST) -> Iterator[Found]:
    """A divergence is a sum over the code and a mean over the batch (arXiv:1312.6114, appendix B), averaged once."""
    for name, value, line in assignments(tree):
        for node in walked(value):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or not _is_batch_size(node.right):
                continue
            means = [call for call in calls_in(node.left, "mean") if _is_of_everything(call)]
            inside = words_in(node.left)
            is_of_variances = bool(inside & _VARIANCE or {"log", "var"} <= inside)
            if means and is_of_variances and next(calls_in(node.left, "exp"), None) is not None:
                words = f"{name} divides a mean over everything by {ast.unparse(node.right)} once more"
                yield "formula", words, line


def _is_batch_size(node: ast.expr) -> bool:
    """Return whether an expression is the number of samples: `x.size(0)`, `x.shape[0]`, `len(x)`, `batch_size`."""
    if isinstance(node, ast.Call):
        is_first = [ast.unparse(one) for one in node.args] == ["0"]
        return (called(node) == "size" and is_first) or called(node) == "len"
    if isinstance(node, ast.Subscript):
        return ast.unparse(node).endswith(".shape[0]")
    return isinstance(node, ast.Name | ast.Attribute) and {"batch", "size"} <= words_in(node)


def _is_of_everything(call: ast.Call) -> bool:
    """Return whether a mean is over all axes."""
    given = len(call.args) - (operand(call) in call.args)
    return not given and not call.keywords


def _judge(tree: ast.AST) -> Iterator[Found]:
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


def _hinge(tree: ast.AST) -> Iterator[Found]:
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


def _noising(tree: ast.AST) -> Iterator[Found]:
    """Signal and noise are weighed by sqrt(a) and sqrt(1 - a) (Ho et al. 2020, arXiv:2006.11239, equation 4)."""
    for function in functions_in(tree):
        known = {name: value for name, value, _ in assignments(function)}
        for node in walked(function):
            if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
                continue
            noisy = [bool(words_in(one) & {"noise", "eps", "epsilon"}) for one in (node.left, node.right)]
            if noisy.count(True) != 1:
                continue
            weights = [_weight(one, known) for one in (node.left, node.right)]
            signal, noise = (weights[noisy.index(False)], weights[noisy.index(True)])
            if signal is None or noise is None or not _are_shares(signal[0], noise[0]):
                continue
            roots = signal[1] + noise[1]
            if roots == 1 or (not roots and _names_in(signal[0] + noise[0]) & _cumulative(tree)):
                which = "one weight" if roots else "both weights"
                yield "formula", f"the root of {which} is missing in {ast.unparse(node)}", node.lineno


def _ancestral(tree: ast.AST) -> Iterator[Found]:
    """A step back is (x - b / sqrt(1 - a_bar) eps) / sqrt(a), of one step's a (arXiv:2006.11239, algorithm 2, line 4).

    Divided by the root of the product of all steps' it grows with each step.
    """
    known = {name: value for name, value, _ in assignments(tree)}
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Div) or not is_difference(node.left):
            continue
        taken = node.left.right if isinstance(node.left, ast.BinOp) else node.left
        is_step = any(
            isinstance(one, ast.BinOp)
            and isinstance(one.op, ast.Div)
            and _is_cumulative(rest_of_one(_rooted(one.right)), known)
            for one in walked(taken)
        )
        if is_step and _is_cumulative(_rooted(node.right), known):
            words = f"{ast.unparse(node)} divides by the root of the product of all steps, and not of this one"
            yield "formula", words, node.lineno


def _rooted(node: ast.expr) -> ast.expr | None:
    """Return what a square root is taken of."""
    node = inner(node)
    if isinstance(node, ast.Call) and called(node) == "sqrt":
        given = operand(node)
        return None if given is None else inner(given)
    is_root = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow) and ast.unparse(node.right) == "0.5"
    return inner(node.left) if is_root and isinstance(node, ast.BinOp) else None


def _is_cumulative(node: ast.expr | None, known: Mapping[str, ast.expr]) -> bool:
    """Return whether an expression is a cumulative product, or an element of one, and nothing made of it."""
    for _ in range(_HOPS):
        while isinstance(node, ast.Subscript):
            node = inner(node.value)
        node = None if node is None else inner(node)
        if isinstance(node, ast.Call):
            return called(node) == "cumprod"
        node = known.get(name_of(node))
    return isinstance(node, ast.Call) and called(node) == "cumprod"


def _weight(node: ast.expr, known: Mapping[str, ast.expr]) -> tuple[str, bool] | None:
    """Return what a product weighs its other factor by, and whether its root is taken; None if it is no product."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult):
        return None
    factor = inner(_Resolved(known).visit(copy.deepcopy(inner(node.left))))
    root = _rooted(factor)
    return ast.unparse(factor if root is None else root), root is not None


class _Resolved(ast.NodeTransformer):
    """Replaces names by what they are given."""

    def __init__(self, known: Mapping[str, ast.expr]) -> None:
        self._known = known

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Replace a name once."""
        return inner(self._known[node.id]) if node.id in self._known else node


def _are_shares(signal: str, noise: str) -> bool:
    """Return whether two weights, their roots left out, are a and 1 - a."""
    return noise.replace("1.0", "1") == f"1 - {signal}" or signal.replace("1.0", "1") == f"1 - {noise}"


def _cumulative(tree: ast.AST) -> set[str]:
    """Return the names that are given a cumulative product, as the share of the signal is, or an element of one."""
    found = {"cumprod"}
    for _ in range(_HOPS):
        found |= {name for name, value, _ in assignments(tree) if _names_in(ast.unparse(value)) & found}
    return found


def _names_in(text: str) -> set[str]:
    return {part for part in _NAME.findall(text) if not part.isdigit()}


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


def _penalty_of_the_batch(tree: ast.AST) -> Iterator[Found]:
    """A gradient penalty is of each sample's norm (Gulrajani et al. 2017, arXiv:1704.00028, equation 3)."""
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub) or not isinstance(node.left, ast.Call):
            continue
        call = node.left
        is_norm = called(call) in ("norm", "vector_norm") and ast.unparse(node.right) in ("1", "1.0")
        given = len(call.args) - (operand(call) in call.args)
        names_axis = any(one.arg in ("dim", "axis") for one in call.keywords)
        if (
            is_norm
            and given < _WITH_AXIS
            and not names_axis
            and words_in(operand(call)) & {"grad", "grads", "gradient", "gradients", "g"}
        ):
            words = f"{ast.unparse(node)} is of one norm over the whole batch, and not of each sample's"
            yield "formula", words, node.lineno


def _critic(tree: ast.AST) -> Iterator[Found]:
    """A critic's loss falls as data score higher than what is generated (arXiv:1701.07875, algorithm 1, line 5)."""
    if any(isinstance(one, ast.Name | ast.Attribute) and name_of(one) in ("mone", "maximize") for one in walked(tree)):
        return
    turned = {ast.unparse(one.operand) for one in walked(tree) if isinstance(one, ast.UnaryOp)}
    losses = [(*one, words_of(one[0])) for one in assignments(tree) if "loss" in words_of(one[0])]
    critics = [one for one in losses if one[-1] & _JUDGE and not one[-1] & _MAKER]
    others = [_signs(value) for name, value, *_ in losses if name not in {one[0] for one in critics}]
    if any(one.get("fake") == {1} and "real" not in one for one in others):
        return  # low is real here: what generates lowers the score as well
    for name, value, line, _ in critics:
        signs = _signs(value)
        if name not in turned and signs.get("real") == {1} and signs.get("fake") == {-1}:
            yield "sign", f"{name} = {ast.unparse(value)} lowers the score of data and lifts that of fakes", line


def _signs(value: ast.expr) -> dict[str, set[int]]:
    """Return the signs of the terms that are plain scores, of data as `real` and of what was generated as `fake`."""
    signs: dict[str, set[int]] = {}
    for term, sign in terms(value):
        if _is_plain_score(term):
            kind = "real" if words_in(term) & _REAL else "fake" if words_in(term) & _FAKE else ""
            signs.setdefault(kind, set()).add(sign)
    return signs


def _is_plain_score(term: ast.expr) -> bool:
    """Return whether a term is a score itself: a name, or the answer of a network, and no loss of one."""
    if isinstance(term, ast.Call):
        return bool(words_of(called(term)) & _JUDGE) or called(term) in ("D", "C")
    return isinstance(term, ast.Name) and "loss" not in words_of(term.id)


def _divergence(tree: ast.AST) -> Iterator[Found]:
    """The divergence is -0.5 sum(1 + logvar - mu^2 - exp(logvar)) (arXiv:1312.6114, appendix B)."""
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
            continue
        parts = list(terms(node))
        powers = [(operand(term), sign) for term, sign in parts if isinstance(term, ast.Call) and called(term) == "exp"]
        if len(powers) != 1 or powers[0][0] is None or not _is_variance(powers[0][0]):
            continue
        logs = [sign for term, sign in parts if ast.unparse(term) == ast.unparse(powers[0][0])]
        means = [term for term, sign in parts if words_of(name_of(term)) & {"mu", "mean"} and sign == powers[0][1]]
        if logs == [powers[0][1]]:
            yield (
                "formula",
                f"{ast.unparse(node)} has the logarithm of the variance with the variance's sign",
                node.lineno,
            )
        elif len(logs) == 1 and means:
            yield "formula", f"{ast.unparse(node)} has {ast.unparse(means[0])} where its square belongs", node.lineno


def _target_of_fresh_noise(tree: ast.AST) -> Iterator[Found]:
    """A network learns the noise that was mixed into its input (arXiv:2006.11239, equation 14)."""
    for call in calls_in(tree, "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"):
        for one in call.args[:2]:
            if isinstance(one, ast.Call) and called(one) in ("randn", "randn_like"):
                words = f"{ast.unparse(call)} compares with noise that is drawn for it alone, which nothing can know"
                yield "formula", words, call.lineno


def _averaged_volume(tree: ast.AST) -> Iterator[Found]:
    """The change of volume is the sum of all log-scales (Dinh et al. 2017, arXiv:1605.08803, equation 6)."""
    for node in walked(tree):
        parts = node.value.elts if isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) else []
        scales = {ast.unparse(one) for call in calls_in(parts[0], "exp") if (one := operand(call))} if parts else set()
        for other in parts[1:] if scales else ():
            given = operand(other) if isinstance(other, ast.Call) and called(other) == "mean" else None
            has_axis = isinstance(other, ast.Call) and (len(other.args) > 0 or bool(other.keywords))
            if given is not None and has_axis and ast.unparse(given).lstrip("-") in scales:
                words = f"{ast.unparse(other)} averages over the dimensions what has to be summed: the change of volume"
                yield "formula", words, other.lineno


def _divergence_raised(tree: ast.AST) -> Iterator[Found]:
    """The loss of an autoencoder is its error plus the divergence of its code (arXiv:1312.6114, equation 3)."""
    for name, value, line in assignments(tree):
        if "loss" not in words_of(name):
            continue
        parts = [(factors(one), sign) for one, sign in terms(value)]
        lowered = [one for (found, inside), sign in parts for one in found if sign * inside > 0 and _is_error(one)]
        for (found, inside), sign in parts if lowered else ():
            raised = [one for one in found if isinstance(one, ast.Name) and one.id.lower() in _DIVERGENCES]
            if sign * inside < 0 and raised:
                yield "sign", f"{name} raises {raised[0].id}: it is taken off {ast.unparse(lowered[0])}", line


def _code_cut_off(tree: ast.AST) -> Iterator[Found]:
    """A code is drawn so that its gradient comes back (Kingma and Welling 2014, arXiv:1312.6114, section 2.4)."""
    for function in functions_in(tree):
        drawn = {name for name, value, _ in assignments(function) if _is_drawn_of_its_mean(value)}
        for call in calls_in(function, *_DECODERS) if drawn else ():
            cut = [one for one in call.args if isinstance(one, ast.Call) and called(one) == "detach" and not one.args]
            if any(isinstance(one.func, ast.Attribute) and name_of(one.func.value) in drawn for one in cut):
                words = f"{ast.unparse(call)} cuts the code off that was drawn with a gradient: the encoder learns none"
                yield "formula", f"{words} of what is rebuilt from it", call.lineno


def _is_drawn_of_its_mean(value: ast.expr) -> bool:
    """Return whether a value is a mean and noise times a deviation, or a function's that is called after that."""
    parts = [one for one, _ in terms(value)]
    is_written = len(parts) > 1 and any(next(calls_in(one, "randn_like", "randn"), None) is not None for one in parts)
    return is_written or (isinstance(value, ast.Call) and called(value) in _DRAWING)


def _is_error(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and bool(words_of(node.id) & _ERRORS)


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _deviation,
    _twice_averaged,
    _judge,
    _hinge,
    _noising,
    _ancestral,
    _penalty_of_the_batch,
    _critic,
    _divergence,
    _target_of_fresh_noise,
    _averaged_volume,
    _divergence_raised,
    _code_cut_off,
)
