"""Running functions of one capture: the interpreter they share, how arguments become variables, handlers by node.

A handler is a function of the frame and the node: an expression gives a value, a statement a `Flow`. They stand in the
files around this one, each in the table under the class of its node.
"""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from ...tensor import Tensor
from ..traced import CaptureError, TracedTensor
from .outside_reads import OutsideReads
from .parse import Definition
from .paths import NEXT, End, Flow, PathSplit, Raise, Return, Variables
from .staging import SourceCapture, converge, extend
from .traced_numbers import Gap, TracedIterable, TracedNumber, Value, compute, truth

__all__ = [
    "EXPRESSIONS",
    "SPECIAL",
    "STATEMENTS",
    "Frame",
    "Function",
    "Interpreter",
    "VariableScope",
    "bind",
    "expression",
    "special",
    "statement",
]

_Handler = TypeVar("_Handler", bound=Callable[..., object])

# A node is `Any` in the tables: each handler takes its own class of nodes. Arguments are values of the program, with
# which a handler may do what Python does.

# Functions by identity, and what is done when interpreted code calls them: handler(interpreter, arguments, options).
SPECIAL: dict[object, Callable[["Interpreter", tuple[Any, ...], dict[str, Any]], object]] = {}


def special(*functions: object) -> Callable[[_Handler], _Handler]:
    """Return a decorator: interpreted code that calls one of these functions calls the handler."""

    def register(handler: _Handler) -> _Handler:
        SPECIAL.update(dict.fromkeys(functions, handler))
        return handler

    return register


class Interpreter:
    """Runs source code on traced values.

    Args:
        capture: The graph that is being built.
        outside: What code reads that is not its own.
        caller: How a function is called.
        bridge: Makes a user's function one that library code can call.

    Attributes:
        pending: Calls that are running, for recursion: see `recursion.py`.
    """

    def __init__(
        self, capture: SourceCapture, outside: OutsideReads, caller: Callable[..., Value], bridge: Callable[..., Any]
    ) -> None:
        self._bridge = bridge
        self.capture, self.outside, self._caller = capture, outside, caller
        self.pending: list[Any] = []  # of `recursion._Running`; that module imports this one

    @property
    def frame(self) -> "Frame":
        """The innermost function that is running."""
        frame = self.capture.frames[-1]
        assert isinstance(frame, Frame)
        return frame

    def call(self, function: Value, arguments: tuple[Value, ...], options: dict[str, Value]) -> Value:
        """Return what the function returns."""
        return self._caller(self, function, arguments, options)

    def bridge(self, function: Value) -> Any:  # a function, or what is none as it is
        """Return the function in a form that library code can call and the interpreter runs."""
        return self._bridge(self, function)

    def truth(self, value: Value) -> bool | TracedNumber:
        """Return whether a value counts as true: a bool if that is known, else a traced one."""
        if isinstance(value, TracedTensor):
            return truth(value)
        method = getattr(type(value), "__bool__", None)
        if method is not None and not isinstance(value, bool | int | float | complex | Tensor | type(None)):
            return self.truth(self.call(method, (value,), {}))
        return bool(value)

    def condition(self, frame: "Frame", node: ast.expr) -> bool | TracedNumber:
        """Return whether an expression is true: a bool if that is known, else a traced one."""
        return self.truth(frame.value(node))

    def operate(self, sign: str, a: Value, b: Value) -> Value:
        """Return `a sign b`."""
        return compute(sign, a, b)

    def checked(self, value: Value, what: str) -> Value:
        """Return the value, which paths must have agreed about."""
        if isinstance(value, Gap):
            frame = self.frame
            raise CaptureError(f"{what} at {frame.file}:{frame.line} {value.reason}")
        return value

    def iterate(self, frame: "Frame", value: Value) -> Iterable[Value]:
        """Return the items of something whose length is known."""
        if not isinstance(value, TracedIterable):
            items: Iterable[Value] = iter(self.outside.content(value))
            return items
        if not isinstance(value.length, int):
            raise frame.unsupported(
                f"collecting the items of {value.name}, whose number is only known when the graph runs,",
                "a graph has no lists that grow: use a for statement that updates tensors",
            )
        return (value.item(place) for place in range(value.length))


class Function:
    """A function to be interpreted; library code may call it too, while the capture runs.

    Args:
        definition: What it does.
        defaults: Of its last positional parameters.
        options: Defaults of its keyword-only parameters.
        outside: Finds names that no interpreted scope has.
        scope: The scope around it, where that is interpreted.
        interpreter: What runs it.

    Attributes:
        identity: With the definition it tells this function from others: the variables around it.
    """

    def __init__(
        self,
        definition: Definition,
        defaults: tuple[Value, ...],
        options: dict[str, Value],
        outside: Callable[[str], Value],
        scope: "VariableScope | None",
        interpreter: "Interpreter",
    ) -> None:
        self.definition, self.defaults, self.options = definition, defaults, options
        self.outside, self.scope, self.interpreter = outside, scope, interpreter
        self.identity: object = scope
        self.__name__ = definition.name.rpartition(".")[2]
        self.__qualname__ = definition.name

    def __call__(self, *arguments: Value, **options: Value) -> Value:
        """Return what the function returns."""
        return self.interpreter.call(self, arguments, options)

    def __get__(self, instance: Value, owner: type | None = None) -> Value:
        return self if instance is None else _BoundFunction(self, instance)

    def __repr__(self) -> str:
        return f"<function {self.__qualname__}>"


