"""Results that a program computes and drops: functions of torch that change nothing in place, and calls without ()."""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from ..check_result import CheckResult, broken, held
from .bindings import Function, called
from .module_places import NOWHERE, ModulePlaces
from .reach import Place, Reach
from .trees import trees_of, walked

USED: Final = "results_are_used"
_CLAIM = "the program uses the results of functions that change nothing in place"
_MOST_TOLD: Final = 4
#: Methods of tensors and arrays that return what they compute and leave alone what they are called on. Left out are
#: those that modules (`float`, `to`), sets (`add`), files (`replace`) or plots (`scatter`) have as well.
_METHODS: Final = frozenset(
    {
        "masked_fill", "masked_scatter", "index_fill", "index_add", "index_copy", "scatter_add", "clamp", "clamp_min",
        "clamp_max", "permute", "transpose", "unsqueeze", "squeeze", "softmax", "log_softmax", "sigmoid",
        "tanh", "relu", "reshape", "view", "flatten", "expand", "expand_as", "type_as", "astype", "mul", "sub", "div",
        "lerp", "addcmul", "addcdiv", "fillna", "dropna", "sort_values", "nan_to_num",
    }
)  # fmt: skip
#: Methods of which graphs and pictures have others that take nothing.
_WITH_ARGUMENTS: Final = frozenset({"view", "reshape", "permute", "transpose", "expand", "clamp"})
#: Functions of torch and NumPy of which the same holds.
_FUNCTIONS: Final = frozenset(
    {
        "dropout", "normalize", "relu", "gelu", "where", "cat", "concat", "concatenate", "stack", "flip", "roll",
        "clip", "permutation", "randperm",
    }
)  # fmt: skip
_MODULES: Final = frozenset(
    {"torch", "F", "np", "numpy", "jnp", "functional", "nn.functional", "torch.nn.functional", "np.random"}
)
_BUILTINS: Final = frozenset({"sorted", "reversed"})
#: Methods that are called for what they do: named without parentheses, they do nothing.
_DOERS: Final = frozenset(
    {"step", "zero_grad", "backward", "eval", "train", "detach", "cuda", "reset_parameters", "requires_grad_"}
)  # fmt: skip
#: Functions whose result is made anew by each call: what is written into it is lost.
_ANEW: Final = frozenset({"state_dict", "parameters", "named_parameters", "children", "modules"})
_COPIERS: Final = frozenset({"list", "dict", "tuple"})
#: Keywords by which a function writes into what it is given.
_WRITES: Final = frozenset({"out", "inplace"})
#: Operations whose `add` is that of a tensor.
_OF_TENSORS: Final = frozenset({"data", "grad"})


def results_are_used(
    sources: Mapping[str, str], *, running: frozenset[Place] = frozenset(), places: ModulePlaces = NOWHERE
) -> CheckResult:
    """Return whether a program uses the results of its calls that do nothing else than return them."""
    found = discarded_results(sources, running=running)
    if not found:
        return held(USED, _CLAIM)
    words = "; ".join(f"{Path(file).name}:{line}: {words}" for file, line, words in found[:_MOST_TOLD])
    more = f"; and {len(found) - _MOST_TOLD} more" if len(found) > _MOST_TOLD else ""
    file, line, _ = found[0]
    found_at = f"{Path(file).name}:{line}"
    where = places.site_of(file, line)
    return broken(USED, _CLAIM, words + more, subject=found_at, values=float(len(found))).at(where)


def discarded_results(
    sources: Mapping[str, str], *, running: frozenset[Place] = frozenset()
) -> list[tuple[str, int, str]]:
    """Return file, line and words of each statement that computes something and drops it.

    Args:
        sources: The texts of the program's own files, by path; a text that cannot be parsed is left out.
        running: The functions that are running: what does not belong to their training is left out.
    """
    trees = trees_of(sources)
    own = {node.name for tree in trees.values() for node in walked(tree) if isinstance(node, Function)}
    reach = Reach(trees, running)
    found: list[tuple[str, int, str]] = []
    for path, tree in trees.items():
        scopes: list[tuple[list[ast.stmt], bool]] = [(tree.body, path in reach.files)]
        scopes += [(node.body, reach.has(node)) for node in walked(tree) if isinstance(node, Function)]
        for body, is_reached in scopes:
            for statement in _statements(body) if is_reached else ():
                words = _dropped(statement, own)
                if words:
                    found.append((path, statement.lineno, words))
    return sorted(found)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a scope at any depth; those that are tried for what they raise are left out."""
    for statement in body:
        if isinstance(statement, Function | ast.ClassDef | ast.Try):
            if isinstance(statement, ast.Try):
                yield from _statements([*statement.orelse, *statement.finalbody])
            continue
        yield statement
        is_raising = isinstance(statement, ast.With) and "raises" in ast.unparse(statement.items[0])
        for name in ("body", "orelse"):
            yield from _statements([] if is_raising else getattr(statement, name, []))


def _dropped(statement: ast.stmt, own: set[str]) -> str:
    """Return what a statement computes and drops, in words; empty if it does something."""
    if isinstance(statement, ast.Assign) and _is_made_anew(statement.targets[0]):
        return f"{ast.unparse(statement.targets[0])} is given a value in a copy that nothing keeps"
    value = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(value, ast.Attribute) and value.attr in _DOERS:
        return f"{ast.unparse(value)} is named, and not called"
    if isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.Eq) and isinstance(value.left, ast.Attribute):
        return f"{ast.unparse(value)} compares, and assigns nothing"
    if not isinstance(value, ast.Call) or called(value) in own or any(one.arg in _WRITES for one in value.keywords):
        return ""
    if called(value) == "update" and isinstance(value.func, ast.Attribute) and _is_anew(value.func.value):
        return f"{ast.unparse(value)} changes a copy that nothing keeps"
    return f"the result of {ast.unparse(value)} is dropped, and nothing else is done" if _is_pure(value) else ""


def _is_pure(call: ast.Call) -> bool:
    name, function = called(call), call.func
    if isinstance(function, ast.Name):
        return name in _BUILTINS
    if not isinstance(function, ast.Attribute):
        return False
    owner = ast.unparse(function.value)
    if name in _WITH_ARGUMENTS and not call.args and not call.keywords:
        return False
    if owner in _MODULES:
        return name in _METHODS | _FUNCTIONS
    is_of_a_tensor = isinstance(function.value, ast.Attribute) and function.value.attr in _OF_TENSORS
    is_chain = isinstance(function.value, ast.Call) and called(function.value) in _METHODS
    is_added = name == "add" and (is_of_a_tensor or is_chain)
    is_clipped = name == "clip" and bool(call.args) and all(map(_is_number, call.args))
    return name in _METHODS or is_added or is_clipped


def _is_made_anew(target: ast.expr) -> bool:
    return isinstance(target, ast.Subscript) and _is_anew(target.value)


def _is_anew(node: ast.expr) -> bool:
    """Return whether an expression is a container that its call makes, `m.state_dict()` or `list(m.children())`."""
    if called(node) in _COPIERS and isinstance(node, ast.Call) and len(node.args) == 1:
        return called(node.args[0]) in _ANEW
    return called(node) == "state_dict"


def _is_number(node: ast.expr) -> bool:
    inside = node.operand if isinstance(node, ast.UnaryOp) else node
    return isinstance(inside, ast.Constant) and isinstance(inside.value, int | float)
