"""The left side of an assignment: names, tuples of targets, attributes, items."""

import ast
from typing import Any

from ...tensor import Parameter, Tensor
from ..traced import TracedTensor
from .expressions import mangled
from .frame import Frame
from .unknown import TracedIterable
from .values import traced

__all__ = ["assign_to", "delete"]

Value = Any  # a value of the user's program


def assign_to(frame: Frame, target: ast.expr, value: Value) -> None:
    """Nothing; the target holds the value."""
    if isinstance(target, ast.Name):
        frame.store(target.id, value)
    elif isinstance(target, ast.Tuple | ast.List):
        _unpack(frame, target.elts, value)
    elif isinstance(target, ast.Attribute):
        owner = frame.value(target.value)
        frame.interpreter.outside.set_attribute(owner, mangled(frame, target.attr), value)
    elif isinstance(target, ast.Subscript):
        _set_item(frame, frame.value(target.value), frame.value(target.slice), value)
    else:
        raise frame.unsupported("this kind of assignment", "assign to a name")


def _unpack(frame: Frame, targets: list[ast.expr], value: Value) -> None:
    """Nothing; every target holds its part."""
    parts = list(frame.interpreter.iterate(frame, value))
    starred = [number for number, target in enumerate(targets) if isinstance(target, ast.Starred)]
    if starred:
        first, after = starred[0], len(targets) - starred[0] - 1
        if len(parts) < len(targets) - 1:
            raise ValueError(f"not enough values to unpack (expected at least {len(targets) - 1}, got {len(parts)})")
        middle = parts[first : len(parts) - after]
        frame.interpreter.capture.heap.created(middle)
        parts = [*parts[:first], middle, *parts[len(parts) - after :]]
    elif len(parts) != len(targets):
        relation = "too many values" if len(parts) > len(targets) else "not enough values"
        raise ValueError(f"{relation} to unpack (expected {len(targets)}, got {len(parts)})")
    for target, part in zip(targets, parts, strict=True):
        assign_to(frame, target.value if isinstance(target, ast.Starred) else target, part)


def _set_item(frame: Frame, owner: Value, index: Value, value: Value) -> None:
    if isinstance(owner, Parameter):
        raise frame.unsupported(
            "an assignment to elements of a Parameter", "compute the whole new value and use set_data()"
        )
    if isinstance(owner, Tensor):
        elements = frame.interpreter.capture.elements
        obstacle = elements.obstacle(owner)
        if obstacle or not isinstance(owner, TracedTensor):
            raise frame.unsupported(
                f"an assignment to elements {obstacle}",
                "make a new tensor with ops.where, ops.index_put or ops.scatter_elements, or assign to one made by an "
                "operation in this function, whose views are gone",
            )
        elements.assign(frame.interpreter.capture.heap, owner, index, value)
        return
    if traced(index) or isinstance(index, TracedIterable):
        raise frame.unsupported(
            f"an index of a {type(owner).__name__} that is only known when the graph runs",
            "keep the values in a tensor",
        )
    frame.interpreter.outside.set_item(owner, index, value)


def delete(frame: Frame, target: ast.expr) -> None:
    """Nothing; the target is gone."""
    if isinstance(target, ast.Name):
        frame.forget(target.id)
    elif isinstance(target, ast.Subscript):
        owner, index = frame.value(target.value), frame.value(target.slice)
        if isinstance(owner, Tensor) or traced(index):
            raise frame.unsupported("del of elements of a tensor", "make a new tensor of the rest")
        frame.interpreter.call(owner.__delitem__, (index,), {})
    elif isinstance(target, ast.Tuple | ast.List):
        for part in target.elts:
            delete(frame, part)
    else:
        raise frame.unsupported(f"del of '{ast.unparse(target)}'", "set it to None")
