"""What was done to a program: the smallest expressions in which a line differs from the good program's."""

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import cached_property
from typing import Literal

from .lines import BLOCKS, Line, lines_of, pairs
from .plain_form import tree_of

Kind = Literal["removed", "added", "replaced", "moved"]


@dataclass(frozen=True, eq=False)
class Edit:
    """One expression or statement that differs.

    Args:
        before: What the good program has; None where something was put in.
        after: What this program has; None where something was taken out.
        line: The line of this program that it stands in, or of the good one if it was taken out as a whole.
        path: The expressions around it within the line, the outermost first.
        place: What it is of the innermost of them: the name of an argument, or the number of one.
        within: Identifiers within functions that this program alone has, and calls here.
    """

    kind: Kind
    before: ast.AST | None
    after: ast.AST | None
    line: Line
    path: tuple[ast.AST, ...] = ()
    place: str = ""
    within: frozenset[str] = frozenset()

    @cached_property
    def gained(self) -> frozenset[str]:
        """Identifiers that came in."""
        return (names_in(self.after) | self.within) - names_in(self.before)

    @cached_property
    def lost(self) -> frozenset[str]:
        """Identifiers that went out."""
        return names_in(self.before) - names_in(self.after)

    @cached_property
    def texts(self) -> tuple[str, str]:
        """Both as Python writes them; empty for what is not there."""
        return tuple("" if one is None else ast.unparse(one) for one in (self.before, self.after))  # type: ignore[return-value]

    @property
    def calls(self) -> tuple[ast.Call, ...]:
        """The calls that it is an argument of, the outermost first."""
        return tuple(node for node in self.path if isinstance(node, ast.Call))

    @property
    def is_whole_line(self) -> bool:
        """Whether a line was put in, taken out or moved."""
        return self.kind != "replaced" and not self.path


def edits_between(good: str, other: str) -> list[Edit]:
    """Return what was done to the good program's text; empty where one of both cannot be parsed."""
    mine, others = (names_in(tree_of(text)) for text in (good, other))
    first, second = lines_of(good, others), lines_of(other, mine)
    if not first or not second:
        return []
    changed, moved = pairs(first, second)
    found = [Edit("moved", before.node, after.node, after) for before, after in moved]
    for before, after in changed:
        if before is None and after is not None:
            found.append(Edit("added", None, after.node, after))
        elif after is None and before is not None:
            found.append(Edit("removed", before.node, None, before))
        elif before is not None and after is not None:
            at = Edit("replaced", before.node, after.node, after)
            found += _inside(before.node, after.node, at)
    return found


def names_in(node: ast.AST | None) -> frozenset[str]:
    """Return all identifiers of a tree: variables, attributes, names of arguments, and keys such as in `c["lr"]`."""
    found: set[str] = set()
    for one in ast.walk(node) if node is not None else ():
        key = one.slice if isinstance(one, ast.Subscript) else None
        if isinstance(key, ast.Constant) and isinstance(key.value, str):
            found.add(key.value)
        for field in ("id", "attr", "arg", "name"):
            value = getattr(one, field, None)
            if isinstance(value, str):
                found.add(value)
    return frozenset(found)


def called(node: ast.AST | None) -> str:
    """Return the last name of what a call calls; empty for what is no call."""
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _inside(before: ast.AST, after: ast.AST, at: Edit) -> Iterator[Edit]:
    """Yield the smallest parts that differ of two trees."""
    if ast.dump(before) == ast.dump(after):
        return
    whole = replace(at, before=before, after=after)
    if type(before) is not type(after) or _is_around(before, after) or _is_around(after, before):
        yield whole
    elif isinstance(before, ast.Call) and isinstance(after, ast.Call):
        yield from _of_calls(before, after, whole)
    elif isinstance(before, ast.BinOp) and isinstance(after, ast.BinOp):
        yield from _of_operations(before, after, whole)
    elif isinstance(before, ast.arguments) and isinstance(after, ast.arguments):
        yield from _of_parameters(before, after, whole)
    elif isinstance(before, ast.Assign) and isinstance(after, ast.Assign) and _several(before, after):
        yield from _of_assignments(before, after, whole)
    else:
        yield from _of_fields(before, after, whole)


def _is_around(one: ast.AST, other: ast.AST) -> bool:
    """Return whether the second is a whole expression within the first."""
    if not isinstance(one, ast.expr) or isinstance(other, ast.Constant):
        return False
    wanted = ast.dump(other)
    return any(ast.dump(node) == wanted for node in ast.walk(one) if node is not one and type(node) is type(other))


def _deeper(whole: Edit, node: ast.AST, place: str = "") -> Edit:
    return replace(whole, path=(*whole.path, node), place=place)


