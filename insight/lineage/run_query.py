"""Conditions over runs, joined by `and`, `or`, `not`, commas and brackets, as a person types them."""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ...storage import Json
from ..errors import WrongCondition
from .provenance import Provenance
from .run_filters import Condition, known_fields, parse_condition, resolve

__all__ = ["RunQuery", "parse_query"]

#: Quoted text stays whole; brackets, commas and the three words part the conditions.
_PARTS: Final = re.compile(r"""("[^"]*"|'[^']*')|([(),])|(?<!\S)(and|or|not)(?=[\s(]|$)""", re.IGNORECASE)
_EXAMPLE: Final = "loss < 2 and tags.lr > 1e-4"
#: Longer ones nest deeper than Python's parser and this recursion bear; our choice.
_LONGEST: Final = 1000


@dataclass(frozen=True, slots=True)
class RunQuery:
    """Conditions and how they are joined.

    Args:
        conditions: In the order of the text.
        joined: An expression in which the name `cN` stands for condition N; None for an empty text: all runs meet it.
    """

    conditions: tuple[Condition, ...]
    joined: ast.expr | None

    def fields(self, known: Sequence[str]) -> tuple[str, ...]:
        """Return the full names of the fields that the conditions are about.

        Raises:
            UnknownField: One of them is not among the known ones; the message names the nearest.
        """
        return tuple(resolve(condition.field, known) for condition in self.conditions)

    def select(self, rows: Sequence[Provenance], known: Sequence[str] | None = None) -> tuple[Provenance, ...]:
        """Return the runs that meet the query, in order.

        Args:
            known: Names that fields may have; by default those of the rows.

        Raises:
            UnknownField: No run has a field of that name.
        """
        joined = self.joined
        if joined is None or not rows:
            return tuple(rows)
        names = self.fields(known_fields(rows) if known is None else known)
        return tuple(row for row in rows if self._holds(joined, names, row.fields))

    def _holds(self, part: ast.expr, names: Sequence[str], fields: Mapping[str, Json]) -> bool:
        if isinstance(part, ast.BoolOp):
            held = (self._holds(value, names, fields) for value in part.values)
            return all(held) if isinstance(part.op, ast.And) else any(held)
        if isinstance(part, ast.UnaryOp):
            return not self._holds(part.operand, names, fields)
        assert isinstance(part, ast.Name)
        number = int(part.id[1:])
        return self.conditions[number].holds(fields.get(names[number]))


def parse_query(text: str) -> RunQuery:
    """Parse conditions such as `loss < 2 and (tags.lr > 1e-4 or name ~ gpt*)`; a comma is a weak `and`.

    Python's own grammar joins the conditions: it sees a name for each, so nothing of the text is ever executed.

    Raises:
        WrongCondition: A condition has another form, or they are joined in another way.
    """
    if not text.strip():
        return RunQuery((), None)
    if len(text) > _LONGEST:
        raise WrongCondition(f"the query has {len(text)} characters, expected at most {_LONGEST}")
    conditions: list[Condition] = []
    words = ["("]
    for piece, is_joint in _pieces(text):
        if is_joint:
            words.append(") and (" if piece == "," else piece.lower())
        elif piece.strip():
            words.append(f"c{len(conditions)}")
            conditions.append(parse_condition(piece))
    try:
        joined = ast.parse(" ".join([*words, ")"]), mode="eval").body
    except (SyntaxError, RecursionError, MemoryError):
        joined = None
    if joined is None or not _is_joined(joined):
        raise WrongCondition(
            f"query {text!r} must join conditions by and, or, not and brackets, for example {_EXAMPLE!r}"
        )
    return RunQuery(tuple(conditions), joined)


def _pieces(text: str) -> list[tuple[str, bool]]:
    """Split the text; each piece with whether it joins conditions."""
    pieces, begin = [], 0
    for found in _PARTS.finditer(text):
        if found[1] is None:
            pieces += [(text[begin : found.start()], False), (found[0], True)]
            begin = found.end()
    return [*pieces, (text[begin:], False)]


def _is_joined(part: ast.AST) -> bool:
    allowed = (ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.Name, ast.Load)
    return all(isinstance(node, allowed) for node in ast.walk(part))
