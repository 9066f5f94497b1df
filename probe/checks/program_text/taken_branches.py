"""The text of a program without the branches that its settings switch off: what another run of it might do says nothing
of this one."""

import ast
import operator
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from types import FrameType, ModuleType
from typing import Any, Final

from .bindings import Function, lines_of, trees_of

#: What a setting may be; nothing of it is the program's own code.
_PLAIN: Final = (bool, int, float, str, type(None))
_SEVERAL: Final = (tuple, list, set, frozenset)
#: Branches of one file that are settled. Our choice: each is a few milliseconds.
_MOST: Final = 100
_COMPARED: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], Any]]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.eq,
    ast.IsNot: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda one, several: one in several,
    ast.NotIn: lambda one, several: one not in several,
}


class _Unknown(Exception):
    """An expression whose value the text and the settings do not tell."""


def taken_sources(sources: Mapping[str, str], running: Mapping[str, list[FrameType]]) -> dict[str, str]:
    """Return the texts without the branches that the run's settings rule out; lines keep their numbers.

    A branch that is always taken stands where its `if` stood. A test is settled where it compares constants with
    settings: plain values that the program's text gives once, or attributes and keys, written nowhere else, of the one
    object that bears a name. Nothing of the program is called.

    Args:
        sources: The texts of the program's own files, by path; a text that cannot be parsed stays as it is.
        running: By path, the frames of its functions that are running, innermost first.
    """
    settings = _Settings(trees_of(sources), running)
    return {path: _taken(text, settings, path) for path, text in sources.items()}


def _taken(text: str, settings: "_Settings", path: str) -> str:
    for _ in range(_MOST):
        tree = trees_of({path: text}).get(path)
        found = None if tree is None else next(_settled(tree, settings, path, text.splitlines()), None)
        if found is None:
            break
        text = _without(text.splitlines(keepends=True), *found)
    return text


def _settled(tree: ast.Module, settings: "_Settings", path: str, lines: Sequence[str]) -> Iterator[tuple[ast.If, bool]]:
    """Yield each branch whose test is settled, and whether it is taken; left out is what stands on the line of its
    test."""
    for owner, branch in _branches(tree, None):
        if not _first(branch.body) > (branch.test.end_lineno or branch.lineno):
            continue
        if branch.orelse and lines[_first(branch.orelse) - 1].lstrip().startswith("else"):
            continue
        with suppress(_Unknown):
            yield branch, bool(settings.value(branch.test, path, owner))


