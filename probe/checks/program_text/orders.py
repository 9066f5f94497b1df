"""Arrays that a program batches together, of which it brings one into another order and leaves the other as it was."""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ..check_result import CheckResult, broken, held
from .bindings import Function, called, pairs_of
from .trees import trees_of, walked

BOUND: Final = "arrays_keep_one_order"
_CLAIM = "arrays that are batched together are brought into the same order"
FLATTENED: Final = "arrays_are_flattened_in_one_order"
_FLAT_CLAIM = "arrays of which the same rows are taken are flattened in the same order of their axes"
#: Calls that exchange the first two axes, that make one of them, and that bind arrays row by row.
_EXCHANGES: Final = frozenset({"t", "transpose", "swapaxes", "permute", "swapdims", "movedim"})
_FLATTENS: Final = frozenset({"reshape", "view", "flatten", "ravel"})
_BINDS: Final = frozenset({"TensorDataset", "zip"})
#: How deep one call may be inside another.
_DEEPEST: Final = 6
_ORDERS: Final = frozenset({"randperm", "permutation"})
#: Calls that leave the order: of a random one, and of one that was sorted; those among them that take it.
_MOVED: Final = frozenset({"to", "tolist", "numpy", "cuda", "as_tensor", "from_numpy"})
_LISTED: Final = frozenset({"to", "tolist", "numpy", "list", "flip"})
_TAKERS: Final = frozenset({"as_tensor", "from_numpy", "list"})


@dataclass(slots=True)
class _Scope:
    """What the statements of one function, or of a file's top, do with orders.

    Args:
        orders: Names of random orders, and of parts of them.
        parts: The slices by which parts of an order are taken.
        reordered: Arrays that were indexed with an order, and what came of it.
        sliced: Arrays by the slice that is taken of them, with the line.
    """

    orders: set[str] = field(default_factory=set)
    parts: set[str] = field(default_factory=set)
    reordered: set[str] = field(default_factory=set)
    sliced: dict[str, dict[str, int]] = field(default_factory=dict)


def arrays_keep_one_order(sources: Mapping[str, str]) -> CheckResult:
    """Return whether arrays of which the same slice is taken were all brought into a random order, or none.

    Args:
        sources: The texts of the program's own files, by path; a text that cannot be parsed is left out.
    """
    for path, tree in trees_of(sources).items():
        for body in _bodies(tree):
            for words, name in (*_unbound(body), *_unsorted(body)):
                return broken(BOUND, _CLAIM, f"{Path(path).name}:{words}", subject=name)
    return held(BOUND, _CLAIM)


def arrays_are_flattened_in_one_order(sources: Mapping[str, str]) -> CheckResult:
    """Return whether arrays that are flattened, and of which the same rows are taken, had their axes in one order.

    One that was laid out the other way may have to be transposed before, so this alone proves nothing.

    Args:
        sources: The texts of the program's own files, by path; a text that cannot be parsed is left out.
    """
    for path, tree in trees_of(sources).items():
        for body in _bodies(tree):
            for words, name in _flattened_unlike(body):
                return broken(FLATTENED, _FLAT_CLAIM, f"{Path(path).name}:{words}", subject=name)
    return held(FLATTENED, _FLAT_CLAIM)


