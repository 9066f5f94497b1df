"""Runs a training script unchanged, as `python script.py` would, with its model watched."""

import logging
import runpy
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Protocol

from ..storage import StoreError
from .adapters import Adapter
from .errors import ProbeError, ScriptNotFound

_log = logging.getLogger(__name__)


class _Finder(Protocol):
    def stop(self) -> None:
        """Stops looking."""


class Closable(Protocol):
    """What watches the model that was found."""

    def close(self, error: BaseException | None = None) -> None:
        """Ends the watch; `error` is what ended the script."""


class Stopped(SystemExit):
    """Ends the script at a place of ours: where its model cannot be watched, or where nothing more is wanted of it.

    An exit, for a script cleans up after one, lets it pass where it catches errors, and is silent about it in threads.
    """


def run_script(script: Path, arguments: Sequence[str], begin: Callable[[Adapter], Closable]) -> int:
    """The script's exit code, its training recorded; what it raises is recorded and shown as Python shows it.

    Args:
        script: A Python file.
        arguments: What the script finds behind its own name in `sys.argv`.
        begin: Begins the watch once the model is found.

    Raises:
        ScriptNotFound: There is no such file.
        ProbeError, StoreError: The model was found, but `begin` could not watch it; the script was stopped there.
    """
    if not script.is_file():
        raise ScriptNotFound(f"no script at {script}; give the path of a Python file")
    monitors: list[Closable] = []
    refusals: list[Exception] = []

    def found(adapter: Adapter) -> None:
        try:
            monitors.append(begin(adapter))
        except (ProbeError, StoreError) as refusal:
            refusals.append(refusal)
            raise Stopped(1) from refusal

    finders = _finders(found)
    error: BaseException | None = None
    try:
        code, error = _run(script, arguments)
    finally:
        for finder in finders:
            finder.stop()
        for monitor in monitors:
            monitor.close(error)
    if refusals:
        raise refusals[0]
    if not monitors:
        _log.warning("%s trained no model that could be watched; nothing was recorded", script)
    return code


def _finders(found: Callable[[Adapter], None]) -> list[_Finder]:
    """One for each framework that is installed."""
    places = [(".adapters.engine_global", "EngineFinder")]
    if find_spec("torch") is not None:
        places.append((".adapters.torch_global", "TorchFinder"))
    return [getattr(import_module(module, __package__), name)(found) for module, name in places]


def _run(script: Path, arguments: Sequence[str]) -> tuple[int, BaseException | None]:
    """Exit code, and what ended the script, None if it ended by itself or by an exit code of 0."""
    before = sys.argv, sys.path[:]
    sys.argv = [str(script), *arguments]
    sys.path[0:0] = [str(script.parent.resolve())]
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        code = _exit_code(end.code)
        return code, end if code else None
    except KeyboardInterrupt as error:
        return 130, error
    except BaseException as error:  # noqa: BLE001  it is the script's own, and shown as such
        own = _inside(error.__traceback__, script)
        sys.excepthook(type(error), error.with_traceback(own), own)
        return 1, error
    finally:
        sys.argv, sys.path[:] = before
    return 0, None


def _exit_code(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    sys.stderr.write(f"{code}\n")
    return 1


def _inside(trace: TracebackType | None, script: Path) -> TracebackType | None:
    """The part of the traceback from the script's own first frame on; all of it when there is none."""
    part = trace
    while part is not None:
        if part.tb_frame.f_code.co_filename == str(script):
            return part
        part = part.tb_next
    return trace
