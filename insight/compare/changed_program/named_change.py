"""Names the cause that the changes of a program speak of.

Each rule looks at one change: the smallest expression that differs, the line and the calls around it, and what the
names say that it is for. The rules name only what two runs were seen to do otherwise; alone they find nothing.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace

from . import expressions, samples, setting_values, training_loop
from .edits import Edit, called, edits_between, names_in
from .plain_form import tree_of
from .roles import Roles

_RULES = (
    *training_loop.RULES,
    *setting_values.RULES,
    *expressions.RULES,
    *samples.RULES,
    *expressions.LAST,
)


#: Causes that may lie in an evaluation alone, with the rules that name them.
_OF_EVALUATION = (training_loop.modes, samples.shared_samples)


def named_change(good: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Return the cause that the changes from a good program to another speak of; empty if they speak of none.

    Args:
        good, other: Texts of the files of a program by name.
    """
    edits, roles = _read(good, other)
    return cause_of(edits, roles)


def named_evaluation(good: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Return the cause that the changes speak of if both programs trained alike, to the bit: one of the evaluation.

    A line that was put in is no fault of an evaluation unless it prepares its data.
    """
    edits, roles = _read(good, other)
    kept = [edit for edit in edits if edit.kind != "added" or not training_loop.modes(edit, roles)]
    return next((cause for rule in _OF_EVALUATION for edit in kept if (cause := rule(edit, roles))), "")


def _read(good: Mapping[str, str], other: Mapping[str, str]) -> tuple[list[Edit], Roles]:
    """Return what was done to the files that both programs have, and what their parts are for.

    Of the files that are equal only the script, whose name is empty, tells what the parts are for.
    """
    shared = [name for name in good if name in other]
    changed = [name for name in shared if good[name] != other[name]]
    edits = [edit for name in changed for edit in edits_between(good[name], other[name])]
    known = _functions(good.values()) if edits else {}
    new = {name: inside for name, inside in _functions(other.values() if edits else ()).items() if name not in known}
    edits = [_with_bodies(edit, new) for edit in edits]
    read = [name for name in shared if edits and (name in changed or not name)]
    return edits, Roles(map(good.__getitem__, read), map(other.__getitem__, read), edits)


def cause_of(edits: Iterable[Edit], roles: Roles) -> str:
    """Return the cause of the first rule that any of the changes fits."""
    known = list(edits)
    return next((cause for rule in _RULES for edit in known if (cause := rule(edit, roles))), "")


def _functions(texts: Iterable[str]) -> dict[str, frozenset[str]]:
    """Return the identifiers within each function of a program, by the function's name."""
    found: dict[str, frozenset[str]] = {}
    for tree in filter(None, map(tree_of, texts)):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                found[node.name] = frozenset().union(*map(names_in, node.body))
    return found


def _with_bodies(edit: Edit, functions: Mapping[str, frozenset[str]]) -> Edit:
    """Return a change with what the functions do that came with it."""
    inside = ast.walk(edit.after) if edit.after is not None else ()
    within = [functions[name] for name in map(called, inside) if name in functions]
    return replace(edit, within=frozenset().union(*within)) if within else edit
