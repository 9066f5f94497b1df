"""The files that a person has written for the program that runs: the script, and the modules beside it."""

import ast
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from ....storage.code_places import OUR_FILES
from ...facts.environment import without_secrets
from .trees import trees_of

#: Files of one program that are read, and bytes of one: more of either is a library. Our choice.
MOST_FILES, MOST_BYTES = 40, 200_000
#: Bytes of text that a run records. Our choice: as much as a few hundred steps take.
_MOST_RECORDED = 400_000
#: What lies in the folder of a project and in none below it.
_PROJECT_MARKS = (".git", ".hg", "pyproject.toml", "setup.py", "setup.cfg")


def own_sources() -> tuple[str, dict[str, str]]:
    """Return the path of the script that runs, and the texts of its files by path; nothing where there is no script.

    Modules count that are loaded from the script's project, as its version control or packaging marks it; from the
    script's folder or below it where nothing does, or where the project has more files than a person's program.
    """
    script = _file_of(sys.modules.get("__main__"))
    if not os.path.isfile(script) or _is_installed(script):
        return "", {}
    folder = os.path.dirname(script)
    paths = dict.fromkeys((script, *map(_file_of, list(sys.modules.values()))))
    for root in dict.fromkeys((_project_of(folder), folder)):
        own = [path for path in paths if _is_own(path, os.path.join(root, ""))]
        if len(own) <= MOST_FILES:
            return script, _texts(own)
    return "", {}


def _project_of(folder: str) -> str:
    """Return the nearest folder around this one that is marked as a project; this one if none is."""
    home = os.path.expanduser("~")
    around = folder
    while around not in (home, os.path.dirname(around)):
        if any(os.path.exists(os.path.join(around, mark)) for mark in _PROJECT_MARKS):
            return around
        around = os.path.dirname(around)
    return folder


def _is_own(path: str, root: str) -> bool:
    """Return whether a file lies below the root, is nobody else's, and is no larger than a person writes it."""
    if not path.startswith(root) or path.startswith(OUR_FILES) or _is_installed(path):
        return False
    try:
        return os.path.getsize(path) <= MOST_BYTES
    except OSError:
        return False


def _texts(paths: Iterable[str]) -> dict[str, str]:
    """Return the texts of the files that can be read."""
    texts: dict[str, str] = {}
    for path in paths:
        with suppress(OSError, ValueError):
            texts[path] = Path(path).read_text(encoding="utf-8")
    return texts


def own_modules() -> tuple[ModuleType, ...]:
    """Return the modules of the program's files, `__main__` among them, also where it has no file."""
    return _own_modules(len(sys.modules), id(sys.modules.get("__main__")))


@lru_cache(maxsize=1)
def _own_modules(_modules: int, _main: int) -> tuple[ModuleType, ...]:
    _, texts = own_sources()
    main = sys.modules.get("__main__")
    known = (one for one in list(sys.modules.values()) if one is not None)
    return tuple(one for one in known if one is main or _file_of(one) in texts)


def recorded_sources(script: str, texts: Mapping[str, str]) -> dict[str, Any] | None:
    """Return the fields of the event `program_text`: the script's name and the texts of its files, by their names.

    Names are as from the script's folder, `../model.py` for a file beside it, and secrets are hidden. None where there
    is no script, or more text than `_MOST_RECORDED` bytes.

    Args:
        script: As `own_sources` returns it, with the texts.
    """
    if not script or sum(map(len, texts.values())) > _MOST_RECORDED:
        return None
    named = {Path(os.path.relpath(path, Path(script).parent)).as_posix(): text for path, text in texts.items()}
    return {"script": Path(script).name, "files": {name: without_secrets(text) for name, text in named.items()}}


@contextmanager
def same_globals() -> Iterator[None]:
    """Put back, after the block, numbers and words that functions of the program keep in global names.

    A forward may count its calls there; those of a copy must not be counted.
    """
    before = [
        (values, name, values[name])
        for values, name in _global_names(len(sys.modules))
        if isinstance(values.get(name), bool | int | float | str | tuple | None)
    ]
    try:
        yield
    finally:
        for values, name, value in before:
            values[name] = value


@lru_cache(maxsize=1)
def _global_names(_modules: int) -> tuple[tuple[dict[str, Any], str], ...]:
    """Return the names that the program's functions declare as global, with the names of their modules."""
    _, texts = own_sources()
    found: list[tuple[dict[str, Any], str]] = []
    for module in own_modules():
        text = texts.get(_file_of(module), "")
        if "global " not in text:
            continue
        nodes = [node for tree in trees_of({"": text}).values() for node in ast.walk(tree)]
        names = {name for node in nodes if isinstance(node, ast.Global) for name in node.names}
        found += [(vars(module), name) for name in sorted(names) if name in vars(module)]
    return tuple(found)


def _is_installed(path: str) -> bool:
    return "site-packages" in path.split(os.sep)


def _file_of(module: ModuleType | None) -> str:
    """Return the path of a module's text, empty where it has none; a module may be anything that is put among them.

    Thousands of modules are asked, most of them libraries, so the disk is not.
    """
    try:
        name = getattr(module, "__file__", None)
        return os.path.abspath(name) if isinstance(name, str) and name.endswith(".py") else ""
    except Exception:  # noqa: BLE001  an attribute of it may raise
        return ""
