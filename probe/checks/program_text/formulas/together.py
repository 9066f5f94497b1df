"""Parts of one thing: pieces that are joined and cut, ends of an edge, copies of a batch."""

import ast
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from ..bindings import called, functions_in
from ..expressions import assignments, calls_in, find, name_of, names_in, words_in
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

#: Names of the two ends of an edge, or of rows and columns.
_ENDS: Final = (
    {"src", "dst"}, {"row", "col"}, {"rows", "cols"}, {"head", "tail"}, {"source", "target"}, {"senders", "receivers"},
    {"u", "v"},
)  # fmt: skip
_CUTS: Final = ("chunk", "split", "tensor_split")
_JOINS: Final = ("cat", "concat", "concatenate", "vstack")
_LABELS: Final = frozenset({"label", "labels", "target", "targets", "y", "ys", "gt", "classes"})


def _sorted_alone(tree: ast.AST) -> Iterator[Found]:
    """Pairs that were taken apart by `zip(*pairs)` are sorted together, or not at all."""
    for function in functions_in(tree):
        halves = [
            [name_of(one) for one in node.targets[0].elts]
            for node in walked(function)
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Tuple) and _takes_apart(node.value)
        ]
        ordered = [(name, value, line) for name, value, line in assignments(function) if called(value) == "sorted"]
        for name, value, line in ordered:
            given = value.args[0] if isinstance(value, ast.Call) and value.args else None
            mine = [names for names in halves if name_of(given) in names and name in names]
            if mine and not any(other in mine[0] for other, _, _ in ordered if other != name):
                yield "formula", f"{name} = {ast.unparse(value)} sorts one half of the pairs without the other", line


def _takes_apart(value: ast.expr) -> bool:
    """Return whether a value is `zip(*pairs)`, also mapped or listed."""
    return any(one.args and isinstance(one.args[0], ast.Starred) for one in calls_in(value, "zip"))


def _cut_in_another_order(tree: ast.AST) -> Iterator[Found]:
    """What is joined as (weak, strong) is cut as (weak, strong): one pass of both, and the answers apart."""
    for function in functions_in(tree):
        known = {name: value for name, value, _ in assignments(function)}
        for node in walked(function):
            if not isinstance(node, ast.Assign) or called(node.value) not in _CUTS:
                continue
            targets = node.targets[0]
            names = [name_of(one) for one in targets.elts] if isinstance(targets, ast.Tuple) else []
            joined = _joined_in(node.value, known)
            for first, second in pairwise(names):
                if joined and all(_is_reversed(first, second, parts) for parts in joined):
                    words = f"{ast.unparse(node)} names the pieces in another order than they were joined in"
                    yield "formula", words, node.lineno


def _joined_in(value: ast.expr, known: Mapping[str, ast.expr], hops: int = 3) -> list[list[set[str]]]:
    """Return the words of the pieces of each join that a value is computed from."""
    found = [
        [words_in(part) for part in call.args[0].elts]
        for call in calls_in(value, *_JOINS)
        if call.args and isinstance(call.args[0], ast.List | ast.Tuple)
    ]
    names = names_in(value) if hops else set[str]()
    for name in names & known.keys():
        if known[name] is not value and known[name].lineno < value.lineno:
            found += _joined_in(known[name], known, hops - 1)
    return found


def _is_reversed(first: str, second: str, parts: list[set[str]]) -> bool:
    """Return whether two pieces, told apart by words of their names, were joined the other way round."""
    own, other = words_of(first) - words_of(second), words_of(second) - words_of(first)
    at = [index for index, words in enumerate(parts) if own and own <= words and not other & words]
    behind = [index for index, words in enumerate(parts) if other and other <= words and not own & words]
    return len(at) == len(behind) == 1 and at[0] > behind[0]


def _joined_in_two_orders(tree: ast.AST) -> Iterator[Found]:
    """Samples and labels are joined in one order: beside `positives + negatives` stands no `zeros_neg + ones_pos`."""
    for function in functions_in(tree):
        joins = [
            (words_of(name_of(node.targets[0])) & _LABELS, node, parts)
            for node in walked(function)
            if isinstance(node, ast.Assign) and (parts := _two_joined(node.value)) is not None
        ]
        labels = [(node, parts) for is_label, node, parts in joins if is_label]
        for node, (first, second) in ((node, parts) for is_label, node, parts in joins if not is_label):
            for other, (begin, end) in labels:
                is_turned = (first - second) & (end - begin) and (second - first) & (begin - end)
                if is_turned and (_is_call(node, other) or _has_lists(tree, node, other)):
                    words = f"{ast.unparse(other)} joins labels in another order than {ast.unparse(node)} samples"
                    yield "formula", words, other.lineno


def _two_joined(value: ast.expr) -> tuple[set[str], set[str]] | None:
    """Return the words of the two pieces that a value joins, or adds up; None if it does neither."""
    parts: list[ast.expr] = []
    if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Add):
        parts = [value.left, value.right]
    elif isinstance(value, ast.Call) and called(value) in _JOINS and value.args:
        parts = value.args[0].elts if isinstance(value.args[0], ast.List | ast.Tuple) else []
    if len(parts) != 2 or not all(isinstance(one, ast.Name | ast.Attribute) for one in parts):
        return None
    return words_of(name_of(parts[0])), words_of(name_of(parts[1]))


