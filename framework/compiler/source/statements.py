"""Statements: simple ones, `if`, `with`, `try`, and those that no graph can hold."""

import ast

from ..traced import CaptureError
from .expressions import assign_to, delete, made_function
from .frames import Frame, statement
from .graph_effects import check
from .operator_expressions import SIGNS
from .parse import analyse, loads_in
from .paths import BREAK, CONTINUE, NEXT, Flow, PathSplit, Return
from .traced_numbers import Value


@statement(ast.Expr)
def _evaluate(frame: Frame, node: ast.Expr) -> Flow:
    """Evaluate an expression for its effect."""
    if not isinstance(node.value, ast.Constant):
        frame.value(node.value)
    return NEXT


@statement(ast.Pass)
def _nothing(frame: Frame, node: ast.Pass) -> Flow:
    """Do nothing."""
    del frame, node
    return NEXT


@statement(ast.Break)
def _leave(frame: Frame, node: ast.Break) -> Flow:
    """Leave the loop."""
    del frame, node
    return BREAK


@statement(ast.Continue)
def _go_on(frame: Frame, node: ast.Continue) -> Flow:
    """Go on with the next round of the loop."""
    del frame, node
    return CONTINUE


@statement(ast.Return)
def _give_back(frame: Frame, node: ast.Return) -> Flow:
    """End the function with a value."""
    return Return(None if node.value is None else frame.value(node.value))


@statement(ast.Assign)
def _assign(frame: Frame, node: ast.Assign) -> Flow:
    """Run `target = value`."""
    value = frame.value(node.value)
    if _begins_to_fill(frame, node):
        assert isinstance(node.value, ast.Call)
        value = frame.interpreter.capture.elements.local(frame.value(node.value.func), value)
    for target in node.targets:
        assign_to(frame, target, value)
    return NEXT


def _begins_to_fill(frame: Frame, node: ast.Assign) -> bool:
    """Return whether the result of a named function goes to a variable whose elements are assigned somewhere."""
    if not isinstance(node.value, ast.Call):
        return False
    is_named = all(isinstance(x, ast.Name | ast.Attribute | ast.expr_context) for x in ast.walk(node.value.func))
    filled = frame.definition.filled
    return is_named and any(isinstance(target, ast.Name) and target.id in filled for target in node.targets)


@statement(ast.AnnAssign)
def _assign_annotated(frame: Frame, node: ast.AnnAssign) -> Flow:
    """Run `target: type = value`."""
    if node.value is not None:
        assign_to(frame, node.target, frame.value(node.value))
    return NEXT


@statement(ast.AugAssign)
def _update(frame: Frame, node: ast.AugAssign) -> Flow:
    """Run `target += value`; a list is extended in place, as Python does."""
    read = ast.copy_location(_as_load(node.target), node.target)
    before = frame.value(read)
    value = frame.value(node.value)
    if isinstance(before, list) and isinstance(node.op, ast.Add):
        frame.interpreter.call(before.extend, (value,), {})
        after: Value = before
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
    """Run `del target`."""
    for target in node.targets:
        delete(frame, target)
    return NEXT


@statement(ast.Nonlocal)
def _declare(frame: Frame, node: ast.Nonlocal) -> Flow:
    """Do nothing: the analysis of names has seen the declaration."""
    del frame, node
    return NEXT


@statement(ast.FunctionDef)
def _define(frame: Frame, node: ast.FunctionDef) -> Flow:
    """Define a function inside the one that runs."""
    definition = analyse(node, f"{frame.definition.name}.<locals>.{node.name}", frame.file)
    function: Value = made_function(frame, node.args, definition)
    for decorator in reversed(node.decorator_list):
        function = frame.interpreter.call(frame.value(decorator), (function,), {})
    frame.store(node.name, function)
    return NEXT


@statement(ast.If)
def _branch(frame: Frame, node: ast.If) -> Flow:
    """Run `if`: a choice of Python's own, or a choice between two graphs."""
    condition = frame.interpreter.condition(frame, node.test)
    if isinstance(condition, bool):
        return frame.block(node.body if condition else node.orelse)
    split = frame.interpreter.capture.branch(
        condition, lambda: frame.block(node.body), lambda: frame.block(node.orelse)
    )
    mark_dead(frame, node, split)
    return split


def mark_dead(frame: Frame, node: ast.stmt, split: PathSplit) -> None:
    """Tell the split which variables are read nowhere but inside this statement."""
    if frame.loops or frame.definition.has_inner:
        return
    inside = loads_in(node)
    everywhere = frame.definition.loads
    names = {name for name in frame.definition.locals if everywhere.get(name, 0) == inside.get(name, 0)}
    split.dead = frame.scope.variables, frozenset(names)


