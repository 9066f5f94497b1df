"""`with` and `try`, and the statements that have no place in a graph."""

import ast
from typing import Any

from ..traced import CaptureError
from .assign import assign_to
from .flow import NEXT, Flow, Split
from .frame import Frame, statement

Value = Any  # a value of the user's program

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
    """Never: an error that names the construct and the remedy."""
    raise frame.unsupported(*_REFUSED[type(node)])


@statement(ast.With)
def with_block(frame: Frame, node: ast.With) -> Flow:
    """`with`: the context holds while the block is captured, on all of its paths."""
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
    """`try` around code whose errors are known while it is captured."""
    flow = _handled(frame, node)
    if node.finalbody and isinstance(flow, Split):
        raise frame.unsupported(
            "a finally clause after code that ends in several ways by conditions on traced values",
            "write what it does before each return",
        )
    if node.finalbody:
        last = frame.block(node.finalbody)
        return flow if last is NEXT else last
    return flow


def _handled(frame: Frame, node: ast.Try) -> Flow:
    """How the block, its handlers and its `else` end; what no handler takes is raised after `finally`."""
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
