"""Groups: advantages within a group of answers, members of an ensemble, views of one sample."""

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from ..bindings import LOOPS, Function, called, functions_in
from ..expressions import assignments, calls_in, inner, name_of, names_in, terms, words_in
from ..names import words_of
from ..operations import axis_of
from ..trees import walked
from .pattern import Found, Pattern

_SIZES: Final = frozenset({"group", "groups", "generations", "completions", "rollouts", "samples"})
_MEMBERS: Final = frozenset({"member", "members", "ensemble", "ensembles"})
_STRONG: Final = frozenset({"strong", "strongly"})
_WEAK: Final = frozenset({"weak", "weakly"})
_QUERY: Final = frozenset({"query", "queries", "qry"})
_SUPPORT: Final = frozenset({"support", "supports", "spt", "supp"})
_SURE: Final = frozenset({"conf", "confidence", "max", "prob", "probs"})
_LIMITS: Final = frozenset({"threshold", "tau", "thresh", "thr"})
_HOPS: Final = 3


def _across_groups(tree: ast.AST) -> Iterator[Found]:
    """An answer is compared with those to the same question (Shao et al. 2024, arXiv:2402.03300, section 4.1.2)."""
    grouped = {name for name, value, _ in assignments(tree) if _is_grouped(value)}
    for call in calls_in(tree, "mean", "std", "var"):
        owner = call.func.value if isinstance(call.func, ast.Attribute) else None
        axis = axis_of(call)
        if owner is not None and axis == "0" and (name_of(owner) in grouped or _is_grouped(owner)):
            words = f"{ast.unparse(call)} is taken over all questions, for each place of a group; groups are the rows"
            yield "formula", words, call.lineno


def _is_grouped(value: ast.expr) -> bool:
    """Return whether a value is put into rows of one group each, `x.view(-1, group_size)`."""
    if not isinstance(value, ast.Call) or called(value) not in ("view", "reshape") or len(value.args) != 2:
        return False
    rows, width = value.args
    is_size = bool(words_of(name_of(width)) & _SIZES) or name_of(width) in ("G", "K", "k")
    return is_size and not words_in(rows) & _SIZES


def _estimator(tree: ast.AST) -> Iterator[Found]:
    """The divergence is estimated by exp(r) - r - 1 (Shao et al. 2024, arXiv:2402.03300, equation 4)."""
    for node in walked(tree):
        if (
            not isinstance(node, ast.BinOp)
            or not isinstance(node.op, ast.Sub)
            or ast.unparse(node.right) not in ("1", "1.0")
        ):
            continue
        parts = [(term, sign) for term, sign in terms(node.left)]
        powers = [(term, sign) for term, sign in parts if isinstance(term, ast.Call) and called(term) == "exp"]
        if len(powers) != 1 or powers[0][1] < 0:
            continue
        power = powers[0][0]
        given = power.args[0] if isinstance(power, ast.Call) and power.args else getattr(power.func, "value", None)
        ratio = {(ast.unparse(term), sign) for term, sign in terms(given)} if given is not None else set()
        rest = {(ast.unparse(term), sign) for term, sign in parts if term is not power}
        if ratio and rest == ratio:
            yield (
                "formula",
                f"{ast.unparse(node)} adds the logarithm of its ratio, which it takes off: it falls below zero",
                node.lineno,
            )


def _members_alike(tree: ast.AST) -> Iterator[Found]:
    """Members of an ensemble begin apart (Lakshminarayanan et al. 2017, arXiv:1612.01474, section 2.4)."""
    seeders = {function.name: function for function in functions_in(tree) if _seeds_from_a_parameter(function)}
    for loop in walked(tree):
        if not isinstance(loop, LOOPS) or not isinstance(loop, ast.For) or not _fills_an_ensemble(loop):
            continue
        given = {
            one.id
            for node in walked(loop)
            if isinstance(node, ast.Name)
            for one in [node]
            if isinstance(one.ctx, ast.Store)
        }
        for call in calls_in(loop, "manual_seed", *seeders):
            names = {
                one.id
                for part in [*call.args, *[one.value for one in call.keywords]]
                for one in walked(part)
                if isinstance(one, ast.Name)
            }
            is_drawn = any(isinstance(one, ast.Call) for part in call.args for one in walked(part))
            if call.args and not names & given and not is_drawn and called(call) == "manual_seed":
                yield (
                    "formula",
                    f"{ast.unparse(call)} in the loop over members gives all of them the same weights",
                    call.lineno,
                )
    for name, value, line in assignments(tree):
        if isinstance(value, ast.ListComp) and words_of(name) & _MEMBERS and called(value.elt) in seeders:
            own = {one.id for part in value.generators for one in walked(part.target) if isinstance(one, ast.Name)}
            inside = names_in(value.elt)
            if not own & inside:
                yield (
                    "formula",
                    f"{name} = {ast.unparse(value)} gives each member the same seed, so the same weights",
                    line,
                )


