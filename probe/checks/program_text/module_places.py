"""To which module of the watched model a line of the program's text belongs."""

import ast
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final

from .bindings import Function, bindings_of
from .trees import trees_of, walked

#: Bindings that are followed from a line back to the module that made its values. Our choice.
_FARTHEST: Final = 3


class ModulePlaces:
    """The modules of the watched model, found by lines of the program's files.

    A line of a module's class belongs to its first module of that class, or to the part of it that the statement names.
    A line elsewhere belongs to the module that its statement names, else to the one that gave the values that it
    names, if that is a single one.

    Args:
        modules: By site.
        sources: The texts of the program's own files, by path.
    """

    def __init__(self, modules: Mapping[str, object], sources: Mapping[str, str]) -> None:
        self._modules, self._sources = modules, sources

    def site_of(self, file: str, line: int) -> str:
        """Return the site; empty for the model itself, and where none can be told."""
        tree = self._trees.get(file)
        if tree is None:
            return ""
        around = [*_around(tree, line)]
        for inside in range(len(around), 0, -1):
            site = self._first.get((file, _qualified_name(around[:inside])))
            if site is not None:
                return self._part_of(site, around[inside:])
        return self._used(tree, around)

    def has_class(self, file: str, name: str) -> bool:
        """Return whether a module of this class is watched; True where no modules are known."""
        return not self._modules or any(at == file and kind.rpartition(".")[2] == name for at, kind in self._first)

    @cached_property
    def _trees(self) -> Mapping[str, ast.Module]:  # parsed, like all below, only where a claim is broken
        return trees_of(self._sources)

    @cached_property
    def _sites(self) -> frozenset[str]:
        return frozenset(self._modules) - {""}

    @cached_property
    def _first(self) -> Mapping[tuple[str, str], str]:
        """The first site of each class of the program's files, by file and qualified name."""
        found: dict[tuple[str, str], str] = {}
        for site, module in self._modules.items():
            for kind in type(module).__mro__:
                if (file := _file_of(kind)) in self._trees:
                    found.setdefault((file, kind.__qualname__), site)
        return found

    def _part_of(self, site: str, inside: Sequence[ast.AST]) -> str:
        """Return the part of the module that the innermost statement names as `self.part`, or the module."""
        statement = _innermost_statement(inside)
        if statement is None:
            return site
        named = {one.removeprefix("self.") for one in _dotted(statement) if one.startswith("self.")}
        parts = {f"{site}.{name}" if site else name for name in named} & self._sites
        return parts.pop() if len(parts) == 1 else site

    def _used(self, tree: ast.Module, around: Sequence[ast.AST]) -> str:
        """Return the only module that a statement names, or that gave what it names."""
        statement = _innermost_statement(around)
        if statement is None:
            return ""
        function = next((node for node in reversed(around) if isinstance(node, Function)), tree)
        bindings = bindings_of(function.body)
        waiting: list[ast.AST] = [statement]
        for _ in range(_FARTHEST):
            found = {site for node in waiting for name in _dotted(node) if (site := self._named(name))}
            if found:
                return found.pop() if len(found) == 1 else ""
            names = {node.id for one in waiting for node in walked(one) if isinstance(node, ast.Name)}
            waiting = [
                binding.value
                for name in sorted(names)
                for binding in bindings.get(name, [])
                if binding.value is not None and binding.line < statement.lineno
            ]
        return ""

    def _named(self, name: str) -> str:
        """Return the site that a dotted name of the program ends with."""
        words = name.split(".")
        tails = (".".join(words[at:]) for at in range(len(words)))
        return next((tail for tail in tails if tail in self._sites), "")


#: Places of a program of which no module is known.
NOWHERE: Final = ModulePlaces({}, {})


def _file_of(kind: type) -> str:
    try:
        return os.path.abspath(inspect.getfile(kind))
    except (OSError, TypeError):  # built in, or of a module that is no file
        return ""


def _around(tree: ast.Module, line: int) -> Iterator[ast.AST]:
    """Yield the classes, functions and statements that hold a line, outermost first."""
    body: Sequence[ast.AST] = tree.body
    while body:
        holding = [one for one in body if one.lineno <= line <= (one.end_lineno or 0)]  # type: ignore[attr-defined]
        if not holding:
            return
        yield holding[0]
        body = [one for one in ast.iter_child_nodes(holding[0]) if isinstance(one, ast.stmt)]


def _qualified_name(around: Sequence[ast.AST]) -> str:
    """Return the qualified name, as Python forms it, of the class that ends these; empty where no class does."""
    if not around or not isinstance(around[-1], ast.ClassDef):
        return ""
    names = list[str]()
    for node in around:
        if isinstance(node, ast.ClassDef | Function):
            names += [node.name] if isinstance(node, ast.ClassDef) else [node.name, "<locals>"]
    return ".".join(names)


def _innermost_statement(around: Sequence[ast.AST]) -> ast.stmt | None:
    """Return the statement that a line belongs to; None where it is the head of a function, a class or a block."""
    last = around[-1] if around else None
    is_block = isinstance(last, Function | ast.ClassDef | ast.If | ast.For | ast.While | ast.With | ast.Try)
    return last if isinstance(last, ast.stmt) and not is_block else None


def _dotted(node: ast.AST) -> Iterator[str]:
    """Yield the names that a piece of text uses, with their attributes: `self.encoder.mu`, and `self.encoder`."""
    for one in walked(node):
        if isinstance(one, ast.Name | ast.Attribute):
            text = ast.unparse(one)
            if all(word.isidentifier() for word in text.split(".")):
                yield text
