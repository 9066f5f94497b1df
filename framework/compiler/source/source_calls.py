"""Calls: which functions are interpreted, which are called as they are, and which need care.

The user's own functions, methods and cells are interpreted from their source. What belongs to the engine, to Python or
to an installed package is called: it works on traced tensors as on others, and says so where it needs values.
"""

from collections.abc import Callable
from functools import partial, reduce
from types import BuiltinMethodType, FunctionType, MethodType, MethodWrapperType
from typing import Any

from ...nn.cell import Cell
from ...tensor import Tensor
from ..jit import Compiled
from ..traced import CaptureError, TracedTensor
from .frames import SPECIAL, Frame, Function, Interpreter, VariableScope, bind, refuse_generator, returning
from .outside_reads import is_library
from .parse import definition_of
from .paths import NEXT, End, PathSplit, Raise, Return
from .recursion import called_once
from .source_gradients import differentiated_call
from .staging import converge
from .traced_numbers import Value

__all__ = ["call", "callable_of"]

_CHANGING = frozenset(
    (
        *("append", "extend", "insert", "pop", "remove", "clear", "sort", "reverse", "appendleft", "popleft"),
        *("update", "setdefault", "popitem", "__setitem__", "__delitem__", "add", "discard"),
        *("difference_update", "intersection_update", "symmetric_difference_update"),
    )
)
_CALLING = (map, filter, sorted, reduce, partial)


def call(interpreter: Interpreter, function: Value, arguments: tuple[Value, ...], options: dict[str, Value]) -> Value:
    """Return what a function returns, whatever kind of function it is."""
    if isinstance(function, Function):
        return invoke(interpreter, function, arguments, options)
    if isinstance(function, MethodType):
        return call(interpreter, function.__func__, (function.__self__, *arguments), options)
    handler = _handler_of(function)
    if handler is not None:
        return handler(interpreter, arguments, options)
    if isinstance(function, FunctionType):
        record = vars(function).get("differentiates")
        if record is not None and record.made is function:
            return differentiated_call(interpreter, record, arguments, options)
        if is_interpreted(function):
            return invoke(interpreter, function_of(interpreter, function), arguments, options)
    elif isinstance(function, type):
        return _create(interpreter, function, arguments, options)
    elif isinstance(function, BuiltinMethodType | MethodWrapperType):
        return _builtin_method(interpreter, function, arguments, options)
    return _called_object(interpreter, function, arguments, options)


def _called_object(
    interpreter: Interpreter, function: Value, arguments: tuple[Value, ...], options: dict[str, Value]
) -> Value:
    """Return the result of an object that can be called: a function compiled on its own becomes part of this graph."""
    if isinstance(function, Compiled):
        return call(interpreter, function._fn, arguments, options)
    if isinstance(function, partial):
        return call(interpreter, function.func, (*function.args, *arguments), {**function.keywords, **options})
    method = vars(type(function)).get("__call__")
    if isinstance(method, FunctionType) and is_interpreted(method) and not isinstance(function, Cell):
        return call(interpreter, method, (function, *arguments), options)
    return _as_it_is(interpreter, function, arguments, options)


def _handler_of(function: Value) -> Callable[..., Value] | None:
    try:
        return SPECIAL.get(function)
    except TypeError:  # not hashable
        return None


def is_interpreted(function: FunctionType) -> bool:
    """Return whether a Python function is the user's own; one that Python wraps around such is, too."""
    if not is_library(function.__code__.co_filename):
        return True
    wrapped = getattr(function, "__wrapped__", None)
    return (
        isinstance(wrapped, FunctionType)
        and function.__code__.co_filename.endswith("contextlib.py")
        and is_interpreted(wrapped)
    )


def function_of(interpreter: Interpreter, function: FunctionType) -> Function:
    """Return a Python function, to be interpreted."""
    found = Function(
        definition_of(function),
        function.__defaults__ or (),
        function.__kwdefaults__ or {},
        interpreter.outside.names_of(function),
        None,
        interpreter,
    )
    found.identity = function
    return found


def invoke(
    interpreter: Interpreter, function: Function, arguments: tuple[Value, ...], options: dict[str, Value]
) -> Value:
    """Return what an interpreted function returns."""
    refuse_generator(function.definition)
    variables = bind(function, arguments, options)
    return called_once(interpreter, function, variables, lambda bound: _run(interpreter, function, bound))