class _BoundFunction:
    """A method made of an interpreted function."""

    def __init__(self, function: Function, instance: Value) -> None:
        self.function, self.instance = function, instance

    def __call__(self, *arguments: Value, **options: Value) -> Value:
        return self.function(self.instance, *arguments, **options)


def bind(function: Function, arguments: tuple[Value, ...], options: dict[str, Value]) -> dict[str, Value]:
    """Return the variables of a call.

    Raises:
        TypeError: The arguments do not fit, in Python's words.
    """
    written: ast.arguments = function.definition.node.args
    name = function.__name__
    positional = [argument.arg for argument in (*written.posonlyargs, *written.args)]
    found: dict[str, Value] = dict(zip(positional, arguments, strict=False))
    rest = dict(options)
    for parameter in (*positional[len(written.posonlyargs) :], *(argument.arg for argument in written.kwonlyargs)):
        if parameter in rest:
            if parameter in found:
                raise TypeError(f"{name}() got multiple values for argument '{parameter}'")
            found[parameter] = rest.pop(parameter)
    with_defaults = positional[len(positional) - len(function.defaults) :] if function.defaults else []
    for parameter, default in (*zip(with_defaults, function.defaults, strict=True), *function.options.items()):
        found.setdefault(parameter, default)
    _collect(written, name, found, arguments[len(positional) :], rest)
    missing = [p for p in (*positional, *(argument.arg for argument in written.kwonlyargs)) if p not in found]
    if missing:
        raise TypeError(f"{name}() missing required argument{'s'[: len(missing) > 1]}: {', '.join(missing)}")
    return found


def _collect(
    written: ast.arguments,
    name: str,
    found: dict[str, Value],
    extra: tuple[Value, ...],
    rest: dict[str, Value],
) -> None:
    """Put what is left over into `*args` and `**kwargs`."""
    if written.vararg is not None:
        found[written.vararg.arg] = extra
    elif extra:
        count = len(written.posonlyargs) + len(written.args)
        raise TypeError(f"{name}() takes {count} positional arguments but {count + len(extra)} were given")
    if written.kwarg is not None:
        found[written.kwarg.arg] = rest
    elif rest:
        raise TypeError(f"{name}() got an unexpected keyword argument '{next(iter(rest))}'")


def refuse_generator(definition: Definition) -> None:
    """Refuse a function that yields."""
    if definition.is_generator:
        raise CaptureError(
            f"generator '{definition.name}' cannot become part of a graph "
            f"({definition.file}:{definition.node.lineno}); return a list, or loop inside the compiled function"
        )


EXPRESSIONS: dict[type[ast.AST], Callable[["Frame", Any], Value]] = {}
STATEMENTS: dict[type[ast.AST], Callable[["Frame", Any], Flow]] = {}


def expression(*nodes: type[ast.AST]) -> Callable[[_Handler], _Handler]:
    """Return a decorator: the function gives the value of these nodes."""

    def register(handler: _Handler) -> _Handler:
        EXPRESSIONS.update(dict.fromkeys(nodes, handler))
        return handler

    return register


def statement(*nodes: type[ast.AST]) -> Callable[[_Handler], _Handler]:
    """Return a decorator: the function runs these nodes."""

    def register(handler: _Handler) -> _Handler:
        STATEMENTS.update(dict.fromkeys(nodes, cast("Callable[[Frame, Any], Flow]", handler)))
        return handler

    return register


class VariableScope:
    """The variables of one call of a function, and the scopes around it.

    Args:
        names: The names that belong to it.
        outside: Finds what no interpreted scope has: variables from around the outermost function, globals, builtins.
        parent: The scope of the function around it, where that is interpreted too.
        is_part: It belongs to a comprehension: `:=` inside binds in the parent.
    """

    __slots__ = ("is_part", "names", "outside", "parent", "variables")

    def __init__(
        self,
        names: frozenset[str],
        outside: Callable[[str], Value],
        parent: "VariableScope | None",
        *,
        is_part: bool = False,
    ) -> None:
        self.names, self.outside, self.parent, self.is_part = names, outside, parent, is_part
        self.variables = Variables()

    def holder(self, name: str) -> "VariableScope | None":
        """Return the scope that the name belongs to; None if no interpreted one."""
        scope: VariableScope | None = self
        while scope is not None and name not in scope.names:
            scope = scope.parent
        return scope


