"""Sequences that are recognised without alignment: the loss and the decoder know the same blank."""

import ast
from collections.abc import Iterator
from typing import Final

from ..bindings import called
from ..expressions import assignments, calls_in, words_in
from ..trees import walked
from .pattern import Found, Pattern

#: Losses, and the place among their arguments at which they take the blank.
_PLACES: Final = {"CTCLoss": 0, "ctc_loss": 4}


def _blank(tree: ast.AST) -> Iterator[Found]:
    """The label that the loss calls blank is the one that decoding leaves out (Graves et al. 2006, section 3.1)."""
    known = {name: value for name, value, _ in assignments(tree)}
    losses = [(call, _blank_of(call)) for call in calls_in(tree, *_PLACES)]
    given = {_value(one, known) if one is not None else "0" for call, one in losses}
    if len(given) != 1 or any(keyword.arg is None for call, _ in losses for keyword in call.keywords):
        return
    blank = given.pop()
    for call in (one for one in walked(tree) if isinstance(one, ast.Call)):
        told = _blank_of(call)
        if told is None or called(call) in _PLACES:
            continue
        if _is_known(blank) and _is_known(value := _value(told, known)) and value != blank:
            yield (
                "formula",
                f"{ast.unparse(call)} decodes with blank {value}, and the loss has blank {blank}",
                call.lineno,
            )


def _blank_of(call: ast.Call) -> ast.expr | None:
    """Return the blank that a call is given, by name, or in the place where a loss takes it."""
    named = next((one.value for one in call.keywords if one.arg in ("blank", "blank_id", "blank_idx")), None)
    place = _PLACES.get(called(call))
    return call.args[place] if named is None and place is not None and place < len(call.args) else named


def _value(node: ast.expr, known: dict[str, ast.expr]) -> str:
    """Return the text of an expression, names of numbers replaced by them."""
    node = known.get(node.id, node) if isinstance(node, ast.Name) else node
    return ast.unparse(node)


def _is_known(text: str) -> bool:
    return text.lstrip("-").isdigit()


def _blanks_left_out_first(tree: ast.AST) -> Iterator[Found]:
    """Repeats are merged first, and blanks left out of what is left (Graves et al. 2006, section 3.1).

    A blank between two equal labels is what keeps them two.
    """
    for call in calls_in(tree, "unique_consecutive", "groupby"):
        given = call.args[0] if call.args else None
        parts = walked(given) if given is not None else []
        tests = [one for one in parts if isinstance(one, ast.Compare) and isinstance(one.ops[0], ast.NotEq)]
        if any("blank" in words_in(one) for one in tests):
            words = f"{ast.unparse(call)} merges repeats that a blank kept apart: it leaves the blanks out too early"
            yield "formula", words, call.lineno


#: Every formula of this file.
PATTERNS: Final[tuple[Pattern, ...]] = (
    _blank,
    _blanks_left_out_first,
)
