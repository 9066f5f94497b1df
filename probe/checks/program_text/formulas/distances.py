"""Distances: what is near scores high, and what belongs together is drawn together."""

import ast
from collections.abc import Iterator, Mapping
from typing import Final

from ..bindings import called
from ..expressions import assignments, calls_in, inner, name_of, operand, terms, words_in
from ..known_values import values_of_names
from ..names import words_of
from .pattern import Found, Pattern

_DISTANCES: Final = frozenset({"d", "dist", "dists", "distance", "distances", "d2", "sqdist"})
_LIKENESSES: Final = frozenset({"sim", "sims", "similarity", "similarities", "cos", "cosine"})
_POSITIVE: Final = frozenset({"pos", "positive", "positives", "ap"})
_NEGATIVE: Final = frozenset({"neg", "negative", "negatives", "an"})
_MARGIN: Final = frozenset({"margin", "margins"})
_HINGES: Final = ("relu", "clamp", "clamp_min", "clip", "max", "maximum", "softplus")
_OTHERS: Final = _NEGATIVE | {"same", "diff", "different", "valid", "mask", "other", "eye", "diag"}
_SMALLEST: Final = ("min", "amin", "argmin")


def _distance_as_score(tree: ast.AST) -> Iterator[Found]:
    """Scores are minus the distances (Snell et al. 2017, arXiv:1703.05175, equation 2)."""
    known = values_of_names(tree)
    makers = {name for name, value, _ in assignments(tree) if called(value) == "CrossEntropyLoss"}
    for call in calls_in(tree, "cross_entropy", *makers):
        given = [one.value for one in call.keywords if one.arg == "input"] or call.args[:1]
        parts = list(terms(given[0])) if given else []
        if len(parts) == 1 and _signs_of_distance(parts[0][0], parts[0][1], known) == {1}:
            words = f"{ast.unparse(call)} takes distances for scores: the class that is farthest is the likeliest"
            yield "sign", words, call.lineno


def _signs_of_distance(node: ast.expr, sign: int, known: Mapping[str, list[ast.expr]], hops: int = 2) -> set[int]:
    """Return the signs that a distance has in a value; 0 where it is something else."""
    node = inner(node)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        node = inner(node.left)
    if isinstance(node, ast.Call) and called(node) in ("cdist", "pairwise_distance"):
        return {sign}
    if isinstance(node, ast.Name) and hops and node.id in known:
        found = set[int]()
        for value in known[node.id]:
            parts = list(terms(value))
            inside = (
                [_signs_of_distance(one, sign * own, known, hops - 1) for one, own in parts]
                if len(parts) == 1
                else [{0}]
            )
            found |= inside[0]
        return found
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _signs_of_distance(node.left, sign, known, hops)
    return {0}


def _margin(tree: ast.AST) -> Iterator[Found]:
    """The distance to what belongs together, plus a margin, is less than to others (arXiv:1503.03832, equation 1)."""
    for call in calls_in(tree, *_HINGES):
        for given in [*call.args, call.func.value] if isinstance(call.func, ast.Attribute) else call.args:
            found = _turned(given)
            if found:
                yield "sign", f"{ast.unparse(call)} {found}", call.lineno


def _turned(given: ast.expr) -> str:
    """Return what is wrong with a hinge of two distances or likenesses; empty if nothing is."""
    kinds: dict[str, tuple[int, set[str]]] = {}
    for term, sign in terms(given):
        words = words_in(term)
        for kind, known in (("pos", _POSITIVE), ("neg", _NEGATIVE), ("margin", _MARGIN)):
            if words & known:
                kinds[kind] = (0 if kind in kinds else sign, words)
    if set(kinds) != {"pos", "neg", "margin"} or 0 in [sign for sign, _ in kinds.values()]:
        return ""
    inside = kinds["pos"][1] | kinds["neg"][1]
    if kinds["margin"][0] < 0:
        return "takes the margin off: nothing is asked of pairs that are hardly apart"
    is_distance, is_likeness = bool(inside & _DISTANCES), bool(inside & _LIKENESSES)
    if (
        is_distance != is_likeness
        and kinds["pos"][0] != (1 if is_distance else -1)
        and kinds["neg"][0] == -kinds["pos"][0]
    ):
        return "draws apart what belongs together"
    return ""


def _swapped_triplet(tree: ast.AST) -> Iterator[Found]:
    """`triplet_margin_loss` takes the anchor, what belongs to it, and what does not."""
    makers = {name for name, value, _ in assignments(tree) if called(value).startswith("TripletMargin")}
    for call in calls_in(tree, "triplet_margin_loss", "triplet_margin_with_distance_loss", *makers):
        if len(call.args) >= 3 and not any(isinstance(one, ast.Starred) for one in call.args):
            second, third = (words_of(name_of(one)) | words_in(one) for one in call.args[1:3])
            if second & _NEGATIVE and third & _POSITIVE and not second & _POSITIVE and not third & _NEGATIVE:
                yield "sign", f"{ast.unparse(call)} has positive and negative exchanged", call.lineno


def _smallest_of_masked(tree: ast.AST) -> Iterator[Found]:
    """What a mask leaves out of a minimum becomes infinite; times zero it is the smallest of all."""
    for call in calls_in(tree, *_SMALLEST):
        given = operand(call)
        if not isinstance(given, ast.BinOp) or not isinstance(given.op, ast.Mult):
            continue
        for values, mask in ((given.left, given.right), (given.right, given.left)):
            is_mask = bool(words_in(mask) & _OTHERS) and not words_in(mask) & _DISTANCES
            if is_mask and words_in(values) & _DISTANCES and not words_in(values) & _OTHERS:
                words = f"{ast.unparse(call)} finds the zeros of {ast.unparse(mask)}, which should be left out"
                yield "formula", words, call.lineno
                break


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _distance_as_score,
    _margin,
    _swapped_triplet,
    _smallest_of_masked,
)