class Frame:
    """One call of an interpreted function.

    Attributes:
        interpreter: What runs it.
        definition: Of the function.
        scope: Its variables.
        line: The line that is running.
        loops: How many loops are around the running statement.
        first: What `super()` without arguments binds to.
    """

    __slots__ = ("definition", "first", "interpreter", "line", "loops", "scope")

    def __init__(self, interpreter: Interpreter, definition: Definition, scope: VariableScope) -> None:
        self.interpreter, self.definition, self.scope = interpreter, definition, scope
        self.line = definition.node.lineno
        self.loops = 0
        self.first: Value = None

    @property
    def file(self) -> str:
        """Where the function stands."""
        return self.definition.file

    def unsupported(self, construct: str, remedy: str) -> CaptureError:
        """Return an error that names file and line."""
        return CaptureError(
            f"{construct} cannot become part of a graph "
            f"({self.file}:{self.line}, in '{self.definition.name}'); {remedy}"
        )

    # Names.

    def load(self, name: str) -> Any:  # as `value`
        """Return the value of a variable."""
        scope = self.scope.holder(name)
        if scope is None:
            return self.scope.outside(name)
        value = scope.variables.get(name, _UNBOUND)
        if value is _UNBOUND:
            raise UnboundLocalError(
                f"cannot access local variable '{name}' where it is not associated with a value "
                f"({self.file}:{self.line})"
            )
        if isinstance(value, Gap):
            raise CaptureError(f"variable '{name}', read at {self.file}:{self.line}, {value.reason}")
        return value

    def store(self, name: str, value: Value) -> None:
        """Store the value in the variable."""
        scope = self.scope.holder(name)
        if scope is None:
            raise self.unsupported(
                f"assigning '{name}', which belongs to code outside of the compiled function,",
                "return the new value instead, or keep it in a Parameter",
            )
        self.interpreter.capture.heap.touch(scope.variables)
        scope.variables[name] = value

    def forget(self, name: str) -> None:
        """Remove the value of the variable."""
        self.load(name)
        scope = self.scope.holder(name)
        if scope is None:
            raise self.unsupported(f"del of '{name}'", "leave it to the code that owns it")
        self.interpreter.capture.heap.touch(scope.variables)
        del scope.variables[name]

    @contextmanager
    def inner_scope(self, names: frozenset[str]) -> Iterator[None]:
        """Open a block with variables of its own, those of a comprehension."""
        outer = self.scope
        self.scope = VariableScope(names, outer.outside, outer, is_part=True)
        self.interpreter.capture.heap.created(self.scope.variables)
        try:
            yield
        finally:
            self.scope = outer

    # Code.

    def value(self, node: ast.AST) -> Any:  # what the program computes, for operations on any value
        """Return the value of an expression."""
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            raise self.unsupported(f"the expression '{_words(node)}'", "write it in another way, or outside of jit")
        return handler(self, node)

    def run(self, node: ast.stmt) -> Flow:
        """Return how a statement ends."""
        self.line = node.lineno
        self.interpreter.capture.place = self.file, node.lineno
        handler = STATEMENTS.get(type(node))
        if handler is None:
            raise self.unsupported(f"the statement '{_words(node)}'", "write it in another way, or outside of jit")
        return handler(self, node)

    def block(self, nodes: Sequence[ast.stmt]) -> Flow:
        """Return how statements end that stand one after the other."""
        for number, node in enumerate(nodes):
            flow = self.run(node)
            if flow is NEXT:
                continue
            if isinstance(flow, PathSplit):
                rest = nodes[number + 1 :]
                if not is_settled(flow):
                    return self.after(flow, rest) if rest else flow
                converge(self.interpreter.capture, flow)
                continue
            return flow
        return NEXT

    def after(self, split: PathSplit, nodes: Sequence[ast.stmt]) -> Flow:
        """Return how a split ends when those of its ends that go on with the next line run these statements."""
        return extend(self.interpreter.capture, split, lambda: self.block(nodes))

    @contextmanager
    def in_loop(self) -> Iterator[None]:
        """Open a block inside a loop."""
        self.loops += 1
        try:
            yield
        finally:
            self.loops -= 1


_UNBOUND: object = object()


def is_settled(split: PathSplit) -> bool:
    """Return whether all ends go on with the next line (or raise), so that the split can be closed at once."""
    return all(end.flow is NEXT or isinstance(end.flow, Raise) for end in split.ends) and any(
        end.flow is NEXT for end in split.ends
    )


def returning(split: PathSplit) -> PathSplit:
    """Return the split of a whole function: where the code ends without return, None is returned."""
    ends = [End(Return(None), end.graph, end.changes) if end.flow is NEXT else end for end in split.ends]
    return PathSplit(split.start, split.jumps, ends, split.dead)


def _words(node: ast.AST) -> str:
    try:
        text = ast.unparse(node)
    except (ValueError, RecursionError):
        return type(node).__name__
    return text.splitlines()[0][:60]
