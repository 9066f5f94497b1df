"""Finds the module that a change is about, by the attribute under which a program keeps it."""

import ast

from .program import Program, last_name


def made_as(program: Program, call: ast.Call) -> str:
    """Return the attribute that holds the module which a call makes, empty if no single one does.

    It is `fc1` of `self.fc1 = nn.Linear(3, 3)`, and `mlp.2` of the third module of `self.mlp = nn.Sequential(...)`.
    Of a module that is handed to anything else, it is the attribute that holds this; an attribute of several classes
    tells none.
    """
    if (kept_by := _class_around(program, call)) is not None and not kept_by.bases:
        return ""  # an object that is no module
    inside: list[str] = []
    node: ast.AST = call
    for around in program.parents(call):
        if isinstance(around, ast.stmt):
            return _path(program, _assigned(around, node), inside)
        if isinstance(around, ast.Call) and last_name(around.func) == "Sequential" and node in around.args:
            has_stars = any(isinstance(given, ast.Starred) for given in around.args)
            inside = [] if has_stars else [str(around.args.index(node)), *inside]
        elif isinstance(around, ast.Tuple) and isinstance(program.parent(around), ast.Assign):
            name = _assigned(program.parent(around), around, around.elts.index(node))
            return _path(program, name, inside)
        else:
            inside = []
        node = around
    return ""


def _path(program: Program, name: str, inside: list[str]) -> str:
    return "" if not name or _is_ambiguous(program, name) else ".".join((name, *inside))


def _assigned(statement: ast.AST | None, value: ast.AST, position: int | None = None) -> str:
    """Return the attribute that a statement gives a value to, or one of several values."""
    if not isinstance(statement, ast.Assign) or statement.value is not value or len(statement.targets) != 1:
        return ""
    target: ast.expr = statement.targets[0]
    if position is not None:
        if not isinstance(target, ast.Tuple) or position >= len(target.elts):
            return ""
        target = target.elts[position]
    return target.attr if isinstance(target, ast.Attribute) else ""


def inside_of(program: Program, node: ast.AST) -> str:
    """Return the attribute that holds the modules of the class around a node, empty if several do, or none.

    The class of a whole model is held by none.
    """
    around = _class_around(program, node)
    if around is None or any(
        last_name(base) == around.name for made in program.nodes(ast.ClassDef) for base in made.bases
    ):
        return ""
    names = {made_as(program, call) for call in program.calls(around.name)}
    if len(names) > 1:
        names = {name.split(".")[0] for name in names}
    return names.pop() if len(names) == 1 else ""


def _class_around(program: Program, node: ast.AST) -> ast.ClassDef | None:
    return next((around for around in program.parents(node) if isinstance(around, ast.ClassDef)), None)


def is_layer(program: Program, attribute: str) -> bool:
    """Return whether what one class calls by this attribute may have parameters: it is no method, and no dropout."""
    methods = {function.name for function in program.nodes(ast.FunctionDef)}
    dropouts = {made_as(program, call) for call in program.calls("Dropout")}
    return attribute not in methods | dropouts and not _is_ambiguous(program, attribute)


def _is_ambiguous(program: Program, attribute: str) -> bool:
    """Return whether several classes keep something under this attribute."""
    stored = [
        node for node in program.nodes(ast.Attribute) if node.attr == attribute and isinstance(node.ctx, ast.Store)
    ]
    return len({_class_around(program, node) for node in stored} - {None}) > 1
