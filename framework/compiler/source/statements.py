"""Statements without control flow of their own, and `if`."""

import ast
from typing import Any

from .assign import assign_to, delete
from .effects import check
from .expressions import made_function
from .flow import BREAK, CONTINUE, NEXT, Flow, Return, Split
from .frame import Frame, statement
from .operators import SIGNS
from .parse import analyse, loads_in

Value = Any  # a value of the user's program


@statement(ast.Expr)
def _evaluate(frame: Frame, node: ast.Expr) -> Flow:
    """An expression for its effect."""
    if not isinstance(node.value, ast.Constant):
        frame.value(node.value)
    return NEXT


@statement(ast.Pass)
def _nothing(frame: Frame, node: ast.Pass) -> Flow:
    """Nothing."""
    del frame, node
    return NEXT


@statement(ast.Break)
def _leave(frame: Frame, node: ast.Break) -> Flow:
    """The loop ends."""
    del frame, node
    return BREAK


@statement(ast.Continue)
def _go_on(frame: Frame, node: ast.Continue) -> Flow:
    """The next round of the loop."""
    del frame, node
    return CONTINUE


@statement(ast.Return)
def _give_back(frame: Frame, node: ast.Return) -> Flow:
    """The function ends."""
    return Return(None if node.value is None else frame.value(node.value))


@statement(ast.Assign)
def _assign(frame: Frame, node: ast.Assign) -> Flow:
    """`target = value`."""
    value = frame.value(node.value)
    if _begins_to_fill(frame, node):
        assert isinstance(node.value, ast.Call)
        value = frame.interpreter.capture.elements.local(frame.value(node.value.func), value)
    for target in node.targets:
        assign_to(frame, target, value)
    return NEXT


def _begins_to_fill(frame: Frame, node: ast.Assign) -> bool:
    """Whether the result of a named function goes to a variable whose elements are assigned somewhere."""
    if not isinstance(node.value, ast.Call):
        return False
    is_named = all(isinstance(x, ast.Name | ast.Attribute | ast.expr_context) for x in ast.walk(node.value.func))
    filled = frame.definition.filled
    return is_named and any(isinstance(target, ast.Name) and target.id in filled for target in node.targets)


@statement(ast.AnnAssign)
def _assign_annotated(frame: Frame, node: ast.AnnAssign) -> Flow:
    """`target: type = value`."""
    if node.value is not None:
        assign_to(frame, node.target, frame.value(node.value))
    return NEXT


@statement(ast.AugAssign)
def _update(frame: Frame, node: ast.AugAssign) -> Flow:
    """`target += value`; a list is extended in place, as Python does."""
    read = ast.copy_location(_as_load(node.target), node.target)
    before = frame.value(read)
    value = frame.value(node.value)
    if isinstance(before, list) and isinstance(node.op, ast.Add):
        frame.interpreter.call(before.extend, (value,), {})
        after = before
    else:
        after = frame.interpreter.operate(SIGNS[type(node.op)], before, value)
    del before, value  # views of the target, if that is an element of a tensor
    assign_to(frame, node.target, after)
    return NEXT


def _as_load(target: ast.expr) -> ast.expr:
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load())
    if isinstance(target, ast.Attribute):
        return ast.Attribute(target.value, target.attr, ast.Load())
    assert isinstance(target, ast.Subscript)
    return ast.Subscript(target.value, target.slice, ast.Load())


@statement(ast.Delete)
def _remove(frame: Frame, node: ast.Delete) -> Flow:
    """`del target`."""
    for target in node.targets:
        delete(frame, target)
    return NEXT


@statement(ast.Nonlocal)
def _declare(frame: Frame, node: ast.Nonlocal) -> Flow:
    """Nothing; the analysis of names has seen it."""
    del frame, node
    return NEXT


@statement(ast.FunctionDef)
def _define(frame: Frame, node: ast.FunctionDef) -> Flow:
    """A function inside the one that runs."""
    definition = analyse(node, f"{frame.definition.name}.<locals>.{node.name}", frame.file)
    function: Value = made_function(frame, node.args, definition)
    for decorator in reversed(node.decorator_list):
        function = frame.interpreter.call(frame.value(decorator), (function,), {})
    frame.store(node.name, function)
    return NEXT


@statement(ast.If)
def _branch(frame: Frame, node: ast.If) -> Flow:
    """`if`: a choice of Python's own, or a choice between two graphs."""
    condition = frame.interpreter.condition(frame, node.test)
    if isinstance(condition, bool):
        return frame.block(node.body if condition else node.orelse)
    split = frame.interpreter.capture.branch(
        condition, lambda: frame.block(node.body), lambda: frame.block(node.orelse)
    )
    mark_dead(frame, node, split)
    return split


def mark_dead(frame: Frame, node: ast.stmt, split: Split) -> None:
    """Nothing; the split knows the variables that are read nowhere but inside this statement."""
    if frame.loops or frame.definition.has_inner:
        return
    inside = loads_in(node)
    everywhere = frame.definition.loads
    names = {name for name in frame.definition.locals if everywhere.get(name, 0) == inside.get(name, 0)}
    split.dead = frame.scope.variables, frozenset(names)


@statement(ast.Assert)
def _claim(frame: Frame, node: ast.Assert) -> Flow:
    """`assert`: checked now if it is known, else when the graph runs."""
    capture = frame.interpreter.capture
    condition = frame.interpreter.condition(frame, node.test)
    if condition is True:
        return NEXT
    message = None if node.msg is None else frame.value(node.msg)
    if condition is False:
        capture.raised = AssertionError() if node.msg is None else AssertionError(message)
        raise capture.raised
    check(capture, condition, f"assertion failed: {ast.unparse(node.test)}" if message is None else message)
    return NEXT


@statement(ast.Raise)
def _throw(frame: Frame, node: ast.Raise) -> Flow:
    """`raise`: now, or under a condition on traced values when the graph runs."""
    if node.exc is None:
        raise frame.unsupported("raise without an exception", "name the exception: except Kind as error: raise error")
    error = frame.value(node.exc)
    error = error() if isinstance(error, type) else error
    frame.interpreter.capture.raised = error
    if node.cause is not None:
        raise error from frame.value(node.cause)
    raise error
