"""Where the text of a program gives names their values, and which names it reads."""

import ast
import symtable
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from .trees import walked

#: Functions that run other files or modules by name.
_RUN_TEXT = frozenset({"run_path", "run_module", "import_module", "exec_module", "__import__"})

Function = ast.FunctionDef | ast.AsyncFunctionDef
LOOPS = (ast.For, ast.AsyncFor, ast.While)


@dataclass(frozen=True, slots=True)
class Binding:
    """A statement that gives a name its value.

    Args:
        value: What it is given, or what a loop runs over.
        is_part: Whether the name takes a part of the value.
        is_loop: Whether a loop gives it.
        beside: The names that take the other parts.
    """

    line: int
    value: ast.expr | None
    is_part: bool
    is_loop: bool
    beside: frozenset[str] = frozenset()


class Reads(ast.NodeVisitor):
    """What the files of a program read by name, wherever it was given.

    Attributes:
        attributes: Attributes that are read, and strings that could name one.
        names: Plain names.
        imported: Names that one file takes from another.
        strings: How often each string occurs.
        keywords: Keywords that calls are given, other than None.
        takes_all: Whether something reads all attributes or options at once.
        runs_text: Whether something runs text as code, which may read any name.
    """

    def __init__(self) -> None:
        self.attributes: set[str] = set()
        self.names: set[str] = set()
        self.imported: set[str] = set()
        self.strings: Counter[str] = Counter()
        self.keywords: set[str] = set()
        self.takes_all = self.runs_text = False

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Note an attribute that is read."""
        if isinstance(node.ctx, ast.Load):
            self.attributes.add(node.attr)
        self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> None:
        """Note a name that is read."""
        if isinstance(node.ctx, ast.Load):
            self.names.add(node.id)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        """Note what is imported, which the file that has it gives away."""
        self.names.update(one.name for one in node.names)
        self.imported.update(one.name for one in node.names)

    def visit_Constant(self, node: ast.Constant) -> None:
        """Note a string that may name an attribute."""
        if isinstance(node.value, str) and node.value.isidentifier():
            self.attributes.add(node.value)
            self.strings[node.value] += 1

    def visit_Call(self, node: ast.Call) -> None:
        """Note the keywords of a call; the names of options on a command line do not read them."""
        name = called(node)
        self.keywords.update(one.arg for one in node.keywords if one.arg and not _is_none(one.value))
        self.takes_all |= name in ("vars", "asdict", "getattr", "astuple", "fields", "__dict__")
        self.takes_all |= any(one.arg is None for one in node.keywords)
        self.runs_text |= name in _RUN_TEXT or (
            name in ("exec", "globals", "locals", "compile") and isinstance(node.func, ast.Name)
        )
        for child in ast.iter_child_nodes(node):
            if name != "add_argument" or isinstance(child, ast.keyword):
                self.visit(child)


def functions_in(node: ast.AST) -> list[Function]:
    """Return the functions inside of a node, at any depth."""
    return [one for one in walked(node) if isinstance(one, Function)]


def lines_of(node: Function) -> set[int]:
    """Return the lines at which a function may be said to begin: its own, and those of its decorators."""
    return {node.lineno, *(one.lineno for one in node.decorator_list)}


def bindings_of(body: Iterable[ast.stmt]) -> dict[str, list[Binding]]:
    """Return where names of one scope get their values; functions and classes inside have scopes of their own."""
    found: dict[str, list[Binding]] = {}
    waiting: list[ast.AST] = list(body)
    for node in waiting:  # the list grows
        if isinstance(node, Function | ast.ClassDef | ast.Lambda):
            continue
        for target, value, is_loop in _targets(node):
            names = [one for one in walked(target) if isinstance(one, ast.Name)]
            for name in names:
                is_part = not isinstance(target, ast.Name)
                beside = frozenset(one.id for one in names if one is not name)
                found.setdefault(name.id, []).append(Binding(name.lineno, value, is_part, is_loop, beside))
        waiting += ast.iter_child_nodes(node)
    return found


def names_given(body: Iterable[ast.AST], *, times: int = 1) -> Iterator[tuple[str, int]]:
    """Yield names that statements give values, and how often at least; functions inside give their own."""
    for node in body:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id, times
        elif not isinstance(node, Function | ast.ClassDef | ast.Lambda):
            is_again = isinstance(node, (*LOOPS, ast.AugAssign, ast.comprehension))
            yield from names_given(ast.iter_child_nodes(node), times=2 if is_again else times)


def parameters_of(function: Function) -> list[str]:
    """Return the names of a function's parameters, without those that take any number."""
    arguments = function.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def given_to(name: str, function: Function) -> ast.expr:
    """Return the expression that a function gives a name, alone."""
    for node in (part for statement in function.body for part in walked(statement)):
        target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
        if isinstance(node, ast.Assign) and isinstance(target, ast.Name) and target.id == name:
            return node.value
    raise LookupError(name)


