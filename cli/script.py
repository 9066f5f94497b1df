"""`mindscope run -- script.py ARGS` watches a training script that does not know of it."""

from pathlib import Path
from typing import Annotated

import typer

from .failures import WrongUse
from .options import DEFAULT_STORE, StoreOption

_LIKELY = "*.py"


_Words = Annotated[list[str], typer.Argument(metavar="-- SCRIPT [ARGS]...", help="The script and its own arguments.")]
_Config = Annotated[str, typer.Option("--config", metavar="FILE", help="What to record and when, as YAML or JSON.")]


def run(
    words: _Words,
    config: _Config = "",
    store: StoreOption = DEFAULT_STORE,
    name: Annotated[str, typer.Option("--name", help="The run's name; the script's own if not given.")] = "",
) -> int:
    """Run a training script unchanged and watch its model. The exit code is the script's own."""
    script = existing_script(words[0])
    from ..watching import run_script

    return run_script(script, words[1:], config=config or None, store=store, name=name or script.stem)


def existing_script(word: str) -> Path:
    """The script at that path.

    Raises:
        WrongUse: There is none; the nearest one is named.
    """
    from ..storage import nearest

    path = Path(word)
    if path.is_file():
        return path
    folder = path.parent if path.parent.is_dir() else Path()
    known = (str(entry) for entry in folder.glob(_LIKELY))
    raise WrongUse(f"no script at {word!r}{nearest(word, known)}")