def _flattened_unlike(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    nodes = list(_own_nodes(body))
    exchanged: dict[str, tuple[bool, int]] = {}
    for node in nodes:
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            for target, value in pairs_of(node.targets[0], node.value):
                how = _flattens(value)
                if isinstance(target, ast.Name) and how is not None:
                    exchanged[target.id] = how, node.lineno
    rows: dict[str, set[str]] = {}
    for node in nodes:
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and isinstance(node.slice, ast.Name):
            rows.setdefault(node.slice.id, set()).add(node.value.id)
        elif isinstance(node, ast.Call) and called(node) in _BINDS:
            rows[str(node.lineno)] = {one.id for one in node.args if isinstance(one, ast.Name)}
    for names in rows.values():
        known = {name: exchanged[name] for name in sorted(names) if name in exchanged}
        turned = [name for name, (is_turned, _) in known.items() if is_turned]
        plain = [name for name, (is_turned, _) in known.items() if not is_turned]
        if turned and plain:
            line = known[turned[0]][1]
            yield f"{line}: {turned[0]} is transposed before it is flattened, and {plain[0]} is not", turned[0]
            return


def _flattens(value: ast.expr) -> bool | None:
    """Return whether a value is transposed before it is flattened; None if it is not flattened."""
    names = list[str]()
    for _ in range(_DEEPEST):
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            has_order = any(one.arg == "order" and ast.unparse(one.value) == "'F'" for one in value.keywords)
            names += [called(value), *(["t"] if has_order else [])]
            value = value.func.value
        elif isinstance(value, ast.Attribute) and value.attr in ("T", "mT"):
            names.append("t")
            value = value.value
        else:
            break
    flat = next((at for at, name in enumerate(names) if name in _FLATTENS), None)
    return None if flat is None else any(name in _EXCHANGES for name in names[flat:])


def _bodies(tree: ast.Module) -> Iterator[list[ast.stmt]]:
    yield tree.body
    for node in walked(tree):
        if isinstance(node, Function):
            yield node.body


def _unbound(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    scope, nodes = _Scope(), list(_own_nodes(body))
    for node in nodes:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _makes_order(node.value):
            scope.orders.add(node.targets[0].id)
    if not scope.orders:
        return
    for node in nodes:
        _note(node, scope)
    for taken, arrays in scope.sliced.items():
        others = {name: line for name, line in arrays.items() if name not in scope.reordered}
        mixed = set(arrays) & scope.reordered or (taken in scope.parts and scope.reordered)
        if mixed and others:
            name, line = next(iter(others.items()))
            first = sorted(mixed)[0]
            yield f"{line}: {name}[{taken}] is batched with {first}, which is in a random order; {name} is not", name


def _unsorted(body: list[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Yield lists that are made of one collection as it is, where another list is made of it in a sorted order."""
    given = [one for one in _own_nodes(body) if isinstance(one, ast.Assign) and isinstance(one.targets[0], ast.Name)]
    names = [(one.targets[0].id, one) for one in given if isinstance(one.targets[0], ast.Name)]
    orders = {name: one.lineno for name, one in names if _sorts_numbers(one.value)}
    reordered: dict[str, str] = {}
    for name, one in names:
        for made in _comprehensions(one.value):
            for part in walked(made.elt) if _names(made.generators[0].iter) & set(orders) else ():
                if isinstance(part, ast.Subscript) and _names(part.slice) & _names(made.generators[0].target):
                    reordered.setdefault(ast.unparse(part.value), name)
    for name, one in names:
        for made in _comprehensions(one.value):
            base = ast.unparse(made.generators[0].iter)
            is_later = one.lineno > min(orders.values(), default=one.lineno)
            if reordered.get(base, base) != base and is_later and name not in orders:
                words = f"{one.lineno}: {name} takes {base} as it is, and {reordered[base]} takes it in a sorted order"
                yield words, name


def _sorts_numbers(value: ast.expr) -> bool:
    """Return whether a value is an order of numbers, as `sorted(range(n), key=...)` and `argsort` make one."""
    value = _unwrapped(value, _LISTED)
    is_sorted = isinstance(value, ast.Call) and called(value) == "sorted" and bool(value.args)
    return called(value) == "argsort" or (is_sorted and called(value.args[0]) == "range")  # type: ignore[attr-defined]


def _comprehensions(value: ast.expr) -> Iterator[ast.ListComp]:
    """Yield lists that are made with one loop and no condition, also inside of calls."""
    for one in walked(value):
        if isinstance(one, ast.ListComp) and len(one.generators) == 1 and not one.generators[0].ifs:
            yield one


def _note(node: ast.AST, scope: _Scope) -> None:
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        indexed = [one for one in walked(node.value) if isinstance(one, ast.Subscript)]
        ordered = [one for one in indexed if _names(one.slice) & scope.orders]
        taken = [one for one in indexed if isinstance(one.value, ast.Name) and one.value.id in scope.orders]
        if ordered:
            scope.reordered |= {node.targets[0].id, *(ast.unparse(one.value) for one in ordered)}
        elif taken:
            scope.orders.add(node.targets[0].id)
            scope.parts |= {ast.unparse(one.slice) for one in taken if isinstance(one.slice, ast.Slice)}
        elif _names(node.value) & scope.reordered:  # made of it, in its order
            scope.reordered.add(node.targets[0].id)
    if isinstance(node, ast.Subscript):
        base = ast.unparse(node.value)
        if _names(node.slice) & scope.orders:
            scope.reordered.add(base)
        elif isinstance(node.slice, ast.Slice) and _names(node.slice) and base not in scope.orders:
            scope.sliced.setdefault(ast.unparse(node.slice), {}).setdefault(base, node.lineno)


def _makes_order(value: ast.expr) -> bool:
    """Return whether a value is a random order, or one that was moved to a device or made a list."""
    return called(_unwrapped(value, _MOVED)) in _ORDERS


def _unwrapped(value: ast.expr, through: frozenset[str]) -> ast.expr:
    """Return what calls of these names were given, or called on: `order` of `torch.as_tensor(order).tolist()`."""
    while isinstance(value, ast.Call) and called(value) in through:
        inside = value.args[0] if called(value) in _TAKERS and value.args else None
        value = inside or (value.func.value if isinstance(value.func, ast.Attribute) else value.func)
    return value


def _names(node: ast.expr) -> set[str]:
    return {one.id for one in walked(node) if isinstance(one, ast.Name)}


def _own_nodes(body: list[ast.stmt]) -> Iterator[ast.AST]:
    """Yield the nodes of a scope in the order of the text, without those of functions and classes inside."""
    for statement in body:
        if isinstance(statement, Function | ast.ClassDef):
            continue
        waiting: list[ast.AST] = [statement]
        while waiting:
            node = waiting.pop(0)
            yield node
            waiting = [
                *(
                    one
                    for one in ast.iter_child_nodes(node)
                    if not isinstance(one, Function | ast.ClassDef | ast.Lambda)
                ),
                *waiting,
            ]
