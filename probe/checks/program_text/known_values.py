"""What the names of a program are given: all values of each, the numbers among them, and the words behind a name."""

import ast
from collections.abc import Mapping

from .bindings import called
from .expressions import assignments, is_name, names_in, words_in
from .trees import walked


def values_of_names(tree: ast.AST) -> dict[str, list[ast.expr]]:
    """Return by name, or last name of an attribute, all values that it is given."""
    found: dict[str, list[ast.expr]] = {}
    for name, value, _ in assignments(tree):
        found.setdefault(name, []).append(value)
    return found


def known_numbers(tree: ast.AST) -> Mapping[str, float]:
    """Return the numbers that names are given once, as values, fields or defaults; a name with several has none."""
    found: dict[str, set[float]] = {}
    given = [(name, value) for name, value, _ in assignments(tree)]
    for node in walked(tree):
        if isinstance(node, ast.AnnAssign) and node.value is not None and isinstance(node.target, ast.Name):
            given.append((node.target.id, node.value))
        elif isinstance(node, ast.Call) and called(node) == "add_argument":
            given += [(option_of(node), one.value) for one in node.keywords if one.arg == "default"]
        elif isinstance(node, ast.FunctionDef):
            names = [one.arg for one in node.args.args][-len(node.args.defaults) :] if node.args.defaults else []
            given += list(zip(names, node.args.defaults, strict=False))
    for name, value in given:
        is_number = isinstance(value, ast.Constant) and isinstance(value.value, float)
        if is_number and isinstance(value, ast.Constant) and isinstance(value.value, float):
            found.setdefault(name, set()).add(value.value)
        elif not is_name(value, name):
            found.setdefault(name, set()).add(float("nan"))
    return {name: next(iter(values)) for name, values in found.items() if len(values) == 1}


def option_of(call: ast.Call) -> str:
    """Return the name by which a program reads an option that it adds to its command line."""
    named = [one.value.value for one in call.keywords if one.arg == "dest" and isinstance(one.value, ast.Constant)]
    spelled = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    long = max(spelled, key=len, default="").lstrip("-").replace("-", "_")
    return str(named[0]) if named else long


def words_through(node: ast.expr, known: Mapping[str, ast.expr]) -> set[str]:
    """Return the words of an expression, and of what its names were given."""
    names = names_in(node)
    return words_in(node).union(*(words_in(known[name]) for name in names if name in known))