def _branches(node: ast.AST, owner: Function | None) -> Iterator[tuple[Function | None, ast.If]]:
    """Yield the `if` statements with the innermost function of each."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If):
            yield owner, child
        yield from _branches(child, child if isinstance(child, Function) else owner)


def _without(lines: list[str], branch: ast.If, is_taken: bool) -> str:
    """Return the text without the part of a branch that is not taken."""
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
    return "".join(lines)


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


class _Settings:
    """What names, attributes and keys of a program are known to be throughout its run.

    Args:
        trees: The parsed files, by path.
        running: By path, the frames of its functions that are running.
    """

    def __init__(self, trees: Mapping[str, ast.Module], running: Mapping[str, list[FrameType]]) -> None:
        self._given: dict[str, int] = {}
        self._written: set[str] = set()
        for tree in trees.values():
            for node in ast.walk(tree):
                self._note(node)
        self._running = running
        self._globals = {path: _globals_of(path) for path in trees}
        places = [*self._globals.values(), *(frame.f_locals for frames in running.values() for frame in frames)]
        self._objects: dict[str, dict[int, Any]] = {}
        for names in places:
            for name, value in list(names.items()):
                if not isinstance(value, _PLAIN):
                    self._objects.setdefault(name, {})[id(value)] = value

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            self._given[node.id] = self._given.get(node.id, 0) + 1
        elif isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            self._written.add(node.attr)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str):
                self._written.add(node.slice.value)
        elif isinstance(node, ast.AugAssign | ast.For | ast.comprehension):
            for one in ast.walk(node.target):  # given anew in every round
                if isinstance(one, ast.Name):
                    self._given[one.id] = self._given.get(one.id, 0) + 2

    def value(self, node: ast.expr, path: str, owner: Function | None) -> Any:
        """Return what an expression is throughout the run.

        Raises:
            _Unknown: The settings do not tell.
        """
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return not self.value(node.operand, path, owner)
        if isinstance(node, ast.BoolOp):
            return self._joined(node, path, owner)
        if isinstance(node, ast.Compare):
            return self._compared(node, path, owner)
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            return [self.value(one, path, owner) for one in node.elts]
        if isinstance(node, ast.Name):
            return _plain(self._named(node.id, path, owner))
        if isinstance(node, ast.Attribute | ast.Subscript):
            return _plain(self._part(node))
        raise _Unknown

    def _joined(self, node: ast.BoolOp, path: str, owner: Function | None) -> bool:
        """Return the value of `and` or `or`, which one side may settle."""
        decides = isinstance(node.op, ast.Or)
        is_open = False
        for part in node.values:
            try:
                if bool(self.value(part, path, owner)) is decides:
                    return decides
            except _Unknown:
                is_open = True
        if is_open:
            raise _Unknown
        return not decides

    def _compared(self, node: ast.Compare, path: str, owner: Function | None) -> bool:
        sides = [self.value(one, path, owner) for one in (node.left, *node.comparators)]
        try:
            pairs = zip(node.ops, sides[:-1], sides[1:], strict=True)
            return all(bool(_COMPARED[type(how)](one, other)) for how, one, other in pairs)
        except TypeError as error:
            raise _Unknown from error

    def _named(self, name: str, path: str, owner: Function | None) -> Any:
        """Return a plain value that a name of the file's top, or of a running function, has had from the beginning."""
        if self._given.get(name, 0) > 1:
            raise _Unknown
        if owner is None or name not in _own_names(owner):
            names: Mapping[str, Any] = self._globals.get(path, {})
        else:
            frames = [frame for frame in self._running.get(path, ()) if _is_of(frame, owner)]
            names = frames[0].f_locals if len(frames) == 1 else {}
        if name not in names:
            raise _Unknown
        return names[name]

    def _part(self, node: ast.Attribute | ast.Subscript) -> Any:
        """Return an attribute or a key of the only object that its name means anywhere in the program."""
        key = node.attr if isinstance(node, ast.Attribute) else getattr(node.slice, "value", None)
        if not isinstance(key, str) or key in self._written:
            raise _Unknown
        within = node.value
        if isinstance(within, ast.Name):
            objects = list(self._objects.get(within.id, {}).values())
            if len(objects) != 1 or self._given.get(within.id, 0) > 1 or within.id == "self":
                raise _Unknown
            owner = objects[0]
        elif isinstance(within, ast.Attribute | ast.Subscript):
            owner = self._part(within)
        else:
            raise _Unknown
        return _held(owner, key, is_key=isinstance(node, ast.Subscript))


def _held(owner: Any, key: str, *, is_key: bool) -> Any:
    """Return what an object has under a name, without running code of its class."""
    if is_key:
        found = owner if type(owner) is dict else {}
    else:
        try:
            found = object.__getattribute__(owner, "__dict__")
        except AttributeError:
            found = {}
    if key not in found:
        raise _Unknown
    return found[key]


def _plain(value: Any) -> Any:
    if type(value) in _PLAIN or (type(value) in _SEVERAL and all(type(one) in _PLAIN for one in value)):
        return value
    raise _Unknown


def _is_of(frame: FrameType, function: Function) -> bool:
    return frame.f_code.co_name == function.name and frame.f_code.co_firstlineno in lines_of(function)


def _own_names(function: Function) -> set[str]:
    """Return the names that a function gives values itself, its parameters among them."""
    arguments = function.args
    own = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    nodes = [node for part in function.body for node in ast.walk(part)]
    declared = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
    return (own | {node.id for node in nodes if isinstance(node, ast.Name) and _is_given(node)}) - declared


def _is_given(node: ast.Name) -> bool:
    return not isinstance(node.ctx, ast.Load)


def _globals_of(path: str) -> Mapping[str, Any]:
    """Return the names at the top of a file that was loaded; empty where no module is known to be of it."""
    for module in list(sys.modules.values()):
        if isinstance(module, ModuleType) and module.__dict__.get("__file__") == path:
            return module.__dict__
    return {}
