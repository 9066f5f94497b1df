"""`mindscope run` watches an unchanged training script; `mindscope sites` prints the modules of its model."""

import sys
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..garbage import uncollected
from .failures import WrongUse
from .output import add_row, console, print_json, remark, table
from .store_options import DEFAULT_STORE, JsonOption, StoreOption
from .thread_variables import came_too_late, load_numpy_for

if TYPE_CHECKING:
    from ..probe.script_world import TrainingScript

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
    full: Annotated[bool, typer.Option("--full", help="Record everything at every step, whatever it costs.")] = False,
) -> int:
    """Run a training script unchanged and watch its model. The exit code is the script's own.

    Without --config and --full, the first 200 steps (at most 30 s) are recorded whole; then recording is thinned so
    that it costs at most 5 % of the training.
    """
    if full and config:
        raise WrongUse("--full and --config exclude each other; write what to record into the file")
    loaded = load_numpy_for(words)
    script, arguments = existing_script(words)
    with uncollected():
        from ..probe.configuration.config import DEFAULT_OF_RUN
        from ..watching import run_script
        from .run_report import RunReport

    code = run_script(
        script,
        arguments,
        config=config or (None if full else DEFAULT_OF_RUN),
        store=store,
        name=name or script.path.stem,
        report=RunReport(store, sys.stderr),
    )
    if late := came_too_late(loaded):
        remark(f"mindscope: {late}")
    return code


def existing_script(words: list[str]) -> "tuple[TrainingScript, list[str]]":
    """Return the script at that path, or the module behind `-m`, and its arguments.

    Raises:
        WrongUse: There is no such script; the message names the nearest one.
    """
    from ..probe.script_world import TrainingScript
    from ..storage import nearest

    if words[0] == "-m":
        return _existing_module(words[1:])
    word, arguments = words[0], words[1:]
    path = Path(word)
    if path.is_file():
        return TrainingScript(path, word=word), arguments
    folder = path.parent if path.parent.is_dir() else Path()
    known = (str(entry) for entry in folder.glob(_LIKELY))
    raise WrongUse(f"no script at {word!r}{nearest(word, known)}")


def _existing_module(words: list[str]) -> "tuple[TrainingScript, list[str]]":
    """Return the module of that name, or the `__main__` of a package, as `python -m` finds it."""
    from ..probe.script_world import TrainingScript

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
    return TrainingScript(Path(spec.origin), words[0]), words[1:]


def sites(
    words: Annotated[
        list[str], typer.Argument(metavar="SCRIPT [ARGS]...", help="The script, or -m MODULE, and its arguments.")
    ],
    as_document: JsonOption = False,
) -> int:
    """Print the modules of the model that a script trains; the script is stopped after the first forward.

    Nothing is recorded, even if the script calls mindscope.watch itself.
    """
    from ..probe.script_sites import sites_of_script
    from ..storage import display_site

    script, arguments = existing_script(words)
    with redirect_stdout(sys.stderr):  # the output of the script must not mix with ours
        seen = sites_of_script(script, arguments)
    if seen.reason:
        raise WrongUse(seen.reason)
    if as_document:
        print_json({"script": str(script), "sites": seen.sites, "is_whole": seen.is_whole, "others": seen.others})
        return 0
    listing = table("", "site", "type", "calls", "output", "parameters", right=("calls", "parameters"))
    for module in seen.sites:
        add_row(
            listing,
            display_site(module.site),
            module.kind,
            str(module.calls),
            ", ".join(module.outputs),
            f"{module.parameters:,}",
        )
    console().print(listing)
    if not seen.is_whole:
        remark("the first forward did not finish; the modules called before it stopped are shown")
    if seen.others:
        remark(f"not shown: {', '.join(seen.others)}; watch several models as one with watch(ModuleDict(...))")
    return 0