@statement(ast.Assert)
def _claim(frame: Frame, node: ast.Assert) -> Flow:
    """Run `assert`: checked now if it is known, else when the graph runs."""
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
    """Run `raise`: now, or under a condition on traced values when the graph runs."""
    if node.exc is None:
        raise frame.unsupported("raise without an exception", "name the exception: except Kind as error: raise error")
    error = frame.value(node.exc)
    error = error() if isinstance(error, type) else error
    frame.interpreter.capture.raised = error
    if node.cause is not None:
        raise error from frame.value(node.cause)
    raise error


_REFUSED: dict[type[ast.stmt], tuple[str, str]] = {
    ast.Global: ("a global statement", "return the new value, or keep it in a Parameter"),
    ast.ClassDef: ("a class definition", "define the class outside of the compiled function"),
    ast.Import: ("an import", "import at the top of the file"),
    ast.ImportFrom: ("an import", "import at the top of the file"),
    ast.AsyncFunctionDef: ("an asynchronous function", "define a plain function"),
    ast.AsyncFor: ("an asynchronous loop", "use a plain one"),
    ast.AsyncWith: ("an asynchronous with block", "use a plain one"),
    ast.TryStar: ("except*", "use except"),
}


@statement(*_REFUSED)
def refuse(frame: Frame, node: ast.stmt) -> Flow:
    """Raise an error that names the construct and the remedy."""
    raise frame.unsupported(*_REFUSED[type(node)])


@statement(ast.With)
def with_block(frame: Frame, node: ast.With) -> Flow:
    """Run `with`: the context holds while the block is captured, on all of its paths."""
    return _with_items(frame, node.items, node.body)


def _with_items(frame: Frame, items: list[ast.withitem], body: list[ast.stmt]) -> Flow:
    if not items:
        return frame.block(body)
    manager = frame.value(items[0].context_expr)
    value = manager.__enter__()
    if items[0].optional_vars is not None:
        assign_to(frame, items[0].optional_vars, value)
    try:
        flow = _with_items(frame, items[1:], body)
    except Exception as error:
        if not manager.__exit__(type(error), error, error.__traceback__):
            raise
        raise frame.unsupported(
            f"a with block that swallows {type(error).__name__}", "catch the error with try and except"
        ) from error
    manager.__exit__(None, None, None)
    return flow


@statement(ast.Try)
def try_block(frame: Frame, node: ast.Try) -> Flow:
    """Run `try` around code whose errors are known while it is captured."""
    flow = _handled(frame, node)
    if node.finalbody and isinstance(flow, PathSplit):
        raise frame.unsupported(
            "a finally clause after code that ends in several ways by conditions on traced values",
            "write what it does before each return",
        )
    if node.finalbody:
        last = frame.block(node.finalbody)
        return flow if last is NEXT else last
    return flow


def _handled(frame: Frame, node: ast.Try) -> Flow:
    """Return how the block, its handlers and its `else` end; what no handler takes is raised after `finally`."""
    capture = frame.interpreter.capture
    if node.handlers:
        capture.tries.append(capture.graph)
    graph, depth, frames, tries = capture.graph, len(capture.heap.layers), len(capture.frames), len(capture.tries)
    try:
        flow = frame.block(node.body)
    except Exception as error:
        if capture.graph is not graph or len(capture.heap.layers) != depth:
            raise
        del capture.frames[frames:]
        if node.handlers:
            del capture.tries[tries - 1 :]
        handler = None if isinstance(error, CaptureError) else _matching(frame, node.handlers, error)
        if handler is None:
            if node.finalbody and not isinstance(error, CaptureError):
                frame.block(node.finalbody)
            raise
        return _handle(frame, handler, error)
    if node.handlers:
        del capture.tries[tries - 1 :]
    return frame.block(node.orelse) if flow is NEXT and node.orelse else flow


def _matching(frame: Frame, handlers: list[ast.ExceptHandler], error: Exception) -> ast.ExceptHandler | None:
    for handler in handlers:
        kinds = Exception if handler.type is None else frame.value(handler.type)
        if isinstance(error, kinds):
            return handler
    return None


def _handle(frame: Frame, handler: ast.ExceptHandler, error: Exception) -> Flow:
    if handler.name is None:
        return frame.block(handler.body)
    frame.store(handler.name, error)
    flow = frame.block(handler.body)
    if flow is NEXT:
        frame.forget(handler.name)
    return flow
