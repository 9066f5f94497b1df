"""One array, or one network, under two names, of which one changes while the other is meant to stay."""

import ast
from collections.abc import Iterator, Sequence
from typing import Final

from ..bindings import Function, called, parameters_of
from ..expressions import blocks_in, is_name, name_of
from ..known_values import values_of_names
from ..names import words_of
from ..trees import walked
from .pattern import Found, Pattern

#: Words of names that are meant to hold what was there before a change, or what was changed.
_KEPT: Final = frozenset(
    {"label", "labels", "target", "targets", "clean", "original", "orig", "y", "gt", "truth", "before", "old", "prev"}
)
_CHANGED: Final = frozenset(
    {"noisy", "noised", "corrupted", "corrupt", "masked", "augmented", "aug", "perturbed", "adv", "dirty"}
)
_TWINS: Final = frozenset({"ref", "reference", "frozen", "teacher", "ema", "target"})
_NETWORKS: Final = frozenset(
    {"model", "policy", "net", "network", "actor", "critic", "student", "encoder", "q", "online"}
)


def _changed_alias(tree: ast.AST) -> Iterator[Found]:
    """`labels = ids` makes no copy: what is written into the one is read from the other."""
    for block in blocks_in(tree):
        for at, name, value in _aliases(block):
            if not (words_of(name) & (_KEPT | _CHANGED) or words_of(value) & _KEPT):
                continue
            rest = block[at + 1 :]
            names = [name, value, *(one for _, one, other in _aliases(rest) if other == value)]
            names += [one for before, one, other in _aliases(block) if other == value and before < at]
            written = next((one for one in rest if any(_writes(one, each) for each in names)), None)
            if written is not None and not _is_given_anew(rest, (name, value), written):
                words = f"{name} is {value} itself, not a copy, and {ast.unparse(written)} changes both"
                yield "formula", words, written.lineno
                break


def _aliases(block: Sequence[ast.stmt]) -> Iterator[tuple[int, str, str]]:
    """Yield place, name and value of the statements of a block that give one name what another has."""
    for at, node in enumerate(block):
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.value, ast.Name):
            target = node.targets[0]
            if isinstance(target, ast.Name) and target.id != node.value.id:
                yield at, target.id, node.value.id


def _changed_argument(tree: ast.AST) -> Iterator[Found]:
    """A function that changes what it is given in place, and returns it, leaves its caller one array by two names."""
    changing = {one.name: one for one in walked(tree) if isinstance(one, Function) and _changes_its_argument(one)}
    for block in blocks_in(tree) if changing else ():
        for at, node in enumerate(block):
            call = node.value if isinstance(node, ast.Assign) else None
            if not isinstance(node, ast.Assign) or not isinstance(call, ast.Call) or called(call) not in changing:
                continue
            given = call.args[0] if call.args else None
            target = node.targets[0]
            if not isinstance(given, ast.Name) or not isinstance(target, ast.Name) or target.id == given.id:
                continue
            if any(_reads(one, given.id) for one in block[at + 1 :]):
                words = f"{called(call)} changes {given.id} in place and returns it: {target.id} is {given.id} itself"
                yield "formula", words, node.lineno


def _changes_its_argument(function: Function) -> bool:
    """Return whether a function writes into its first parameter, which is no number, and returns that."""
    names = [name for name in parameters_of(function) if name != "self"]
    if not names or any(_gives(one, names[0]) for one in walked(function)):
        return False
    returned = [one.value for one in walked(function) if isinstance(one, ast.Return)]
    is_returned = bool(returned) and all(one is not None and is_name(one, names[0]) for one in returned)
    return is_returned and any(_writes_as_array(one, names[0]) for one in walked(function))


def _writes_as_array(node: ast.AST, name: str) -> bool:
    """Return whether a statement writes into an array: by an index, by a method, or adds noise of its own shape."""
    if isinstance(node, ast.AugAssign) and is_name(node.target, name):
        return any(is_name(one, name) for one in walked(node.value))  # `x += sigma * randn_like(x)`
    return isinstance(node, ast.stmt) and _writes(node, name) and not isinstance(node, ast.AugAssign)


def _writes(node: ast.stmt, name: str) -> bool:
    """Return whether a statement changes the array of this name in place, and does nothing else."""
    if isinstance(node, ast.Assign):
        return any(isinstance(one, ast.Subscript) and is_name(one.value, name) for one in node.targets)
    if isinstance(node, ast.AugAssign):
        return isinstance(node.target, ast.Subscript) and is_name(node.target.value, name)
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    is_in_place = call.func.attr.endswith("_") and not call.func.attr.endswith("__")
    return is_in_place and call.func.attr != "requires_grad_" and is_name(call.func.value, name)


def _gives(node: ast.AST, name: str) -> bool:
    """Return whether a statement gives the name another array, such as a copy."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return any(is_name(one, name) for target in targets for one in walked(target) if not _is_part(target))


def _is_part(target: ast.expr) -> bool:
    return isinstance(target, ast.Subscript | ast.Attribute)


def _is_given_anew(block: Sequence[ast.stmt], names: Sequence[str], until: ast.stmt) -> bool:
    """Return whether one of the names is given another array before it is written to."""
    before = block[: block.index(until)]
    return any(_gives(one, name) for statement in before for one in walked(statement) for name in names)


def _reads(statement: ast.stmt, name: str) -> bool:
    return any(is_name(one, name) for one in walked(statement))


def _twin_is_itself(tree: ast.AST) -> Iterator[Found]:
    """A network that stays behind the one that is trained is a copy of it, and not another name for it."""
    given = values_of_names(tree)
    networks = {name for name, values in given.items() if any(_is_made(one) for one in values)}
    for name, values in given.items():
        words = words_of(name)
        is_twin = bool(words & _TWINS) and bool(words & _NETWORKS or len(words) == 1)
        for value in values if is_twin and len(values) == 1 else ():
            other = words_of(name_of(value)) if isinstance(value, ast.Name) else set()
            if other & _NETWORKS and not other & _TWINS and name_of(value) in networks:
                words_told = f"{name} is {name_of(value)} itself, and no copy: it changes with every step"
                yield "formula", words_told, value.lineno


def _is_made(node: ast.expr) -> bool:
    """Return whether a network is made: `Policy(...)`, `nn.Sequential(...)`, `Net(...).to(device)`."""
    while isinstance(node, ast.Call):
        if called(node)[:1].isupper():
            return True
        node = node.func.value if isinstance(node.func, ast.Attribute) else node.func
    return False


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _changed_alias,
    _changed_argument,
    _twin_is_itself,
)
