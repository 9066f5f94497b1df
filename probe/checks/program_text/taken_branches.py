"""The text of a program without the branches that its settings switch off: what another run of it might do says nothing
of this one."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from types import FrameType
from typing import Final

from .settings import Scope, Settings, Unknown, walk
from .trees import trees_of

#: Branches inside of each other that are settled. Our choice.
_ROUNDS: Final = 12


def taken_sources(sources: Mapping[str, str], running: Mapping[str, list[FrameType]]) -> dict[str, str]:
    """Return the texts without the branches that the run's settings rule out; lines keep their numbers.

    A branch that is always taken stands where its `if` stood. A test is settled where it compares constants with
    settings: plain values that the program's text gives once, or attributes and keys that are written nowhere else.
    Nothing of the program is called.

    Args:
        sources: The texts of the program's own files, by path; a text that cannot be parsed stays as it is.
        running: By path, the frames of its functions that are running, innermost first.
    """
    settings = Settings(trees_of(sources), running)
    return {path: _taken(text, settings, path) for path, text in sources.items()}


def _taken(text: str, settings: Settings, path: str) -> str:
    """Return the text without branches; those inside of another are settled a round later, when it stands elsewhere."""
    for _ in range(_ROUNDS):
        tree = trees_of({path: text}).get(path)
        lines = text.splitlines(keepends=True)
        found = [] if tree is None else list(_settled(tree, settings, path, lines))
        if not found:
            break
        for branch, is_taken in found:
            _replace(lines, branch, is_taken)
        text = "".join(lines)
    return text


def _settled(tree: ast.Module, settings: Settings, path: str, lines: Sequence[str]) -> Iterator[tuple[ast.If, bool]]:
    """Yield each branch whose test is settled and that is not inside of one, and whether it is taken.

    Left out is what stands on the line of its test.
    """
    last = 0
    for branch, scope in walk(tree, Scope(path)):
        if not isinstance(branch, ast.If) or branch.lineno <= last:
            continue
        if not _first(branch.body) > (branch.test.end_lineno or branch.lineno):
            continue
        if branch.orelse and lines[_first(branch.orelse) - 1].lstrip().startswith("else"):
            continue
        with suppress(Unknown):
            is_taken = bool(settings.value(branch.test, scope))
            last = branch.end_lineno or branch.lineno
            yield branch, is_taken


def _replace(lines: list[str], branch: ast.If, is_taken: bool) -> None:
    """Put the part of a branch that is taken in its place; the number of lines stays the same."""
    start, body, behind, end = branch.lineno - 1, _first(branch.body) - 1, _last(branch.body), branch.end_lineno or 0
    is_elif = lines[start].lstrip().startswith("elif")
    if is_taken:
        head = f"{_indent(lines[start])}else:\n" if is_elif else "\n"
        kept = lines[body:behind] if is_elif else _moved(lines, branch.body, branch.col_offset)
        lines[start:end] = [head, *_nothing(body - start - 1), *kept, *_nothing(end - behind)]
    elif is_elif:
        lines[start:behind] = _nothing(behind - start)
    elif not branch.orelse:
        lines[start:end] = [f"{_indent(lines[start])}pass\n", *_nothing(end - start - 1)]
    elif lines[(other := _first(branch.orelse) - 1)].lstrip().startswith("elif"):
        lines[other] = lines[other].replace("elif", "if", 1)
        lines[start:behind] = _nothing(behind - start)
    else:
        lines[start:end] = [*_nothing(other - start), *_moved(lines, branch.orelse, branch.col_offset)]


def _moved(lines: Sequence[str], block: Sequence[ast.stmt], column: int) -> list[str]:
    """Return the lines of a block as they are further left; those of a text in quotes stay where they cannot move."""
    width = block[0].col_offset - column
    part = lines[_first(block) - 1 : _last(block)]
    return [line[width:] if line.strip() and not line[:width].strip() else line for line in part]


def _first(block: Sequence[ast.stmt]) -> int:
    decorators: list[ast.expr] = getattr(block[0], "decorator_list", [])
    return min([block[0].lineno, *(one.lineno for one in decorators)])


def _last(block: Sequence[ast.stmt]) -> int:
    return block[-1].end_lineno or block[-1].lineno


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _nothing(count: int) -> list[str]:
    return ["\n"] * count
