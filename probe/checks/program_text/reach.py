"""Which functions and classes of a program's text belong to the training that runs."""

import ast
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Final

from .bindings import Function, called, lines_of
from .trees import walked

#: Trainings in one program's files, from which on they are a collection: what one leaves unread, another may have left.
_COLLECTION: Final = 4

#: File and first line of a function, 0 for the top of a file.
Place = tuple[str, int]


def running_frames(sources: Mapping[str, str]) -> dict[str, list[FrameType]]:
    """Return by path the frames of these files that are running now, innermost first."""
    found: dict[str, list[FrameType]] = {}
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        file = file if file in sources else str(Path(file).absolute())
        if file in sources:
            found.setdefault(file, []).append(frame)
        frame = frame.f_back
    return found


def places_of(running: Mapping[str, list[FrameType]]) -> frozenset[Place]:
    """Return the functions that are running, innermost or not, and files whose top is."""
    codes = [(file, frame.f_code) for file, frames in running.items() for frame in frames]
    return frozenset((file, 0 if code.co_name == "<module>" else code.co_firstlineno) for file, code in codes)


class Reach:
    """What of a program is part of the training whose functions are running; all of it where none is known to be.

    A function or class belongs to it that is running, or is named by what belongs to it. A function that trains and is
    not running is another training, and what only that one names is no part of this one.

    Args:
        trees: The parsed files, by path.
        running: Places of the functions that are running.
    """

    def __init__(self, trees: Mapping[str, ast.Module], running: frozenset[Place]) -> None:
        self._running = running
        self._named: set[str] = set()
        self.files = {file for file, _ in running} or set(trees)
        scopes = [tree for tree in trees.values() if any(_trains(node) for node in _own(tree))]
        self._class_of = {
            id(part): node
            for tree in trees.values()
            for node in walked(tree)
            if isinstance(node, ast.ClassDef)
            for part in node.body
            if isinstance(part, Function)
        }
        units = [(file, node) for file, tree in trees.items() for node in walked(tree) if isinstance(node, _UNITS)]
        self._trainers = {id(node) for _, node in units if _trains_itself(node)}
        self.is_collection = len(scopes) + len(self._trainers) >= _COLLECTION
        self._nodes = {id(node) for _, node in units}
        if not running:
            return
        waiting: list[ast.AST] = [node for file, node in units if self._is_running(file, node)]
        waiting += [node for file, tree in trees.items() if (file, 0) in running for node in _own(tree)]
        waiting += [self._class_of[id(node)] for node in waiting if id(node) in self._class_of]
        self._nodes = {id(node) for node in waiting}
        self._follow(waiting, [node for _, node in units])

    def has(self, node: ast.AST) -> bool:
        """Return whether a function or a class belongs to the training."""
        return id(node) in self._nodes

    def _follow(self, waiting: list[ast.AST], units: list[ast.AST]) -> None:
        """Take in what is named by what is waiting, and what that names."""
        left_out = self._nodes | self._trainers
        others = [node for node in units if id(node) not in left_out]
        while waiting:
            for part in _named_by(waiting.pop()):
                if isinstance(part, ast.Name | ast.Attribute):
                    self._named.add(part.id if isinstance(part, ast.Name) else part.attr)
            reached = [node for node in others if getattr(node, "name", "") in self._named and self._is_there(node)]
            methods = [one for node in reached if isinstance(node, ast.ClassDef) for one in node.body]
            reached += [one for one in methods if isinstance(one, Function) and id(one) not in self._trainers]
            new = [node for node in reached if id(node) not in self._nodes]
            self._nodes |= {id(node) for node in new}
            others = [node for node in others if id(node) not in self._nodes] if new else others
            waiting += new

    def _is_there(self, node: ast.AST) -> bool:
        """Return whether a function is no method, or one of a class that belongs to the training."""
        return id(node) not in self._class_of or id(self._class_of[id(node)]) in self._nodes

    def _is_running(self, file: str, node: ast.AST) -> bool:
        return isinstance(node, Function) and any((file, line) in self._running for line in lines_of(node))


def _named_by(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes by which a function, or the head of a class, names others."""
    parts = [*node.bases, *node.keywords, *node.decorator_list] if isinstance(node, ast.ClassDef) else [node]
    for part in parts:
        yield from walked(part)


_UNITS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def _trains(node: ast.AST) -> bool:
    return called(node) == "backward"


def _trains_itself(node: ast.AST) -> bool:
    """Return whether a function calls `backward` in its own body."""
    return isinstance(node, Function) and any(_trains(one) for part in node.body for one in _inside(part))


def _own(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of a file's top, without those of functions and classes."""
    for statement in tree.body:
        yield from _inside(statement)


def _inside(node: ast.AST) -> list[ast.AST]:
    """Return a node and all below it, without functions and classes and what is in them."""
    found = [] if isinstance(node, _UNITS) else [node]
    for one in found:  # the list grows
        found += [child for child in ast.iter_child_nodes(one) if not isinstance(child, _UNITS)]
    return found
