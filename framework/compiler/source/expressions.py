"""Names, constants, attributes, subscripts, calls, text: the expressions that read values and put them together."""

import ast
from typing import Any

from ...tensor import Tensor
from .flow import Return
from .frame import Frame, expression
from .function import Function
from .meeting import converge
from .parse import analyse
from .unknown import TracedText
from .values import traced

Value = Any  # a value of the user's program


@expression(ast.Constant)
def _constant(frame: Frame, node: ast.Constant) -> Value:
    """A number, a word, None."""
    return node.value


@expression(ast.Name)
def _name(frame: Frame, node: ast.Name) -> Value:
    """The value of a variable."""
    return frame.load(node.id)


@expression(ast.Attribute)
def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    """`object.name`, noted as a guard where the object is not the function's own."""
    owner = frame.value(node.value)
    return frame.interpreter.outside.attribute(owner, mangled(frame, node.attr))


def mangled(frame: Frame, attr: str) -> str:
    """A private name of a class as Python keeps it."""
    if not attr.startswith("__") or attr.endswith("__"):
        return attr
    path = frame.definition.name.replace(".<locals>", "").split(".")
    return f"_{path[-2].lstrip('_')}{attr}" if len(path) > 1 else attr


@expression(ast.Subscript)
def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    """`object[index]`."""
    owner = frame.value(node.value)
    index = frame.value(node.slice)
    return item(frame, owner, index)


def item(frame: Frame, owner: Value, index: Value) -> Value:
    """What stands at an index of a tensor, a list, a dict."""
    if isinstance(owner, Tensor):
        return owner[index]
    if traced(index):
        raise frame.unsupported(
            f"an index of a {type(owner).__name__} that is only known when the graph runs",
            "stack the values into a tensor (ops.stack) and index that",
        )
    return frame.interpreter.outside.item(owner, index)


@expression(ast.Slice)
def _slice_of(frame: Frame, node: ast.Slice) -> slice:
    """`start:stop:step`."""
    parts = [None if part is None else frame.value(part) for part in (node.lower, node.upper, node.step)]
    if any(traced(part) for part in parts):
        raise frame.unsupported(
            "a slice whose bounds are only known when the graph runs",
            "its length would not be known: use ops.where with ops.arange, or take rows by an index tensor",
        )
    return slice(*parts)


@expression(ast.Call)
def _call(frame: Frame, node: ast.Call) -> Value:
    """`function(*arguments, **options)`."""
    interpreter = frame.interpreter
    function = frame.value(node.func)
    arguments: list[Value] = []
    for argument in node.args:
        if isinstance(argument, ast.Starred):
            arguments += interpreter.iterate(frame, frame.value(argument.value))
        else:
            arguments.append(frame.value(argument))
    options: dict[str, Value] = {}
    for keyword in node.keywords:
        if keyword.arg is None:
            options.update(frame.value(keyword.value))
        else:
            options[keyword.arg] = frame.value(keyword.value)
    frame.line = node.lineno
    return interpreter.call(function, tuple(arguments), options)


@expression(ast.Lambda)
def _function(frame: Frame, node: ast.Lambda) -> Function:
    """A function without name."""
    definition = analyse(node, f"{frame.definition.name}.<locals>.<lambda>", frame.file)
    return made_function(frame, node.args, definition)


def made_function(frame: Frame, arguments: ast.arguments, definition: Any) -> Function:
    """A function defined inside the one that runs."""
    defaults = tuple(frame.value(default) for default in arguments.defaults)
    options = {
        argument.arg: frame.value(default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    }
    return Function(definition, defaults, options, frame.scope.outside, frame.scope, frame.interpreter)


@expression(ast.NamedExpr)
def _named(frame: Frame, node: ast.NamedExpr) -> Value:
    """`name := value`."""
    value = frame.value(node.value)
    inner = frame.scope
    while frame.scope.is_part and frame.scope.parent is not None:
        frame.scope = frame.scope.parent
    try:
        frame.store(node.target.id, value)
    finally:
        frame.scope = inner
    return value


@expression(ast.JoinedStr)
def _text(frame: Frame, node: ast.JoinedStr) -> Value:
    """An f-string; with traced values in it it can be printed, or be a message."""
    parts: list[Any] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(part.value)
            continue
        assert isinstance(part, ast.FormattedValue)
        value = frame.value(part.value)
        form = "" if part.format_spec is None else str(frame.value(part.format_spec))
        conversion = {-1: "", 115: "!s", 114: "!r", 97: "!a"}[part.conversion]
        if isinstance(value, TracedText):
            parts += value.parts
        elif traced(value):
            parts.append((value, form or ("!r" if conversion == "!r" else "")))
        else:
            shown = {"": value, "!s": str(value), "!r": repr(value), "!a": ascii(value)} if conversion else {"": value}
            parts.append(format(shown[conversion], form))
    return "".join(parts) if all(isinstance(part, str) for part in parts) else TracedText(parts)


@expression(ast.IfExp)
def _choice(frame: Frame, node: ast.IfExp) -> Value:
    """`a if condition else b`; over a traced condition the choice is made when the graph runs."""
    condition = frame.interpreter.condition(frame, node.test)
    if isinstance(condition, bool):
        return frame.value(node.body if condition else node.orelse)
    return choose(frame, condition, node.body, node.orelse)


def choose(frame: Frame, condition: Value, true: ast.expr, false: ast.expr) -> Value:
    """The value of one of two expressions, of which only one is computed when the graph runs."""
    capture = frame.interpreter.capture
    split = capture.branch(condition, lambda: Return(frame.value(true)), lambda: Return(frame.value(false)))
    return frame.interpreter.checked(converge(capture, split, result=True), "the value of a conditional expression")
