"""`mindscope run -- script.py ARGS` watches a training script that does not know of it."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .failures import WrongUse
from .options import DEFAULT_STORE, StoreOption

if TYPE_CHECKING:
    from ..probe.script import Program

_LIKELY = "*.py"

_Words = Annotated[
    list[str], typer.Argument(metavar="-- SCRIPT [ARGS]...", help="The script, or -m MODULE, and its arguments.")
]
_Config = Annotated[str, typer.Option("--config", metavar="FILE", help="What to record and when, as YAML or JSON.")]


def run(
    words: _Words,
    config: _Config = "",
    store: StoreOption = DEFAULT_STORE,
    name: Annotated[str, typer.Option("--name", help="The run's name; the script's own if not given.")] = "",
) -> int:
    """Run a training script unchanged and watch its model. The exit code is the script's own."""
    script, arguments = existing_script(words)
    from ..watching import run_script

    return run_script(script, arguments, config=config or None, store=store, name=name or script.path.stem)


def existing_script(words: list[str]) -> "tuple[Program, list[str]]":
    """The script at that path, or the module behind `-m`, and its arguments.

    Raises:
        WrongUse: There is none; the nearest one is named.
    """
    from ..probe.script import Program
    from ..storage import nearest

    if words[0] == "-m":
        return _existing_module(words[1:])
    word, arguments = words[0], words[1:]
    path = Path(word)
    if path.is_file():
        return Program(path), arguments
    folder = path.parent if path.parent.is_dir() else Path()
    known = (str(entry) for entry in folder.glob(_LIKELY))
    raise WrongUse(f"no script at {word!r}{nearest(word, known)}")


def _existing_module(words: list[str]) -> "tuple[Program, list[str]]":
    """The module of that name, found from the current folder as `python -m` finds it; of a package its `__main__`."""
    from ..probe.script import Program

    if not words:
        raise WrongUse("-m must be followed by the name of a module")
    sys.path.insert(0, str(Path.cwd()))
    try:
        spec = find_spec(words[0])
        if spec is not None and spec.submodule_search_locations is not None:
            spec = find_spec(f"{words[0]}.__main__")
    except ImportError:
        spec = None
    finally:
        sys.path.pop(0)
    if spec is None or spec.origin is None:
        raise WrongUse(f"no module {words[0]!r} is found from {Path.cwd()}; `python -m` runs one by its dotted name")
    return Program(Path(spec.origin), words[0]), words[1:]
