"""The lines of a program's text, a statement or the head of a block each, and those that two programs share.

Blocks are laid out flat, so that a statement which moved into another loop, or out of a `with`, stays the same line in
another place.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Final

from .plain_form import in_plain_form, tree_of, without_unreached

#: Share of equal characters from which two lines are one that was edited. Our choice.
_ALIKE: Final = 0.45
#: Lines of a changed place beyond which none are compared: they are another program.
_MOST: Final = 60
#: Share of lines that two programs have in common from which one is a change of the other, and lines up to which any
#: two are. Our choice.
_SHARED, _FEW = 0.3, 20
#: Fields of a block that hold its statements.
BLOCKS: Final = frozenset({"body", "orelse", "finalbody", "handlers", "cases"})


@dataclass(frozen=True, slots=True, eq=False)
class Line:
    """A statement without the block behind it.

    Args:
        node: Its tree; of a block all of it, of which only the head counts.
        text: As Python writes it, the head alone of a block.
        around: The heads of the blocks that it stands in, the outermost first.
    """

    node: ast.AST
    text: str
    around: tuple["Line", ...]

    @property
    def names_around(self) -> tuple[str, ...]:
        """Names of the classes and functions that it stands in, the outermost first, itself included."""
        named = (line.node for line in (*self.around, self))
        return tuple(one.name for one in named if isinstance(one, ast.FunctionDef | ast.ClassDef))

    @property
    def blocks(self) -> tuple[str, ...]:
        """Texts of the loops, conditions and contexts that it stands in."""
        return tuple(line.text for line in self.around)


#: A line of the good program, and what became of it; one of both is None where it was taken out or put in.
Pair = tuple[Line | None, Line | None]


def lines_of(text: str, known: Set[str] | None = None) -> list[Line]:
    """Return all lines of a program but texts that stand alone, such as docstrings; none if it cannot be parsed.

    Args:
        known: Identifiers of the program that it is compared with; others stand for their values.
    """
    tree = tree_of(text)
    with suppress(RecursionError):
        plain = tree if tree is None or known is None else in_plain_form(tree, known)
        return list(_flat(plain.body, ())) if plain is not None else []
    return []


def _flat(body: Sequence[ast.AST], around: tuple[Line, ...]) -> Iterator[Line]:
    for node in without_unreached(body):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue
        line = Line(node, _head(node), around)
        yield line
        for name in BLOCKS:
            inside = getattr(node, name, None)
            if isinstance(inside, list):
                yield from _flat(inside, (*around, line))


def _head(node: ast.AST) -> str:
    text = ast.unparse(node)
    if not getattr(node, "body", None) or isinstance(node, ast.Lambda):
        return text
    decorators = len(getattr(node, "decorator_list", ()))
    return "\n".join(text.split("\n")[: decorators + 1])


def pairs(good: Sequence[Line], other: Sequence[Line]) -> tuple[list[Pair], list[tuple[Line, Line]]]:
    """Return the lines that differ, and those that are the same in another block, each of the good program first."""
    changed: list[Pair] = []
    moved: list[tuple[Line, Line]] = []
    if not _is_one_program(good, other):
        return changed, moved
    kept = {line.text for line in good} & {line.text for line in other}
    for kind, begin, end, other_begin, other_end in _matches(good, other):
        before, after = good[begin:end], other[other_begin:other_end]
        if kind == "equal":
            moved += [(one, two) for one, two in zip(before, after, strict=True) if _is_elsewhere(one, two, kept)]
        else:
            changed += _edited(before, after)
    carried = _moved(changed)
    return [pair for pair in changed if not _is_one_of(pair, carried.keys())], [*moved, *carried.values()]


def _is_one_program(good: Sequence[Line], other: Sequence[Line]) -> bool:
    """Return whether enough lines are the same for the others to be changes, and not another program."""
    most = max(len(good), len(other))
    shared = Counter(line.text for line in good) & Counter(line.text for line in other)
    return most <= _FEW or shared.total() >= _SHARED * most


def _matches(good: Sequence[Line], other: Sequence[Line]) -> Iterator[tuple[str, int, int, int, int]]:
    """Yield which lines became which, as `SequenceMatcher` does; the ends that both share are not searched."""
    first, second = [line.text for line in good], [line.text for line in other]
    most = min(len(first), len(second))
    begin = next((at for at in range(most) if first[at] != second[at]), most)
    end = next((at for at in range(most - begin) if first[-1 - at] != second[-1 - at]), most - begin)
    yield "equal", 0, begin, 0, begin
    middle = first[begin : len(first) - end], second[begin : len(second) - end]
    for kind, *places in SequenceMatcher(None, *middle, autojunk=False).get_opcodes():
        one, two, three, four = (place + begin for place in places)
        yield kind, one, two, three, four
    yield "equal", len(first) - end, len(first), len(second) - end, len(second)


def _is_elsewhere(before: Line, after: Line, kept: Set[str]) -> bool:
    """Return whether a line left a block that still exists, or came into one that existed."""
    if len(before.around) == len(after.around):
        return False
    mine, others = set(before.blocks), set(after.blocks)
    return bool((mine ^ others) & kept)


def _edited(before: Sequence[Line], after: Sequence[Line]) -> Iterator[Pair]:
    """Yield which line became which, in order; the rest was taken out, or put in."""
    if max(len(before), len(after)) > _MOST:
        return
    at = 0
    for line in before:
        alike = [(_likeness(line, one), -number) for number, one in enumerate(after) if number >= at]
        share, number = max(alike, default=(0.0, 0))
        if share < _ALIKE:
            yield line, None
            continue
        yield from ((None, one) for one in after[at:-number])
        yield line, after[-number]
        at = 1 - number
    yield from ((None, one) for one in after[at:])


def _likeness(one: Line, two: Line) -> float:
    if type(one.node) is not type(two.node):
        return 0.0
    return SequenceMatcher(None, one.text, two.text, autojunk=False).ratio()


def _moved(changed: Sequence[Pair]) -> dict[str, tuple[Line, Line]]:
    """Return the lines that went out in one place and came in at another, by their text."""
    gone = {before.text: before for before, after in changed if before is not None and after is None}
    come = {after.text: after for before, after in changed if after is not None and before is None}
    return {text: (line, come[text]) for text, line in gone.items() if text in come and text != "pass"}


def _is_one_of(pair: Pair, texts: Set[str]) -> bool:
    """Return whether a line that went out or came in is one of these."""
    before, after = pair
    line = after if before is None else before
    return (before is None or after is None) and line is not None and line.text in texts
