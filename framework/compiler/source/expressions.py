"""Expressions that read values and put them together, comprehensions, and the left side of an assignment."""

import ast
from collections.abc import Callable

from ...tensor import Parameter, Tensor
from ..traced import TracedTensor
from .frames import Frame, Function, expression
from .parse import Definition, analyse
from .paths import Container, Return
from .staging import converge
from .traced_numbers import TracedIterable, TracedNumber, TracedText, Value, traced

__all__ = ["assign_to", "delete"]


@expression(ast.Constant)
def _constant(frame: Frame, node: ast.Constant) -> Value:
    """Return a number, a word, None."""
    return node.value


@expression(ast.Name)
def _name(frame: Frame, node: ast.Name) -> Value:
    """Return the value of a variable."""
    return frame.load(node.id)


@expression(ast.Attribute)
def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    """Return `object.name`, noted as a guard where the object is not the function's own."""
    owner = frame.value(node.value)
    return frame.interpreter.outside.attribute(owner, mangled(frame, node.attr))


def mangled(frame: Frame, attr: str) -> str:
    """Return a private name of a class as Python keeps it."""
    if not attr.startswith("__") or attr.endswith("__"):
        return attr
    path = frame.definition.name.replace(".<locals>", "").split(".")
    return f"_{path[-2].lstrip('_')}{attr}" if len(path) > 1 else attr


@expression(ast.Subscript)
def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    """Return `object[index]`."""
    owner = frame.value(node.value)
    index = frame.value(node.slice)
    return item(frame, owner, index)


def item(frame: Frame, owner: Value, index: Value) -> Value:
    """Return what stands at an index of a tensor, a list, a dict."""
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
    """Return the slice `start:stop:step`."""
    parts = [None if part is None else frame.value(part) for part in (node.lower, node.upper, node.step)]
    if any(traced(part) for part in parts):
        raise frame.unsupported(
            "a slice whose bounds are only known when the graph runs",
            "its length would not be known: use ops.where with ops.arange, or take rows by an index tensor",
        )
    return slice(*parts)


@expression(ast.Call)
def _call(frame: Frame, node: ast.Call) -> Value:
    """Return `function(*arguments, **options)`."""
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
    """Return a function without name."""
    definition = analyse(node, f"{frame.definition.name}.<locals>.<lambda>", frame.file)
    return made_function(frame, node.args, definition)


def made_function(frame: Frame, arguments: ast.arguments, definition: Definition) -> Function:
    """Return a function defined inside the one that runs."""
    defaults = tuple(frame.value(default) for default in arguments.defaults)
    options = {
        argument.arg: frame.value(default)
        for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        if default is not None
    }
    return Function(definition, defaults, options, frame.scope.outside, frame.scope, frame.interpreter)


@expression(ast.NamedExpr)
def _named(frame: Frame, node: ast.NamedExpr) -> Value:
    """Run `name := value`, and return the value."""
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
    """Return an f-string; with traced values in it it can be printed, or be a message."""
    parts: list[str | tuple[Value, str]] = []
    for part in node.values:
        if isinstance(part, ast.Constant):
            parts.append(str(part.value))
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
    words = [part for part in parts if isinstance(part, str)]
    return "".join(words) if len(words) == len(parts) else TracedText(parts)


@expression(ast.IfExp)
def _choice(frame: Frame, node: ast.IfExp) -> Value:
    """Return `a if condition else b`; over a traced condition the choice is made when the graph runs."""
    condition = frame.interpreter.condition(frame, node.test)
    if isinstance(condition, bool):
        return frame.value(node.body if condition else node.orelse)
    return choose(frame, condition, node.body, node.orelse)


def choose(frame: Frame, condition: TracedNumber, true: ast.expr, false: ast.expr) -> Value:
    """Return the value of one of two expressions, of which only one is computed when the graph runs."""
    capture = frame.interpreter.capture
    split = capture.branch(condition, lambda: Return(frame.value(true)), lambda: Return(frame.value(false)))
    return frame.interpreter.checked(converge(capture, split, result=True), "the value of a conditional expression")


def assign_to(frame: Frame, target: ast.expr, value: Value) -> None:
    """Store the value in the target."""
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
    """Store its part in every target."""
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
    """Delete the target."""
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
    """Return `(a, b)`."""
    return tuple(_items(frame, node.elts))


@expression(ast.List)
def _list_display(frame: Frame, node: ast.List) -> Value:
    """Return `[a, b]`."""
    return _new(frame, _items(frame, node.elts))


@expression(ast.Set)
def _set_display(frame: Frame, node: ast.Set) -> Value:
    """Return `{a, b}`."""
    return _new(frame, set(_items(frame, node.elts)))


@expression(ast.Dict)
def _dict_display(frame: Frame, node: ast.Dict) -> Value:
    """Return `{a: b}`."""
    found: dict[Value, Value] = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            found.update(frame.interpreter.outside.content(frame.value(value)))
        else:
            found[frame.value(key)] = frame.value(value)
    return _new(frame, found)


def _new(frame: Frame, container: Container) -> Value:
    frame.interpreter.capture.heap.created(container)
    return container


@expression(ast.ListComp)
def _list_comprehension(frame: Frame, node: ast.ListComp) -> Value:
    """Return `[item for ...]`."""
    found: list[Value] = []
    _generate(frame, node.generators, lambda: found.append(frame.value(node.elt)))
    return _new(frame, found)


@expression(ast.GeneratorExp)
def _generator(frame: Frame, node: ast.GeneratorExp) -> Value:
    """Return `(item for ...)`: all its items at once, as an iterator."""
    found: list[Value] = []
    _generate(frame, node.generators, lambda: found.append(frame.value(node.elt)))
    return iter(found)


@expression(ast.SetComp)
def _set_comprehension(frame: Frame, node: ast.SetComp) -> Value:
    """Return `{item for ...}`."""
    found: set[Value] = set()
    _generate(frame, node.generators, lambda: found.add(frame.value(node.elt)))
    return _new(frame, found)


@expression(ast.DictComp)
def _dict_comprehension(frame: Frame, node: ast.DictComp) -> Value:
    """Return `{key: item for ...}`."""
    found: dict[Value, Value] = {}

    def add() -> None:
        key = frame.value(node.key)
        found[key] = frame.value(node.value)

    _generate(frame, node.generators, add)
    return _new(frame, found)


def _generate(frame: Frame, generators: list[ast.comprehension], yield_one: Callable[[], None]) -> None:
    """Call `yield_one` for every round of the loops of a comprehension, whose lengths are known."""
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
