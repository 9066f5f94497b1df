"""Where a Python function stands in its file: the node of the syntax tree, found by line and checked by position."""

import ast
import linecache
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, FunctionType
from typing import TypeAlias

from ..traced import CaptureError

__all__ = ["Definition", "FunctionNode", "analyse", "analyse_names", "definition_of", "loads_in"]

FunctionNode: TypeAlias = ast.FunctionDef | ast.Lambda

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """A function as it is written.

    Attributes:
        node: Its definition.
        name: For messages.
        file: Where it stands.
        locals: The names that belong to it.
        outer: Names declared `nonlocal`.
        has_inner: Whether functions are defined inside, which may keep its variables.
        is_generator: Whether it yields.
        filled: The names to whose items it assigns.
        loads: How often each name is read in it and in the functions inside.
    """

    node: FunctionNode
    name: str
    file: str
    locals: frozenset[str]
    outer: frozenset[str]
    has_inner: bool
    is_generator: bool
    filled: frozenset[str]
    loads: dict[str, int]


_definitions: dict[CodeType, Definition] = {}


def definition_of(function: FunctionType) -> Definition:
    """Return the definition of a Python function.

    Raises:
        CaptureError: Its source is not there, or cannot be told from another on the same line.
    """
    code = function.__code__
    if code not in _definitions:
        _definitions[code] = analyse(_find(code), function.__qualname__, code.co_filename)
    return _definitions[code]


@lru_cache(maxsize=4096)
def _cached(node: FunctionNode, name: str, file: str) -> Definition:
    names = _Names()
    arguments = node.args
    parameters = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    names.stored.update(parameter.arg for parameter in parameters if parameter is not None)
    body = node.body if isinstance(node, ast.FunctionDef) else [node.body]
    for part in body:
        names.visit(part)
    return Definition(
        node,
        name,
        file,
        locals=frozenset(names.stored - names.outer),
        outer=frozenset(names.outer),
        has_inner=names.has_inner,
        is_generator=names.is_generator,
        filled=frozenset(names.filled),
        loads=loads_in(*body),
    )


def analyse(node: FunctionNode, name: str, file: str) -> Definition:
    """Return the definition that a node is."""
    return _cached(node, name, file)


def analyse_names(*nodes: ast.AST) -> frozenset[str]:
    """Return the names that these nodes bind."""
    names = _Names()
    for node in nodes:
        names.visit(node)
    return frozenset(names.stored | names.outer)


def loads_in(*nodes: ast.AST) -> dict[str, int]:
    """Return how often each name is read below these nodes."""
    found: dict[str, int] = {}
    for top in nodes:
        for node in ast.walk(top):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                found[node.id] = found.get(node.id, 0) + 1
    return found


class _Names(ast.NodeVisitor):
    """The names that a function binds, itself and not the functions inside it."""

    def __init__(self) -> None:
        self.stored: set[str] = set()
        self.outer: set[str] = set()
        self.filled: set[str] = set()
        self.has_inner = False
        self.is_generator = False

    def visit(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self.stored.add(node.id)
        elif (
            isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name)
        ):
            self.filled.add(node.value.id)
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
            self.stored.add(node.name)
        elif isinstance(node, ast.MatchMapping) and node.rest:
            self.stored.add(node.rest)
        elif isinstance(node, ast.Nonlocal):
            self.outer.update(node.names)
        elif isinstance(node, ast.alias):
            self.stored.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.Yield | ast.YieldFrom | ast.Await):
            self.is_generator = True
        if isinstance(node, _SCOPES):
            self._inner(node)
        elif isinstance(node, _COMPREHENSIONS):
            self._comprehension(node)
        else:
            self.generic_visit(node)

    def _inner(self, node: ast.AST) -> None:
        self.has_inner = True
        name = getattr(node, "name", None)
        if name is not None:
            self.stored.add(name)
        for outside in [*getattr(node, "decorator_list", []), *_defaults(node)]:
            self.visit(outside)

    def _comprehension(self, node: ast.AST) -> None:
        """Note the names that a comprehension binds here: its variables are its own, only a `:=` inside binds."""
        for inner in ast.walk(node):
            if isinstance(inner, ast.NamedExpr):
                self.stored.add(inner.target.id)
            elif isinstance(inner, ast.Lambda):
                self.has_inner = True


def _defaults(node: ast.AST) -> list[ast.expr]:
    arguments = getattr(node, "args", None)
    if not isinstance(arguments, ast.arguments):
        return []
    return [*arguments.defaults, *(default for default in arguments.kw_defaults if default is not None)]


def _find(code: CodeType) -> FunctionNode:
    found = _functions_of(code.co_filename, tuple(linecache.getlines(code.co_filename))).get(code.co_firstlineno, [])
    if code.co_name == "<lambda>":
        candidates: list[FunctionNode] = [node for node in found if isinstance(node, ast.Lambda)]
        if len(candidates) > 1:
            candidates = [node for node in candidates if _end_of_node(node) == _end_of_code(code)]
    else:
        candidates = [node for node in found if isinstance(node, ast.FunctionDef) and node.name == code.co_name]
    if len(candidates) == 1:
        return candidates[0]
    where = f"{code.co_filename}:{code.co_firstlineno}"
    if candidates:
        raise CaptureError(f"the lambdas on one line cannot be told apart ({where}); write each on its own line")
    raise CaptureError(
        f"the source of '{code.co_name}' is not available ({where}); "
        f'define it in a file, or compile with capture_mode="trace" or "bytecode"'
    )


@lru_cache(maxsize=512)
def _functions_of(file: str, lines: tuple[str, ...]) -> dict[int, list[FunctionNode]]:
    """Return the functions in a file by the line that their code objects name."""
    del file
    found: dict[int, list[FunctionNode]] = {}
    for node in ast.walk(ast.parse("".join(lines))):
        if isinstance(node, ast.FunctionDef):
            first = node.decorator_list[0].lineno if node.decorator_list else node.lineno
            found.setdefault(first, []).append(node)
        elif isinstance(node, ast.Lambda):
            found.setdefault(node.lineno, []).append(node)
    return found


def _end_of_node(node: FunctionNode) -> tuple[int, int]:
    assert isinstance(node, ast.Lambda)
    return node.body.end_lineno or 0, node.body.end_col_offset or 0


def _end_of_code(code: CodeType) -> tuple[int, int]:
    """Return where the body of a lambda ends, from the positions of its instructions."""
    ends = [(end_line, end) for _, end_line, _, end in code.co_positions() if end_line is not None and end is not None]
    return max(ends, default=(0, 0))
