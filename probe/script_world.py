"""Gives a script the world that `python script.py` or `python -m module` would give it, in this process."""

import builtins
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import find_spec
from io import open_code
from pathlib import Path
from pkgutil import read_code
from types import CodeType, ModuleType
from typing import Any, Final

__all__ = ["TrainingScript", "finish_threads", "world_of"]

_PACKAGE: Final = __name__.partition(".")[0]


@dataclass(frozen=True, slots=True)
class TrainingScript:
    """What is run: a file as `python FILE` does, or a module as `python -m NAME` does.

    Args:
        path: The file, also of the module.
        module: Its name; empty for a file.
        word: The path as it was written, since a script sees `./train.py` so; empty for the path itself.
    """

    path: Path
    module: str = ""
    word: str = ""

    def run(self) -> None:
        """Run it in this process, as `__main__`."""
        code, main = _code_of_module(self.module) if self.module else _code_of_file(self.words[0])
        sys.modules["__main__"] = main
        exec(code, vars(main))

    @property
    def folder(self) -> str:
        """Where its imports are looked for first."""
        return str(Path.cwd() if self.module else self.path.resolve().parent)

    @property
    def words(self) -> tuple[str, ...]:
        """What follows the interpreter on a command line that runs it."""
        return ("-m", self.module) if self.module else (self.word or str(self.path),)

    def __str__(self) -> str:
        return self.module or str(self.path)


def _code_of_file(path: str) -> tuple[CodeType, ModuleType]:
    """Return the compiled script and the empty `__main__` in which Python would run it.

    Raises:
        SyntaxError: The script is no Python.
    """
    file = os.path.join(os.getcwd(), path)  # as Python does, which keeps `./` and links
    with open_code(file) as stream:
        code = read_code(stream)  # of a .pyc
    if code is None:
        with open_code(file) as stream:
            code = compile(stream.read(), file, "exec", dont_inherit=True)
    return code, _main_module(file, None, SourceFileLoader("__main__", file))


def _code_of_module(name: str) -> tuple[CodeType, ModuleType]:
    """Return the compiled module, or `__main__` of the package, and the module in which `python -m` would run it.

    Raises:
        ImportError: There is no such module.
    """
    spec = find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = find_spec(f"{name}.__main__")
    loader: Any = None if spec is None else spec.loader  # InspectLoader, where it can return code
    code = loader.get_code(spec.name) if spec is not None and hasattr(loader, "get_code") else None
    if spec is None or code is None:
        raise ImportError(f"No module named {name}", name=name)
    return code, _main_module(spec.origin or "", spec, loader)


def _main_module(file: str, spec: ModuleSpec | None, loader: object) -> ModuleType:
    main = ModuleType("__main__")
    vars(main).update(
        __file__=file,
        __cached__=None if spec is None else spec.cached,
        __loader__=loader,
        __package__=None if spec is None else spec.parent,
        __spec__=spec,
        __builtins__=builtins,
        __annotations__={},
    )
    return main


@contextmanager
def world_of(script: TrainingScript, arguments: Sequence[str]) -> Iterator[None]:
    """Set `sys.argv`, `sys.path` and what else a script reads of its own start, as Python would.

    In a process of the command all of it stays when the block ends, since threads and exit handlers of the script still
    run; elsewhere it is restored.
    """
    main = sys.modules["__main__"]
    before = sys.argv, sys.path[:], sys.orig_argv
    is_command = _is_command(main)
    if is_command:
        sys.orig_argv = [*_interpreter_words(), *script.words, *arguments]
    sys.argv = [script.words[0] if not script.module else str(script.path), *arguments]
    if not sys.flags.safe_path:
        sys.path[0 : int(is_command)] = [script.folder]
    hidden = _uncover(Path(script.folder))
    try:
        yield
    finally:
        if not is_command:
            sys.modules["__main__"] = main
            sys.modules.update(hidden)
            sys.argv, sys.path[:], sys.orig_argv = before


def _is_command(main: ModuleType) -> bool:
    """Return whether this process was started as `mindscope` or as `python -m mindscope`."""
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).partition(".")[0] == _PACKAGE
    return Path(sys.argv[0] if sys.argv else "").stem in (_PACKAGE, f"{_PACKAGE}-script")


def _interpreter_words() -> list[str]:
    """Return the interpreter and its options, as this process was called."""
    words = sys.orig_argv[: len(sys.orig_argv) - len(sys.argv)]
    return words[:-1] if words[-1:] == ["-m"] else words


def _uncover(folder: Path) -> dict[str, ModuleType]:
    """Forget modules that we have loaded and that the folder has under the same name; return them.

    Python finds the script's own `statistics.py` before that of the standard library, unless it is loaded already.
    """
    own = {entry.stem for entry in folder.glob("*.py")} | {entry.parent.name for entry in folder.glob("*/__init__.py")}
    covering = {name for name in own & sys.modules.keys() if _is_from_elsewhere(name, folder)}
    names = [name for name in sys.modules if name.partition(".")[0] in covering]
    return {name: sys.modules.pop(name) for name in names}


def _is_from_elsewhere(name: str, folder: Path) -> bool:
    """Return whether the loaded module lies in a file outside the folder; modules of the bare interpreter do not."""
    origin = getattr(getattr(sys.modules[name], "__spec__", None), "origin", None)
    if name in (_PACKAGE, "__main__") or origin in (None, "built-in", "frozen"):
        return False
    return folder not in Path(str(origin)).resolve().parents


def finish_threads(before: set[threading.Thread]) -> None:
    """Wait for threads that the script has left running, as Python does before it exits."""
    for thread in threading.enumerate():
        if not thread.daemon and thread not in before and thread is not threading.current_thread():
            thread.join()
