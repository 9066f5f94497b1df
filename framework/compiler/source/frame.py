"""A running function: its variables, its place in the source, and the tables of what each node of the tree means.

A handler is a function of the frame and the node: an expression gives a value, a statement a `Flow`. They stand in the
files around this one, each in the table under the class of its node.
"""

import ast
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeAlias, TypeVar

from ..traced import CaptureError
from .flow import NEXT, End, Flow, Raise, Return, Split
from .interpreter import Interpreter
from .meeting import converge, extend
from .parse import Definition
from .slots import Variables
from .unknown import Gap

__all__ = ["EXPRESSIONS", "STATEMENTS", "Frame", "Scope", "expression", "statement"]

Value: TypeAlias = Any  # a value of the user's program
_Handler = TypeVar("_Handler", bound=Callable[..., Any])

EXPRESSIONS: dict[type[ast.AST], Callable[["Frame", Any], Value]] = {}
STATEMENTS: dict[type[ast.AST], Callable[["Frame", Any], Flow]] = {}


def expression(*nodes: type[ast.AST]) -> Callable[[_Handler], _Handler]:
    """A decorator: the function gives the value of these nodes."""

    def register(handler: _Handler) -> _Handler:
        EXPRESSIONS.update(dict.fromkeys(nodes, handler))
        return handler

    return register


def statement(*nodes: type[ast.AST]) -> Callable[[_Handler], _Handler]:
    """A decorator: the function runs these nodes."""

    def register(handler: _Handler) -> _Handler:
        STATEMENTS.update(dict.fromkeys(nodes, handler))
        return handler

    return register


class Scope:
    """The variables of one call of a function, and the scopes around it.

    Args:
        names: The names that belong to it.
        outside: Finds what no interpreted scope has: variables from around the outermost function, globals, builtins.
        parent: The scope of the function around it, where that is interpreted too.
        is_part: It belongs to a comprehension: `:=` inside binds in the parent.
    """

    __slots__ = ("is_part", "names", "outside", "parent", "variables")

    def __init__(
        self, names: frozenset[str], outside: Callable[[str], Value], parent: "Scope | None", *, is_part: bool = False
    ) -> None:
        self.names, self.outside, self.parent, self.is_part = names, outside, parent, is_part
        self.variables = Variables()

    def holder(self, name: str) -> "Scope | None":
        """The scope that the name belongs to; None if no interpreted one."""
        scope: Scope | None = self
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

    def __init__(self, interpreter: Interpreter, definition: Definition, scope: Scope) -> None:
        self.interpreter, self.definition, self.scope = interpreter, definition, scope
        self.line = definition.node.lineno
        self.loops = 0
        self.first: Value = None

    @property
    def file(self) -> str:
        """Where the function stands."""
        return self.definition.file

    def unsupported(self, construct: str, remedy: str) -> CaptureError:
        """An error that names file and line."""
        return CaptureError(
            f"{construct} cannot become part of a graph "
            f"({self.file}:{self.line}, in '{self.definition.name}'); {remedy}"
        )

    # Names.

    def load(self, name: str) -> Value:
        """The value of a variable."""
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
        """Nothing; the variable has that value."""
        scope = self.scope.holder(name)
        if scope is None:
            raise self.unsupported(
                f"assigning '{name}', which belongs to code outside of the compiled function,",
                "return the new value instead, or keep it in a Parameter",
            )
        self.interpreter.capture.heap.touch(scope.variables)
        scope.variables[name] = value

    def forget(self, name: str) -> None:
        """Nothing; the variable has no value any more."""
        self.load(name)
        scope = self.scope.holder(name)
        if scope is None:
            raise self.unsupported(f"del of '{name}'", "leave it to the code that owns it")
        self.interpreter.capture.heap.touch(scope.variables)
        del scope.variables[name]

    @contextmanager
    def inner_scope(self, names: frozenset[str]) -> Iterator[None]:
        """A block with variables of its own, those of a comprehension."""
        outer = self.scope
        self.scope = Scope(names, outer.outside, outer, is_part=True)
        self.interpreter.capture.heap.created(self.scope.variables)
        try:
            yield
        finally:
            self.scope = outer

    # Code.

    def value(self, node: ast.AST) -> Value:
        """The value of an expression."""
        handler = EXPRESSIONS.get(type(node))
        if handler is None:
            raise self.unsupported(f"the expression '{_words(node)}'", "write it in another way, or outside of jit")
        return handler(self, node)

    def run(self, node: ast.stmt) -> Flow:
        """How a statement ends."""
        self.line = node.lineno
        self.interpreter.capture.place = self.file, node.lineno
        handler = STATEMENTS.get(type(node))
        if handler is None:
            raise self.unsupported(f"the statement '{_words(node)}'", "write it in another way, or outside of jit")
        return handler(self, node)

    def block(self, nodes: Sequence[ast.stmt]) -> Flow:
        """How statements end that stand one after the other."""
        for number, node in enumerate(nodes):
            flow = self.run(node)
            if flow is NEXT:
                continue
            if isinstance(flow, Split):
                rest = nodes[number + 1 :]
                if not is_settled(flow):
                    return self.after(flow, rest) if rest else flow
                converge(self.interpreter.capture, flow)
                continue
            return flow
        return NEXT

    def after(self, split: Split, nodes: Sequence[ast.stmt]) -> Flow:
        """How a split ends when those of its ends that go on with the next line run these statements."""
        return extend(self.interpreter.capture, split, lambda: self.block(nodes))

    @contextmanager
    def in_loop(self) -> Iterator[None]:
        """A block inside a loop."""
        self.loops += 1
        try:
            yield
        finally:
            self.loops -= 1


_UNBOUND: Any = object()


def is_settled(split: Split) -> bool:
    """Whether all ends go on with the next line (or raise), so that the split can be closed at once."""
    return all(end.flow is NEXT or isinstance(end.flow, Raise) for end in split.ends) and any(
        end.flow is NEXT for end in split.ends
    )


def returning(split: Split) -> Split:
    """The split of a whole function: where the code ends without return, None is returned."""
    ends = [End(Return(None), end.graph, end.changes) if end.flow is NEXT else end for end in split.ends]
    return Split(split.start, split.jumps, ends, split.dead)


def _words(node: ast.AST) -> str:
    try:
        text = ast.unparse(node)
    except (ValueError, RecursionError):
        return type(node).__name__
    return text.splitlines()[0][:60]