def _of_calls(before: ast.Call, after: ast.Call, whole: Edit) -> Iterator[Edit]:
    if called(before) != called(after):
        yield whole
        return
    at = _deeper(whole, after)
    if isinstance(before.func, ast.Attribute) and isinstance(after.func, ast.Attribute):
        yield from _inside(before.func.value, after.func.value, replace(at, place="receiver"))
    yield from _of_lists(before.args, after.args, at)
    named, others = ({one.arg: one.value for one in call.keywords} for call in (before, after))
    for name in [*named, *(name for name in others if name not in named)]:
        place = replace(at, place=name or "**")
        mine, other = named.get(name), others.get(name)
        if mine is not None and other is not None:
            yield from _inside(mine, other, place)
        else:
            yield replace(place, kind="removed" if other is None else "added", before=mine, after=other)


def _of_operations(before: ast.BinOp, after: ast.BinOp, whole: Edit) -> Iterator[Edit]:
    is_other = type(before.op) is not type(after.op)
    left, right = (ast.dump(getattr(before, side)) == ast.dump(getattr(after, side)) for side in ("left", "right"))
    if is_other or (not left and not right and ast.dump(before.left) == ast.dump(after.right)):
        yield whole
        return
    at = _deeper(whole, after)
    yield from _inside(before.left, after.left, replace(at, place="left"))
    yield from _inside(before.right, after.right, replace(at, place="right"))


def _of_parameters(before: ast.arguments, after: ast.arguments, whole: Edit) -> Iterator[Edit]:
    """Yield defaults that differ, by the name of their parameter; parameters alone are no edit."""
    mine, others = _defaults(before), _defaults(after)
    for name in [name for name in mine if name in others]:
        yield from _inside(mine[name], others[name], _deeper(whole, after, name))


def _defaults(arguments: ast.arguments) -> dict[str, ast.expr]:
    positional = [*arguments.posonlyargs, *arguments.args]
    known = [(one.arg, value) for one, value in zip(reversed(positional), reversed(arguments.defaults), strict=False)]
    known += [(one.arg, value) for one, value in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if value]
    return dict(known)


def _parts(node: ast.Assign) -> dict[str, ast.expr]:
    """Return the value of each name of `a, b = c, d`; empty where several names have one value."""
    target, value = node.targets[0], node.value
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and len(target.elts) == len(value.elts):
        return {ast.unparse(name): one for name, one in zip(target.elts, value.elts, strict=True)}
    return {} if isinstance(target, ast.Tuple) else {ast.unparse(target): value}


def _several(before: ast.Assign, after: ast.Assign) -> bool:
    return bool(_parts(before)) and bool(_parts(after)) and len(_parts(before)) + len(_parts(after)) > 2


def _of_assignments(before: ast.Assign, after: ast.Assign, whole: Edit) -> Iterator[Edit]:
    """Yield what differs of `a, b = c, d`, name by name."""
    mine, others = _parts(before), _parts(after)
    at = _deeper(whole, after)
    for name in [*mine, *(name for name in others if name not in mine)]:
        one, two, place = mine.get(name), others.get(name), replace(at, place=name)
        if one is not None and two is not None:
            yield from _inside(one, two, place)
        else:
            yield replace(place, kind="removed" if two is None else "added", before=one, after=two)


def _of_fields(before: ast.AST, after: ast.AST, whole: Edit) -> Iterator[Edit]:
    at = _deeper(whole, after)
    for name in before._fields:
        mine, other = getattr(before, name, None), getattr(after, name, None)
        if name in BLOCKS and isinstance(mine, list):
            continue
        place = replace(at, place=_place(after, name))
        if isinstance(mine, list) and isinstance(other, list):
            yield from _of_lists(mine, other, replace(at, place=name))
        elif isinstance(mine, ast.AST) and isinstance(other, ast.AST):
            if isinstance(mine, ast.operator | ast.unaryop | ast.boolop | ast.expr_context):
                if type(mine) is not type(other):
                    yield whole
            else:
                yield from _inside(mine, other, place)
        elif mine != other:
            yield whole


def _place(node: ast.AST, field: str) -> str:
    """Return the name of what is assigned, where the field is a value, so that a setting has its name."""
    if field == "value" and isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        return target.attr if isinstance(target, ast.Attribute) else getattr(target, "id", "value")
    return field


def _of_lists(before: Sequence[ast.AST], after: Sequence[ast.AST], at: Edit) -> Iterator[Edit]:
    first, second = [ast.dump(one) for one in before], [ast.dump(one) for one in after]
    if len(before) == len(after) > 1 and sorted(first) == sorted(second) and first != second:
        yield replace(at, before=_tuple(before), after=_tuple(after), place="order")
        return
    for kind, begin, end, other_begin, other_end in SequenceMatcher(None, first, second, autojunk=False).get_opcodes():
        mine, others = before[begin:end], after[other_begin:other_end]
        if kind == "equal":
            continue
        for number, (one, two) in enumerate(zip(mine, others, strict=False), other_begin):
            yield from _inside(one, two, at if at.place in ("targets", "elts") else replace(at, place=str(number)))
        both = min(len(mine), len(others))
        yield from (replace(at, kind="removed", before=one, after=None) for one in mine[both:])
        yield from (replace(at, kind="added", before=None, after=one) for one in others[both:])


def _tuple(nodes: Sequence[ast.AST]) -> ast.Tuple:
    return ast.Tuple([node for node in nodes if isinstance(node, ast.expr)], ast.Load())
