"""A program and its variant as one program with a switch on its command line, as trainings that people try things with
are written."""

import ast
import copy
import difflib
from collections.abc import Sequence

_HEAD = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("seed", nargs="?")
parser.add_argument("--variant", default="none")
switches = parser.parse_args()
"""


def switched(original: str, variant: str, name: str) -> str:
    """Return the text of a program that is the original, and with `--variant NAME` the variant.

    Statements that differ stand in the two branches of an `if`; of a statement that has a body only the body is
    branched, where the rest is the same. Imports of both are taken.

    Args:
        original, variant: Texts of programs.
        name: The variant's name.
    """
    body = _merged(ast.parse(original).body, ast.parse(variant).body, name)
    first = next(number for number, statement in enumerate(body) if not _is_head(statement))
    body[first:first] = ast.parse(_HEAD).body
    return ast.unparse(ast.fix_missing_locations(ast.Module(body, [])))


def _is_head(statement: ast.stmt) -> bool:
    is_text = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return is_text or isinstance(statement, ast.Import | ast.ImportFrom)


def _merged(old: Sequence[ast.stmt], new: Sequence[ast.stmt], name: str) -> list[ast.stmt]:
    found: list[ast.stmt] = []
    before, after = ([ast.dump(one) for one in block] for block in (old, new))
    changes = difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes()
    for change, first, last, other_first, other_last in changes:
        mine, others = list(old[first:last]), list(new[other_first:other_last])
        if change == "equal":
            found += mine
        elif any(map(_is_head, mine + others)):
            found += mine + others
        elif len(mine) == len(others) == 1 and (one := _inside(mine[0], others[0], name)) is not None:
            found.append(one)
        else:
            found.append(_branched(others, mine, name))
    return found


def _branched(others: list[ast.stmt], mine: list[ast.stmt], name: str) -> ast.If:
    test = ast.parse(f"switches.variant == {name!r}", mode="eval").body
    return ast.If(test, others, mine) if others else ast.If(ast.UnaryOp(ast.Not(), test), mine, [])


def _inside(mine: ast.stmt, others: ast.stmt, name: str) -> ast.stmt | None:
    """Return the statement with the two bodies merged; None where more than the bodies differs."""
    blocks = [field for field in ("body", "orelse", "finalbody") if isinstance(getattr(mine, field, None), list)]
    one, other = copy.copy(mine), copy.copy(others)
    if type(mine) is not type(others) or not blocks:
        return None
    for field in blocks:
        setattr(one, field, [])
        setattr(other, field, [])
    if ast.dump(one) != ast.dump(other):
        return None
    for field in blocks:
        setattr(one, field, _merged(getattr(mine, field), getattr(others, field), name))
    return one
