"""Steps of samplers: guidance, noise, and the order of the steps."""

import ast
import re
from collections.abc import Iterator
from typing import Final

from ..bindings import LOOPS, called, functions_in
from ..expressions import (
    assignments,
    calls_in,
    factors,
    inner,
    name_of,
    names_in,
    operand,
    rest_of_one,
    terms,
    words_in,
)
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

_CONDITIONAL: Final = frozenset({"cond", "conditional", "conditioned", "c"})
_UNCONDITIONAL: Final = frozenset({"uncond", "unconditional", "uncondition", "null", "uc", "u"})
_SAMPLERS: Final = frozenset({"sample", "sampler", "ddim", "ddpm", "generate", "denoise"})
_LEVELS: Final = frozenset({"alpha", "alphas", "beta", "betas", "abar", "acp", "alphabar", "bar", "ab", "sigmas"})
_NOISE: Final = ("randn", "randn_like", "normal", "standard_normal")
_POSTERIORS: Final = frozenset({"post", "posterior", "qz", "qzx", "encoded"})


def _guidance(tree: ast.AST) -> Iterator[Found]:
    """Guidance goes from the unconditional answer to the conditional one (Ho and Salimans 2022, arXiv:2207.12598)."""
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add | ast.Sub):
            continue
        for term, sign in terms(node):
            parts, own = factors(term)
            ways = [(_way(one), one) for one in parts if isinstance(one, ast.BinOp) and isinstance(one.op, ast.Sub)]
            others = [one for one in parts if all(one is not difference for _, difference in ways)]
            is_weighed = bool(others) and all(isinstance(one, ast.Name | ast.Attribute) for one in others)
            bases = [_kind(one) for one, _ in terms(node) if one is not term]
            if len(ways) == 1 and is_weighed and any(bases) and ways[0][0] * sign * own < 0:
                words = f"{ast.unparse(node)} moves away from the condition: the difference is the wrong way round"
                yield "sign", words, node.lineno


def _way(node: ast.BinOp) -> int:
    """Return 1 for the conditional answer less the unconditional one, -1 for the reverse, 0 for anything else."""
    left, right = name_of(node.left), name_of(node.right)
    rest_left = words_of(left) - _CONDITIONAL - _UNCONDITIONAL
    rest_right = words_of(right) - _CONDITIONAL - _UNCONDITIONAL
    if rest_left != rest_right:
        return 0
    return {(1, -1): 1, (-1, 1): -1}.get((_kind(node.left), _kind(node.right)), 0)


def _kind(node: ast.expr) -> int:
    """Return 1 for a conditional answer, -1 for an unconditional one, 0 where its name does not tell."""
    words = words_of(name_of(inner(node)))
    if words & _UNCONDITIONAL:
        return -1
    return 1 if words & _CONDITIONAL else 0


def _exchanged_guidance(tree: ast.AST) -> Iterator[Found]:
    """With (1 + w) for the conditional answer and w for the other one, guidance is the same (arXiv:2207.12598)."""
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Sub):
            continue
        first, second = factors(node.left)[0], factors(node.right)[0]
        kinds = [{_kind(one) for one in side} - {0} for side in (first, second)]
        if kinds == [{-1}, {1}] and any(_is_one_more(one, second) for one in first):
            yield "sign", f"{ast.unparse(node)} moves away from the condition: the answers are exchanged", node.lineno


def _is_one_more(node: ast.expr, factors_of_other: list[ast.expr]) -> bool:
    """Return whether a factor is `1 + w` of a `w` among the other factors."""
    weights = {ast.unparse(one) for one in factors_of_other}
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return False
    sides = {ast.unparse(node.left), ast.unparse(node.right)}
    return bool(sides & {"1", "1.0"}) and bool(sides & weights)


def _noise_of_a_step(tree: ast.AST) -> Iterator[Found]:
    """A step s of Langevin dynamics adds noise of deviation sqrt(2 s), or sqrt(s) (Welling and Teh 2011, eq. 4)."""
    for function in functions_in(tree):
        for node in walked(function):
            if not isinstance(node, ast.Assign) or not isinstance(node.targets[0], ast.Name):
                continue
            drift, noise = set[str](), set[str]()
            for term, sign in terms(node.value):
                parts, own = factors(term)
                kind = {ast.unparse(one) for one in parts if isinstance(one, ast.Name | ast.Attribute)}
                words = words_in(term)
                is_noise = next(calls_in(term, *_NOISE), None) is not None or bool(words & {"noise", "eps"})
                if is_noise:
                    noise |= kind - {name for name in kind if words_of(name) & {"noise", "eps", "z"}}
                elif words & {"score", "scores"} or ("langevin" in function.name.lower() and len(parts) > 1):
                    drift |= kind
                    if words & {"score", "scores"} and sign * own < 0 and _has_noise(node.value):
                        yield (
                            "sign",
                            f"{ast.unparse(node)} goes against the score, which points to the data",
                            node.lineno,
                        )
            if drift & noise:
                step = sorted(drift & noise)[0]
                words_told = f"{ast.unparse(node)} scales the noise by {step} itself; a step adds noise of its root"
                yield "formula", words_told, node.lineno


