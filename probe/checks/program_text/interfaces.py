"""Functions whose parameters others decide: what they take and do not read is no loss."""

import ast
from collections.abc import Iterable, Sequence

from .bindings import Function
from .expressions import names_in
from .trees import walked


def is_interface(node: Function) -> bool:
    """Return whether a function has to take what it is given: it does nothing, or a framework decides what it takes."""
    body = [one for one in node.body if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))]
    is_empty = all(isinstance(one, ast.Pass | ast.Raise) for one in body)
    return is_empty or _parameters(node)[:1] == ("ctx",) or (node.name.startswith("__") and node.name != "__init__")


def shared_methods(trees: Iterable[ast.Module]) -> frozenset[int]:
    """Return the ids of methods with the form of a method of another class, which could stand in the class's place.

    Kinds of attention that are exchanged for each other take the same mask, whether they need it or not. A class that
    names the other one, itself or by a class that it names, hands on to it what it takes: neither stands in the other's
    place.
    """
    classes = [one for tree in trees for one in walked(tree) if isinstance(one, ast.ClassDef)]
    alike: dict[tuple[str, tuple[str, ...]], list[tuple[str, Function]]] = {}
    for node in classes:
        for method in (one for one in node.body if isinstance(one, Function)):
            alike.setdefault((method.name, _parameters(method)), []).append((node.name, method))
    groups = [
        group
        for (name, taken), group in alike.items()
        if len(group) > 1 and taken[:1] == ("self",) and not name.startswith("__")
    ]
    below = _named_below(classes) if groups else {}
    return frozenset(
        id(method)
        for group in groups
        for owner, method in group
        if any(owner not in below[other] and other not in below[owner] for other, _ in group)
    )


def _named_below(classes: Sequence[ast.ClassDef]) -> dict[str, set[str]]:
    """Return by class the classes that it names, itself among them, and those that these name."""
    known = {one.name for one in classes}
    below = {name: {name} for name in known}
    for node in classes:
        below[node.name] |= names_in(node) & known
    for _ in classes:
        wider = {name: set[str]().union(*(below[one] for one in named)) for name, named in below.items()}
        if wider == below:
            break
        below = wider
    return below


def _parameters(node: Function) -> tuple[str, ...]:
    return tuple(one.arg for one in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))