def _run(interpreter: Interpreter, function: Function, variables: dict[str, Value]) -> Value:
    """Return what the body returns for these variables, its paths joined."""
    capture, definition = interpreter.capture, function.definition
    scope = VariableScope(definition.locals, function.outside, function.scope)
    scope.variables.update(variables)
    capture.heap.created(scope.variables)
    frame = Frame(interpreter, definition, scope)
    frame.first = next(iter(variables.values()), None)
    capture.frames.append(frame)
    node = definition.node
    flow = frame.block(node.body) if isinstance(node.body, list) else Return(frame.value(node.body))
    value: Value = None
    if isinstance(flow, PathSplit):
        split = returning(flow)
        if not any(isinstance(end.flow, Return) for end in split.ends):
            split.ends = [_raised(end) for end in split.ends]
        value = converge(capture, split, result=True)
    elif isinstance(flow, Return):
        value = flow.value
    else:
        assert flow is NEXT
    interpreter.checked(value, f"what '{definition.name}' returns")
    capture.frames.pop()
    return value


def _raised(end: End) -> End:
    assert isinstance(end.flow, Raise)
    return end


def _create(interpreter: Interpreter, kind: type, arguments: tuple[Value, ...], options: dict[str, Value]) -> Value:
    """Return a new object."""
    found = _as_it_is(interpreter, kind, arguments, options)
    if isinstance(found, list | dict | set):
        interpreter.capture.heap.created(found)
    elif hasattr(found, "__dict__") and not isinstance(found, Tensor | type):
        interpreter.capture.heap.created(found.__dict__)
    return found


def _builtin_method(
    interpreter: Interpreter, function: Value, arguments: tuple[Value, ...], options: dict[str, Value]
) -> Value:
    """Return the result of a function or method written in C; a container that it changes is noted."""
    owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
    if isinstance(owner, type):
        pass
    elif name in _CHANGING and not isinstance(owner, Tensor):
        interpreter.outside.changing(owner)
    elif isinstance(owner, str) and any(isinstance(x, TracedTensor) for x in (*arguments, *options.values())):
        raise CaptureError(
            f"str.{name} of a traced value has no text yet; print the value, or write it in an f-string that is printed"
        )
    result = _as_it_is(interpreter, function, arguments, options)
    if name in ("copy", "split") and isinstance(result, list | dict | set):
        interpreter.capture.heap.created(result)
    path = interpreter.outside.path_of(owner)
    if path is not None and name in ("get", "__getitem__") and isinstance(owner, dict):
        return interpreter.outside.meet(result, f"{path}[{arguments[0]!r}]")
    return result


def _as_it_is(
    interpreter: Interpreter, function: Any, arguments: tuple[Value, ...], options: dict[str, Value]
) -> Value:
    """Return the result of a function that Python runs itself; the user's functions among its arguments are
    interpreted."""
    if _calls_back(function):
        arguments = tuple(callable_of(interpreter, argument) for argument in arguments)
        options = {name: callable_of(interpreter, value) for name, value in options.items()}
    barriers = interpreter.capture.barriers
    try:
        result = function(*arguments, **options)
    except (CaptureError, TypeError) as error:
        if not any(word in str(error) for word in ("needs the values of a tensor", "does not support ufuncs")):
            raise
        frame = interpreter.frame
        name = getattr(function, "__qualname__", type(function).__name__)
        raise CaptureError(
            f"'{name}', called at {frame.file}:{frame.line}, needs the values of a tensor, which are not known while a "
            f"function is captured; use a function of mindscope.framework.ops, or call it outside of what is compiled"
        ) from error
    if interpreter.capture.barriers > barriers and ".transforms" in (getattr(function, "__module__", None) or ""):
        raise CaptureError(
            f"{function.__name__} of a function with control flow over tensors, inside a compiled function: only "
            f"grad and value_and_grad go through it there; call {function.__name__} outside of what is compiled"
        )
    return result


def _calls_back(function: Value) -> bool:
    if function in _CALLING if isinstance(function, type) else function in (sorted, reduce):
        return True
    code = getattr(function, "__code__", None)
    if getattr(function, "__name__", "").startswith("register_"):  # hooks are called when the graph runs
        return False
    return code is not None and is_library(code.co_filename)


def callable_of(interpreter: Interpreter, value: Value) -> Value:
    """Return a user's function in a form that library code can call and the interpreter runs."""
    if isinstance(value, Compiled):
        return callable_of(interpreter, value._fn)
    if isinstance(value, FunctionType) and "differentiates" in vars(value):
        return lambda *arguments, **options: call(interpreter, value, arguments, options)
    if isinstance(value, FunctionType) and is_interpreted(value):
        return function_of(interpreter, value)
    if isinstance(value, MethodType) and isinstance(value.__func__, FunctionType) and is_interpreted(value.__func__):
        return partial(function_of(interpreter, value.__func__), value.__self__)
    return value