def _has_noise(node: ast.expr) -> bool:
    return next(calls_in(node, *_NOISE), None) is not None or bool(words_in(node) & {"noise"})


def _forward_sampler(tree: ast.AST) -> Iterator[Found]:
    """A sampler runs the steps from the last to the first (Ho et al. 2020, arXiv:2006.11239, algorithm 2)."""
    for function in functions_in(tree):
        if not words_of(function.name) & _SAMPLERS or words_of(function.name) & {"q", "forward", "noise"}:
            continue
        for loop in walked(function):
            if not isinstance(loop, LOOPS) or not isinstance(loop, ast.For) or not isinstance(loop.target, ast.Name):
                continue
            if not _counts_up(loop.iter) or not _asks_a_model(loop):
                continue
            step, is_level = loop.target.id, False
            for node in walked(loop):
                if isinstance(node, ast.Subscript) and ast.unparse(node.slice) == step:
                    is_level = is_level or bool(words_in(node.value) & _LEVELS)
            if is_level:
                words = f"{function.name} runs its steps in {ast.unparse(loop.iter)}, from the least noise to the most"
                yield "formula", words, loop.lineno


def _counts_up(source: ast.expr) -> bool:
    """Return whether a loop runs over `range(n)` as it is."""
    return isinstance(source, ast.Call) and called(source) == "range" and len(source.args) == 1


def _asks_a_model(loop: ast.For) -> bool:
    """Return whether a loop calls a network, and writes over what it samples."""
    names = {
        one.id for one in walked(loop) if isinstance(one, ast.Call) for one in [one.func] if isinstance(one, ast.Name)
    }
    words = set[str]().union(*(words_of(name) for name in names))
    asks = bool(words & {"model", "net", "unet", "denoiser", "eps", "network"})
    return asks and rest_of_one(loop.iter) is None


def _two_levels(tree: ast.AST) -> Iterator[Found]:
    """Signal and noise of a step have shares of one level (Song et al. 2021, arXiv:2010.02502, equation 12)."""
    for node in walked(tree):
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
            continue
        left, right = (_rooted_share(side) for side in (node.left, node.right))
        if left is None or right is None:
            continue
        (signal, of_noise), (noise, is_rest) = left, right
        if is_rest and not of_noise and signal != noise and _is_other_level(signal, noise):
            words = f"{ast.unparse(node)} takes the signal's share of {signal} and the noise's of {noise}"
            yield "formula", words, node.lineno


def _rooted_share(node: ast.expr) -> tuple[str, bool] | None:
    """Return of which level a product has the root as a factor, and whether it is that of `1 - level`."""
    for part in factors(node)[0]:
        is_root = isinstance(part, ast.Call) and called(part) == "sqrt"
        given = operand(part) if is_root and isinstance(part, ast.Call) else None
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Pow) and ast.unparse(part.right) == "0.5":
            given = part.left
        rest = rest_of_one(given)
        level = rest if rest is not None else given
        if isinstance(level, ast.Name | ast.Subscript | ast.Attribute) and words_in(level) & _LEVELS:
            return ast.unparse(level), rest is not None
    return None


def _is_other_level(one: str, other: str) -> bool:
    """Return whether two levels are of one kind at different steps, by `prev` or `next` in one of the names."""
    words = (
        set(re.findall(r"[a-z]+", one.lower().replace("_", " "))),
        set(re.findall(r"[a-z]+", other.lower().replace("_", " "))),
    )
    return bool((words[0] ^ words[1]) & {"prev", "next", "s"})


def _reversed_velocity(tree: ast.AST) -> Iterator[Found]:
    """The velocity of (1 - t) a + t b is b - a (Lipman et al. 2023, arXiv:2210.02747, equation 23).

    Told where the program's sampler runs times upwards and adds what the model gives.
    """
    paths = [found for node in walked(tree) if (found := _path(node)) is not None]
    if not paths or not _adds_along(tree):
        return
    for node in walked(tree):
        is_difference_of = isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub)
        sides = (
            (ast.unparse(node.right), ast.unparse(node.left))
            if is_difference_of and isinstance(node, ast.BinOp)
            else None
        )
        if sides in paths and isinstance(node, ast.BinOp):
            words = f"{ast.unparse(node)} points back along the path, and the sampler adds it on the way forth"
            yield "sign", words, node.lineno
            return


