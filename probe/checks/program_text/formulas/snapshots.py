"""What is kept of a model to be gone back to, or compared with: it has to be a copy."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import LOOPS, called, functions_in
from ..expressions import assignments, calls_in, name_of
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

#: Words for values of an earlier time.
_EARLIER: Final = frozenset(
    {
        "old", "star", "anchor", "anchors", "prev", "previous", "initial", "init", "start", "snapshot", "reference",
        "ref", "before", "best", "backup", "saved", "original", "orig", "consolidated", "optimal", "theta0",
    }
)  # fmt: skip
_SOURCES: Final = ("named_parameters", "parameters", "items", "values")


def _kept_state(tree: ast.AST) -> Iterator[Found]:
    """`state_dict()` gives the tensors that training goes on to write to, so what is kept is a copy of them."""
    loaded = {}
    for call in calls_in(tree, "load_state_dict"):
        if isinstance(call.func, ast.Attribute) and call.args and name_of(call.args[0]):
            loaded[ast.unparse(call.args[0])] = (ast.unparse(call.func.value), call.lineno)
    kept = [(name, value, line) for name, value, line in _named(tree) if name in loaded]
    for name, value, line in kept:
        owner, loaded_at = loaded[name]
        others = [one for other, one, _ in kept if other == name and not _is_nothing(one)]
        is_alone = all(_is_state_of(one, owner) for one in others)
        is_new = any(other == owner and line < at for other, _, at in _named(tree))
        is_alone &= not _is_written(tree, name)  # which is how a model is given other weights
        if _is_state_of(value, owner) and is_alone and not is_new and _is_trained_between(tree, line, loaded_at):
            words = (
                f"{name} = {ast.unparse(value)} keeps no copy but the tensors that training goes on to change, so "
                f"{owner}.load_state_dict({name}) gives the model what it has already"
            )
            yield "formula", words, line


def _is_written(tree: ast.AST, name: str) -> bool:
    """Return whether entries of a dictionary are replaced, or written in place."""
    updates = (call.func for call in calls_in(tree, "update"))
    is_updated = any(isinstance(one, ast.Attribute) and ast.unparse(one.value) == name for one in updates)
    return is_updated or any(isinstance(one, ast.Subscript) and ast.unparse(one.value) == name for one in walked(tree))


def _is_trained_between(tree: ast.AST, kept_at: int, loaded_at: int) -> bool:
    """Return whether a loop may step between two lines: it holds one of them, or stands between both.

    What is loaded above the line that keeps it, by the same function, is loaded again where a loop holds both.
    """
    is_before = loaded_at < kept_at and _function_at(tree, kept_at) is _function_at(tree, loaded_at)
    for loop in walked(tree):
        if isinstance(loop, LOOPS):
            first, last = loop.lineno, loop.end_lineno or loop.lineno
            holds = [first <= one <= last for one in (kept_at, loaded_at)]
            if all(holds) or (not is_before and (any(holds) or kept_at < first < loaded_at)):
                return True
    return False


def _function_at(tree: ast.AST, line: int) -> ast.AST | None:
    around = [one for one in functions_in(tree) if one.lineno <= line <= (one.end_lineno or one.lineno)]
    return max(around, key=lambda one: one.lineno, default=None)


def _named(tree: ast.AST) -> Iterator[tuple[str, ast.expr, int]]:
    """Yield the whole spelling of each name or attribute that is given a value, `self.best` too."""
    for node in walked(tree):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target = node.targets[0]
            if isinstance(target, ast.Name | ast.Attribute):
                yield ast.unparse(target), node.value, node.lineno


def _is_state_of(value: ast.expr, owner: str) -> bool:
    """Return whether a value is `owner.state_dict()`, or its items without copies."""
    if isinstance(value, ast.DictComp) and isinstance(value.value, ast.Name):
        source = value.generators[0].iter
        value = source.func.value if isinstance(source, ast.Call) and isinstance(source.func, ast.Attribute) else value
    is_state = isinstance(value, ast.Call) and called(value) == "state_dict" and isinstance(value.func, ast.Attribute)
    return is_state and isinstance(value, ast.Call) and ast.unparse(value.func) == f"{owner}.state_dict"


def _is_nothing(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) or (isinstance(value, ast.Dict) and not value.keys)


def _kept_parameters(tree: ast.AST) -> Iterator[Found]:
    """`p.data` and `p.detach()` share their memory with the parameter, so what is kept of them is a copy."""
    rebinds = any(
        isinstance(node, ast.Assign)
        and any(isinstance(one, ast.Attribute) and one.attr == "data" for one in node.targets)
        for node in walked(tree)
    )
    if rebinds or next(calls_in(tree, "step"), None) is None:
        return
    for name, value, line in assignments(tree):
        part = _part_of_parameters(value)
        if part and words_of(name) & _EARLIER:
            words = f"{name} holds {part}, which shares its memory with the parameter: both change with every step"
            yield "formula", words, line


def _part_of_parameters(value: ast.expr) -> str:
    """Return what a list or dictionary holds of each parameter, if that is `p.data` or `p.detach()`."""
    if isinstance(value, ast.Call) and called(value) in ("list", "tuple", "dict") and len(value.args) == 1:
        value = value.args[0]
    if isinstance(value, ast.DictComp):
        part, source = value.value, value.generators[0].iter
    elif isinstance(value, ast.ListComp | ast.GeneratorExp):
        part, source = value.elt, value.generators[0].iter
    else:
        return ""
    if called(source) not in _SOURCES or "parameters" not in ast.unparse(source):
        return ""
    is_data = isinstance(part, ast.Attribute) and part.attr == "data" and isinstance(part.value, ast.Name)
    is_detached = isinstance(part, ast.Call) and called(part) == "detach" and not part.args
    if is_detached and isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute):
        is_detached = isinstance(part.func.value, ast.Name)
    return ast.unparse(part) if is_data or is_detached else ""


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (_kept_state, _kept_parameters)