def argument_of(function: Function, name: str, call: ast.Call, skipped: int) -> tuple[ast.expr, bool]:
    """Return what a call gives a parameter, and whether that is its default value.

    Args:
        skipped: Parameters in front that no call gives.
    """
    if any(one.arg is None for one in call.keywords) or any(isinstance(one, ast.Starred) for one in call.args):
        raise LookupError(name)
    given = next((one.value for one in call.keywords if one.arg == name), None)
    if given is not None:
        return given, False
    ordered = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    at = ordered.index(name) if name in ordered else -1
    if 0 <= at - skipped < len(call.args):
        return call.args[at - skipped], False
    defaults = dict(zip(reversed(ordered), reversed(function.args.defaults), strict=False))
    alone = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    defaults |= {one.arg: value for one, value in alone if value is not None}
    if name not in defaults:
        raise LookupError(name)
    return defaults[name], True


def scopes_in(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    """Yield the scopes inside of one, at any depth."""
    for child in table.get_children():
        yield child
        yield from scopes_in(child)


def is_unread(symbol: symtable.Symbol, scope: symtable.SymbolTable) -> bool:
    """Return whether neither this scope nor a function inside of it reads a name of its own."""
    name = symbol.get_name()
    if not symbol.is_local() or symbol.is_referenced() or symbol.is_imported() or symbol.is_namespace():
        return False
    inside = [one.lookup(name) for one in scopes_in(scope) if name in one.get_identifiers()]
    is_top = scope.get_type() == "module"
    return not any(one.is_free() or (is_top and one.is_global() and one.is_referenced()) for one in inside)


def called(node: ast.AST | None) -> str:
    """Return the last name of the function that a call calls; empty if it is no call, or the function has no name."""
    function = node.func if isinstance(node, ast.Call) else None
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def goes_backward(scope: ast.AST) -> bool:
    """Return whether a scope calls `backward`, so that it trains."""
    return any(called(one) == "backward" for one in walked(scope))


def is_given(node: Function, name: str, reads: Reads) -> bool:
    """Return whether callers give this parameter: it has no default, or a call names it."""
    ordered = [*node.args.posonlyargs, *node.args.args]
    required = ordered[: len(ordered) - len(node.args.defaults)]
    alone = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
    is_required = name in {one.arg for one in required} | {one.arg for one, value in alone if value is None}
    is_variadic = name in {one.arg for one in (node.args.vararg, node.args.kwarg) if one is not None}
    return not is_variadic and (is_required or name in reads.keywords)


def _targets(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None, bool]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            pairs = pairs_of(target, node.value)
            yield from ((one, value, False) for one, value in pairs if isinstance(one, ast.Name | ast.Tuple | ast.List))
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        yield node.target, node.value, False
    elif isinstance(node, ast.For) and isinstance(node.target, ast.Tuple):
        yield node.target, node.iter, True


def pairs_of(target: ast.expr, value: ast.expr) -> list[tuple[ast.expr, ast.expr]]:
    """Return `a, b = x, y` as two assignments, and any other as it is."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return list(zip(target.elts, value.elts, strict=True))
    return [(target, value)]


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
