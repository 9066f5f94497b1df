"""Lists, tuples, dicts and sets as they are written, and comprehensions."""

import ast
from collections.abc import Callable
from typing import Any

from .assign import assign_to
from .frame import Frame, expression

Value = Any  # a value of the user's program


def _items(frame: Frame, nodes: list[ast.expr]) -> list[Value]:
    found: list[Value] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            found += frame.interpreter.iterate(frame, frame.value(node.value))
        else:
            found.append(frame.value(node))
    return found


@expression(ast.Tuple)
def _tuple_display(frame: Frame, node: ast.Tuple) -> Value:
    """`(a, b)`."""
    return tuple(_items(frame, node.elts))


@expression(ast.List)
def _list_display(frame: Frame, node: ast.List) -> Value:
    """`[a, b]`."""
    return _new(frame, _items(frame, node.elts))


@expression(ast.Set)
def _set_display(frame: Frame, node: ast.Set) -> Value:
    """`{a, b}`."""
    return _new(frame, set(_items(frame, node.elts)))


@expression(ast.Dict)
def _dict_display(frame: Frame, node: ast.Dict) -> Value:
    """`{a: b}`."""
    found: dict[Value, Value] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            found.update(frame.interpreter.outside.content(frame.value(value)))
        else:
            found[frame.value(key)] = frame.value(value)
    return _new(frame, found)


def _new(frame: Frame, container: Value) -> Value:
    frame.interpreter.capture.heap.created(container)
    return container


@expression(ast.ListComp)
def _list_comprehension(frame: Frame, node: ast.ListComp) -> Value:
    """`[item for ...]`."""
    found: list[Value] = []
    _generate(frame, node.generators, lambda: found.append(frame.value(node.elt)))
    return _new(frame, found)


@expression(ast.GeneratorExp)
def _generator(frame: Frame, node: ast.GeneratorExp) -> Value:
    """`(item for ...)`: all its items at once, as an iterator."""
    found: list[Value] = []
    _generate(frame, node.generators, lambda: found.append(frame.value(node.elt)))
    return iter(found)


@expression(ast.SetComp)
def _set_comprehension(frame: Frame, node: ast.SetComp) -> Value:
    """`{item for ...}`."""
    found: set[Value] = set()
    _generate(frame, node.generators, lambda: found.add(frame.value(node.elt)))
    return _new(frame, found)


@expression(ast.DictComp)
def _dict_comprehension(frame: Frame, node: ast.DictComp) -> Value:
    """`{key: item for ...}`."""
    found: dict[Value, Value] = {}

    def add() -> None:
        key = frame.value(node.key)
        found[key] = frame.value(node.value)

    _generate(frame, node.generators, add)
    return _new(frame, found)


def _generate(frame: Frame, generators: list[ast.comprehension], yield_one: Callable[[], None]) -> None:
    """Nothing; calls `yield_one` for every round of the loops of a comprehension, whose lengths are known."""
    first, *rest = generators
    if first.is_async:
        raise frame.unsupported("an asynchronous comprehension", "use a plain one")
    items = frame.interpreter.iterate(frame, frame.value(first.iter))
    names = frozenset(part.id for part in ast.walk(first.target) if isinstance(part, ast.Name))
    with frame.inner_scope(names):
        for value in items:
            assign_to(frame, first.target, value)
            if not all(_passes(frame, test) for test in first.ifs):
                continue
            if rest:
                _generate(frame, rest, yield_one)
            else:
                yield_one()


def _passes(frame: Frame, test: ast.expr) -> bool:
    condition = frame.interpreter.condition(frame, test)
    if not isinstance(condition, bool):
        raise frame.unsupported(
            "a condition on traced values inside a comprehension",
            "how many items there are would not be known: keep all and choose with ops.where",
        )
    return condition
