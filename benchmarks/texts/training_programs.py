"""The trainings of a checkout: scripts that reach a backward pass, with the files that they import."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mindscope.probe.checks.program_text.bindings import Function, lines_of
from mindscope.probe.checks.program_text.own_files import MOST_BYTES, MOST_FILES
from mindscope.probe.checks.program_text.reach import Place

#: Methods of a class that run when it is made or called.
_RUN: Final = ("__init__", "forward", "__call__")


@dataclass(frozen=True, slots=True)
class TrainingProgram:
    """A script that trains, as it stands in a checkout.

    Args:
        script: Its path; `sources` the texts of its files by path, the script among them.
        running: The functions that run when a backward pass begins: the script, and all that call `backward`.
    """

    script: str
    sources: dict[str, str]
    running: frozenset[Place]


def training_programs(checkout: Path) -> Iterator[TrainingProgram]:
    """Yield the programs of a checkout; files that this Python cannot parse are left out."""
    for path in sorted(checkout.rglob("*.py")):
        tree = _parsed(path)
        if tree is None or not _is_script(tree):
            continue
        trees = _imported(path, checkout)
        running = _running(trees, path) if len(trees) <= MOST_FILES else frozenset()
        if running:
            sources = {str(each): each.read_text(encoding="utf-8") for each in trees}
            yield TrainingProgram(str(path), sources, running)


def _parsed(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None


def _is_script(tree: ast.Module) -> bool:
    """Return whether a file trains at its top, or has a part that runs as a script only."""
    tested = (part for one in _top(tree) if isinstance(one, ast.If) for part in ast.walk(one.test))
    has_main = any(isinstance(one, ast.Constant) and one.value == "__main__" for one in tested)
    return has_main or any(_trains(one) for one in _top(tree))


def _top(tree: ast.Module) -> list[ast.stmt]:
    return [one for one in tree.body if not isinstance(one, Function | ast.ClassDef | ast.Import | ast.ImportFrom)]


def _trains(node: ast.AST) -> bool:
    calls = (one.func for one in ast.walk(node) if isinstance(one, ast.Call))
    return any(isinstance(one, ast.Attribute) and one.attr == "backward" for one in calls)


def _imported(script: Path, checkout: Path) -> dict[Path, ast.Module]:
    """Return a script and the files of the checkout that it imports, and that these import, parsed."""
    trees: dict[Path, ast.Module] = {}
    waiting = [script]
    while waiting:
        path = waiting.pop()
        if path in trees or path.stat().st_size > MOST_BYTES or (tree := _parsed(path)) is None:
            continue
        trees[path] = tree
        waiting += _files_of_imports(tree, path, checkout)
    return trees


def _files_of_imports(tree: ast.Module, path: Path, checkout: Path) -> Iterator[Path]:
    for node in ast.walk(tree):
        names: list[tuple[str, int]] = []
        if isinstance(node, ast.Import):
            names = [(one.name, 0) for one in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [(base, node.level), *((f"{base}.{one.name}".strip("."), node.level) for one in node.names)]
        for name, level in names:
            parts = name.split(".") if name else []
            for folder in [path.parents[level - 1]] if level else [path.parent, checkout]:
                found = [folder.joinpath(*parts, "__init__.py")]
                found += [folder.joinpath(*parts).with_suffix(".py")] if parts else []
                yield from (one for one in found if one.is_file())


def _running(trees: dict[Path, ast.Module], script: Path) -> frozenset[Place]:
    """Return the places that run when a backward pass begins; nothing where the script names none that does."""
    units = [
        (path, node)
        for path, tree in trees.items()
        for node in ast.walk(tree)
        if isinstance(node, Function | ast.ClassDef)
    ]
    own = _top(trees[script])
    names, reached = set[str]().union(*map(_names, own)), dict[int, tuple[Path, ast.AST]]()
    while new := [(path, node) for path, node in units if node.name in names and id(node) not in reached]:
        reached |= {id(node): (path, node) for path, node in new}
        names |= set[str]().union(*(_names(part) for _, node in new for part in _run_parts(node)))
    trainers = [(path, node) for path, node in reached.values() if isinstance(node, Function) and _trains(node)]
    if not trainers and not any(map(_trains, own)):
        return frozenset()
    places = {(str(path), min(lines_of(node))) for path, node in trainers}
    return frozenset({(str(script), 0), *places})


def _run_parts(node: ast.AST) -> list[ast.AST]:
    if not isinstance(node, ast.ClassDef):
        return [node]
    return [one for one in node.body if isinstance(one, Function) and one.name in _RUN]


def _names(node: ast.AST) -> set[str]:
    named = (one for one in ast.walk(node) if isinstance(one, ast.Name | ast.Attribute))
    return {one.id if isinstance(one, ast.Name) else one.attr for one in named}