def _seeds_from_a_parameter(function: Function) -> bool:
    """Return whether a function seeds everything with one of its parameters."""
    names = {one.arg for one in function.args.args}
    return any(name_of(call.args[0]) in names for call in calls_in(function, "manual_seed") if call.args)


def _fills_an_ensemble(loop: ast.For) -> bool:
    """Return whether a loop runs over the members of an ensemble, or appends to one."""
    if (words_in(loop.target) | words_in(loop.iter)) & _MEMBERS:
        return True
    added = [call.func.value for call in calls_in(loop, "append") if isinstance(call.func, ast.Attribute)]
    return any(words_of(name_of(one)) & _MEMBERS for one in added)


def _labels_of_the_strong_view(tree: ast.AST) -> Iterator[Found]:
    """Labels are taken from the weak view, and the strong one learns them (arXiv:2001.07685, equation 4)."""
    for function in [*functions_in(tree), tree]:
        known = _given(function)
        for name, (value, line) in known.items():
            if not words_of(name) & {"pseudo", "pl"}:
                continue
            words = _words_behind(value, known)
            if words & _STRONG and not words & _WEAK and _has_name(tree, _WEAK):
                yield "formula", f"{name} = {ast.unparse(value)} labels by the strong view, not by the weak one", line
                return


def _given(function: ast.AST) -> dict[str, tuple[ast.expr, int]]:
    """Return what each name is given, also one of several that a call gives together."""
    found: dict[str, tuple[ast.expr, int]] = {}
    for node in walked(function):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for one in walked(target):
                    if isinstance(one, ast.Name):
                        found[one.id] = (node.value, node.lineno)
    return found


def _words_behind(value: ast.expr, known: Mapping[str, tuple[ast.expr, int]], hops: int = _HOPS) -> set[str]:
    """Return the words of a value, and of what its names were given."""
    words = words_in(value)
    for one in walked(value):
        if hops and isinstance(one, ast.Name) and one.id in known and known[one.id][0] is not value:
            words |= _words_behind(known[one.id][0], known, hops - 1)
    return words


def _has_name(tree: ast.AST, wanted: frozenset[str]) -> bool:
    return any(isinstance(one, ast.Name) and words_of(one.id) & wanted for one in walked(tree))


def _learned_on_the_support(tree: ast.AST) -> Iterator[Found]:
    """What was adapted to the support is judged by the query, and prototypes are of the support (arXiv:1703.05175)."""
    known = _given(tree)
    for name, value, line in assignments(tree):
        words, inside = words_of(name), words_in(value)
        if words & _QUERY and "loss" in words and inside & _SUPPORT and not inside & _QUERY:
            yield "formula", f"{name} = {ast.unparse(value)} is computed on the support", line
        is_of_query = bool(inside & _QUERY) and not _words_behind(value, known) & _SUPPORT
        if words & {"proto", "protos", "prototype", "prototypes"} and is_of_query and _has_name(tree, _SUPPORT):
            yield "formula", f"{name} = {ast.unparse(value)} is made of the query that it is to judge", line


def _uncertain_labels(tree: ast.AST) -> Iterator[Found]:
    """Only labels that are sure are learned from (Sohn et al. 2020, arXiv:2001.07685, equation 4)."""
    if not any(isinstance(one, ast.Name) and words_of(one.id) & {"pseudo"} for one in walked(tree)):
        return
    factors_of = {
        name_of(inner(side))
        for node in walked(tree)
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)
        for side in (node.left, node.right)
    }
    for name, value, line in assignments(tree):
        test = inner(value)
        if name not in factors_of or "mask" not in words_of(name) or not isinstance(test, ast.Compare):
            continue
        is_less = len(test.ops) == 1 and isinstance(test.ops[0], ast.Lt | ast.LtE)
        sides = words_in(test.left), words_in(test.comparators[0])
        if is_less and sides[0] & _SURE and sides[1] & _LIMITS:
            yield "formula", f"{name} = {ast.unparse(value)} keeps the labels that are least sure", line


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _across_groups,
    _estimator,
    _members_alike,
    _labels_of_the_strong_view,
    _learned_on_the_support,
    _uncertain_labels,
)
