"""Arguments that stand in each other's place: a function of the program takes `pos, neg` and is given `neg, pos`."""

import ast
from collections.abc import Iterator, Mapping
from itertools import combinations, permutations
from typing import Final

from ..bindings import Function, called, parameters_of
from ..expressions import inner, name_of, words_in
from ..known_values import values_of_names
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

#: Words that tell one of two alike things from the other. A name has such a word, or its first letter alone.
_OPPOSITES: Final = (
    (("pos", "positive", "positives", "chosen", "preferred", "winner", "clicked"), ("neg", "negative", "negatives",
      "rejected", "loser", "corrupted")),
    (("real", "reals"), ("fake", "fakes", "generated")),
    (("pred", "preds", "prediction", "predictions", "logits", "output", "outputs"), ("target", "targets", "label",
      "labels", "truth", "gt")),
    (("mu", "mean"), ("logvar", "var", "std", "sigma")),
    (("old", "reference", "ref"), ("new", "current")),
    (("teacher",), ("student",)),
    (("query", "queries"), ("key", "keys")),
    (("online",), ("target",)),
    (("mask",), ("labels", "target", "targets")),
    (("reward", "rewards"), ("done", "dones", "terminated")),
)  # fmt: skip
#: Words of a mask, and of the mask of the others.
_CONTRARY: Final = (
    frozenset({"dead", "inactive", "unused", "idle"}),
    frozenset({"fired", "alive", "active", "used", "live"}),
)
#: Pairs of which a function is trained the other way round where they are exchanged.
_SIGNS: Final = 2
#: Words of functions whose arguments are exchanged on purpose: both directions of a distance, or of a translation.
_BOTH_WAYS: Final = frozenset({"symmetric", "reverse", "reversed", "swap", "swapped", "backward", "inverse", "cycle"})

_Side = int


def _swapped(tree: ast.AST) -> Iterator[Found]:
    """A call gives each parameter what has its name (Pradel and Sen 2018, arXiv:1805.11683, section 3.1)."""
    functions = {node.name: node for node in walked(tree) if isinstance(node, Function)}
    for scope in walked(tree):
        if not isinstance(scope, ast.Module | Function):
            continue
        known = _known_in(scope)
        calls = [node for node in _own(scope) if isinstance(node, ast.Call) and called(node) in functions]
        orders = {ast.dump(call) for call in calls}
        for call in calls:
            yield from _told(call, functions[called(call)], known, orders)


def _contrary(tree: ast.AST) -> Iterator[Found]:
    """A parameter `dead` is given what is dead, and not `fired`: a mask of the others needs `~`."""
    functions = {node.name: node for node in walked(tree) if isinstance(node, Function)}
    for call in (one for one in walked(tree) if isinstance(one, ast.Call) and called(one) in functions):
        names = [one for one in parameters_of(functions[called(call)]) if one not in ("self", "cls")]
        given = [*zip(names, call.args, strict=False), *((one.arg or "", one.value) for one in call.keywords)]
        for name, value in given:
            words, asked = words_of(name), words_of(name_of(value))
            if any(words & one and asked & other and not asked & one for one, other in permutations(_CONTRARY)):
                yield "formula", f"{ast.unparse(call)} gives {ast.unparse(value)} for {name}, its contrary", call.lineno


def _told(call: ast.Call, function: Function, known: Mapping[str, ast.expr], orders: set[str]) -> Iterator[Found]:
    names = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    names = names[1:] if names[:1] in (["self"], ["cls"]) else names
    if any(isinstance(one, ast.Starred) for one in call.args) or words_of(function.name) & _BOTH_WAYS:
        return
    given = list(zip(names, call.args, strict=False))
    for (first, one), (second, two) in combinations(given, 2):
        for number, sides in enumerate(_OPPOSITES):
            wanted = _side(words_of(first), sides), _side(words_of(second), sides)
            got = _side_of(one, sides, known), _side_of(two, sides, known)
            if None in wanted or None in got or wanted[0] == wanted[1] or got != wanted[::-1]:
                continue
            if _other_way(call, one, two) in orders:
                continue  # both directions are asked for
            words = (
                f"{ast.unparse(call)} gives {ast.unparse(one)} for {first} and {ast.unparse(two)} for {second}, in "
                "each other's place"
            )
            yield ("sign" if number < _SIGNS else "formula"), words, call.lineno
            return


def _side(words: set[str], sides: tuple[tuple[str, ...], tuple[str, ...]]) -> _Side | None:
    """Return which of two opposites the words name; None if neither, or both."""
    found = [not words.isdisjoint(side) for side in sides]
    return found.index(True) if found.count(True) == 1 else None


def _side_of(
    node: ast.expr, sides: tuple[tuple[str, ...], tuple[str, ...]], known: Mapping[str, ast.expr]
) -> _Side | None:
    """Return the side that an argument is of by its own name, or else by what that name was given."""
    node = inner(node)
    if not isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
        return None
    own = _side(words_in(node), sides)
    if own is not None or not isinstance(node, ast.Name) or node.id not in known:
        return own
    return _side(words_in(known[node.id]), sides)


def _known_in(scope: ast.AST) -> dict[str, ast.expr]:
    """Return what each name of a scope is given, of names that are given one value only."""
    return {name: given[0] for name, given in values_of_names(scope).items() if len(given) == 1}


def _other_way(call: ast.Call, one: ast.expr, two: ast.expr) -> str:
    """Return the same call with two of its arguments exchanged, as `ast.dump` writes it."""
    exchanged = {id(one): two, id(two): one}
    arguments = [exchanged.get(id(each), each) for each in call.args]
    return ast.dump(ast.Call(call.func, arguments, call.keywords))


def _own(scope: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without those of functions inside."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, Function):
            yield child
            yield from _own(child)


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_swapped, _contrary)