def _path(node: ast.AST) -> tuple[str, str] | None:
    """Return end and begin of a straight path, `b, a` of `(1 - t) * a + t * b`."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Add):
        return None
    for first, second in ((node.left, node.right), (node.right, node.left)):
        begin, end = factors(first)[0], factors(second)[0]
        times = [ast.unparse(rest) for one in begin if (rest := rest_of_one(one)) is not None]
        if len(begin) == len(end) == 2 and len(times) == 1 and any(ast.unparse(one) == times[0] for one in end):
            starts = [ast.unparse(one) for one in begin if rest_of_one(one) is None]
            ends = [ast.unparse(one) for one in end if ast.unparse(one) != times[0]]
            return (
                (ends[0], starts[0])
                if starts and ends and words_in(end[0]) | words_in(end[1]) & {"t", "time"}
                else None
            )
    return None


def _adds_along(tree: ast.AST) -> bool:
    """Return whether a loop that counts up adds what a model gives to what it samples, and nothing runs backwards."""
    text = ast.unparse(tree)
    if re.search(r"reversed\(|linspace\(1|range\([^()]*-1\)|1 - i|1\.0 - i|-= |\bx - ", text):
        return False
    for loop in walked(tree):
        if not isinstance(loop, ast.For) or not (
            isinstance(loop.iter, ast.Call) and called(loop.iter) in ("range", "linspace")
        ):
            continue
        for node in walked(loop):
            if (
                isinstance(node, ast.AugAssign)
                and isinstance(node.op, ast.Add)
                and name_of(node.target) in ("x", "z", "xt", "x_t")
            ):
                return True
            if isinstance(node, ast.Assign) and name_of(node.targets[0]) in ("x", "z", "xt", "x_t"):
                parts = list(terms(node.value))
                own = [sign for term, sign in parts if name_of(term) == name_of(node.targets[0])]
                if own == [1] and len(parts) > 1 and all(sign > 0 for _, sign in parts):
                    return True
    return False


def _step_before_in_strides(tree: ast.AST) -> Iterator[Found]:
    """A sampler that skips steps goes to the level of the next one that it visits (arXiv:2010.02502, section 4.2)."""
    for function in functions_in(tree):
        strided = {
            name
            for name, value, _ in assignments(function)
            if next(calls_in(value, "linspace"), None) or _is_stride(value)
        }
        for loop in walked(function):
            if not isinstance(loop, ast.For) or not (_is_stride(loop.iter) or names_in(loop.iter) & strided):
                continue
            steps = names_in(loop.target)
            for node in walked(loop):
                index = ast.unparse(node.slice) if isinstance(node, ast.Subscript) else ""
                is_before = index in {f"{step} - 1" for step in steps - {"i", "j", "k", "n"}}
                if is_before and isinstance(node, ast.Subscript) and words_in(node.value) & _LEVELS:
                    yield "formula", f"{ast.unparse(node)} is one step back, and the sampler goes several", node.lineno


def _is_stride(value: ast.expr) -> bool:
    """Return whether a value counts in steps of more than one, `range(0, T, T // n)`."""
    calls = list(calls_in(value, "range", "arange"))
    return any(len(call.args) == 3 and ast.unparse(call.args[2]) not in ("1", "-1") for call in calls)


def _drawn_without_gradient(tree: ast.AST) -> Iterator[Found]:
    """A code is drawn as mean + deviation * noise, so that its encoder gets gradients: `rsample` (arXiv:1312.6114).

    Told where a divergence is computed, so that something is learned of the distribution, and no draw has gradients.
    """
    asked = {called(one) for one in walked(tree) if isinstance(one, ast.Call)}
    if "kl_divergence" not in asked or asked & {"rsample", "log_prob", "randn_like", "straight_through"}:
        return
    for name, value, line in assignments(tree):
        owner = value.func.value if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) else None
        if called(value) == "sample" and words_of(name_of(owner)) & _POSTERIORS:
            words = f"{name} = {ast.unparse(value)} passes no gradient to what made {ast.unparse(owner or value)}"
            yield "formula", words, line


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _guidance,
    _exchanged_guidance,
    _noise_of_a_step,
    _forward_sampler,
    _two_levels,
    _reversed_velocity,
    _step_before_in_strides,
    _drawn_without_gradient,
)