def _is_call(*nodes: ast.Assign) -> bool:
    return all(isinstance(one.value, ast.Call) for one in nodes)


def _has_lists(tree: ast.AST, *nodes: ast.Assign) -> bool:
    """Return whether something that is added up is a list, whose order counts, and no tensor."""
    added = {name_of(part) for node in nodes for part in walked(node.value)} - {""}
    made = [(name_of(one.targets[0]), one.value) for one in walked(tree) if isinstance(one, ast.Assign)]
    return any(name in added and isinstance(value, ast.List | ast.ListComp) for name, value in made)


def _one_end_twice(tree: ast.AST) -> Iterator[Found]:
    """An edge has two ends: `z[src] * z[src]` and `a[src, src]` ask one of them twice."""
    names = {name_of(one) for one in walked(tree) if isinstance(one, ast.Name | ast.Attribute)}
    pairs = [ends for ends in _ENDS if ends <= names]
    for node in walked(tree):
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Tuple) and isinstance(node.ctx, ast.Load):
            index = [name_of(one) for one in node.slice.elts]
            twice = {one for one in index if one and index.count(one) > 1}
            if any(twice & ends for ends in pairs):
                yield "formula", f"{ast.unparse(node)} has the same end twice", node.lineno
        elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult) and isinstance(node.left, ast.Subscript):
            end = node.left.slice
            is_end = isinstance(end, ast.Subscript) and ast.unparse(end.slice) in ("0", "1")
            is_named = any(name_of(end) in ends for ends in pairs)
            if (is_end or is_named) and ast.dump(node.left) == ast.dump(node.right):
                yield "formula", f"{ast.unparse(node)} multiplies one end of each edge by itself", node.lineno


def _two_orders_of_copies(tree: ast.AST) -> Iterator[Found]:
    """Copies of a batch have one order: `repeat_interleave` lays those of a sample side by side, `repeat` does not."""
    for function in functions_in(tree):
        apart = {_copied(call): call for call in calls_in(function, "repeat_interleave")}
        for call in calls_in(function, "repeat", "tile"):
            whole = _copied(call)
            rest = {ast.unparse(one) for one in call.args[1:]}
            if all(whole) and whole in apart and rest <= {"1"} and not _meet(function, call, apart[whole]):
                words = f"{ast.unparse(call)} has the copies in another order than {ast.unparse(apart[whole])}"
                yield "formula", words, call.lineno


def _meet(function: ast.AST, one: ast.Call, other: ast.Call) -> bool:
    """Return whether both copies stand in one expression: so all pairs are made."""
    names = [{name for name, value, _ in assignments(function) if value is call} for call in (one, other)]

    def holds(part: ast.AST, number: int, call: ast.Call) -> bool:
        return find(part, lambda inside: inside is call or name_of(inside) in names[number])

    joins = [
        part
        for part in walked(function)
        if isinstance(part, ast.Call | ast.BinOp) and part is not one and part is not other
    ]
    return any(holds(part, 0, one) and holds(part, 1, other) for part in joins)


def _copied(call: ast.Call) -> tuple[str, str]:
    """Return what is copied along its first axis, and how often."""
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    axis = [ast.unparse(one.value) for one in call.keywords if one.arg == "dim"] or [
        ast.unparse(one) for one in call.args[1:2]
    ]
    if (
        owner is None
        or called(owner) == "arange"
        or not call.args
        or (called(call) == "repeat_interleave" and axis not in ([], ["0"]))
    ):
        return "", ""
    return ast.unparse(owner), ast.unparse(call.args[0])


def _cut_from_one_place(tree: ast.AST) -> Iterator[Found]:
    """Two sets that are cut out of one random order begin at different places, so that they share no sample."""
    for function in [*functions_in(tree), tree]:
        orders = {name for name, value, _ in assignments(function) if called(value) in ("randperm", "permutation")}
        cuts: dict[str, dict[str, ast.Subscript]] = {}
        for node in walked(function):
            is_cut = (
                isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice) and name_of(node.value) in orders
            )
            if is_cut and isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
                upper = node.slice.upper
                if node.slice.lower is None and upper is not None and words_in(upper):
                    cuts.setdefault(name_of(node.value), {})[ast.unparse(upper)] = node
        for name, found in cuts.items():
            if len(found) == 2 and not _is_cut_elsewhere(function, name):
                one, other = found.values()
                words = f"{ast.unparse(other)} and {ast.unparse(one)} begin at the same place: they share samples"
                yield "formula", words, other.lineno


def _is_cut_elsewhere(function: ast.AST, name: str) -> bool:
    """Return whether anything is cut out of an order from another place on, or the order is drawn in several places."""
    drawn = [
        one for one, value, _ in assignments(function) if one == name and called(value) in ("randperm", "permutation")
    ]

    def is_begun(node: ast.AST) -> bool:
        is_cut = isinstance(node, ast.Subscript) and name_of(node.value) == name
        return (
            is_cut
            and isinstance(node, ast.Subscript)
            and not (isinstance(node.slice, ast.Slice) and node.slice.lower is None)
        )

    return len(drawn) != 1 or find(function, is_begun)


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _sorted_alone,
    _cut_in_another_order,
    _joined_in_two_orders,
    _one_end_twice,
    _two_orders_of_copies,
    _cut_from_one_place,
)
