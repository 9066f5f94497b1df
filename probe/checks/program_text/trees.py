"""The trees of a program's text: how they are made, and all their nodes, which every question walks through."""

import ast
from collections.abc import Mapping
from contextlib import suppress


def walked(node: ast.AST) -> list[ast.AST]:
    """Return a node and all nodes inside of it as `ast.walk` orders them; the latter are kept with the node."""
    inside: list[ast.AST] | None = node.__dict__.get("inside")
    if inside is None:
        inside = node.__dict__["inside"] = list(ast.walk(node))[1:]
    return [node, *inside]


def trees_of(sources: Mapping[str, str]) -> dict[str, ast.Module]:
    """Return the parsed files of a program by path, without those whose text cannot be parsed."""
    found: dict[str, ast.Module] = {}
    for path, text in sources.items():
        with suppress(SyntaxError, ValueError, RecursionError):
            found[path] = ast.parse(text)
    return found
