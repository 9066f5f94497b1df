"""Runs a training script unchanged, as `python script.py` would, with its model watched."""

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol

from ..storage import StoreError
from .adapters import Adapter
from .errors import NotWatchable, ProbeError, ScriptNotFound, Stopped
from .failed_start import unlisted_networks
from .guard import Guard
from .late_import import ImportWatch
from .lifecycle import is_watched
from .script_world import TrainingScript, finish_threads, world_of
from .watch_session import is_hasty, watched_from_outside

#: Modules that start the processes of a training, and the command that is known for each.
_LAUNCHERS: Final = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "accelerate.commands.launch": "accelerate launch",
    "accelerate.commands.accelerate_cli": "accelerate launch",
    "deepspeed.launcher.runner": "deepspeed",
}
#: Files of the frames between the command and the script.
_RUNNERS: Final = (f"{Path(__file__).parent}{os.sep}", "<frozen ")


class _Finder(Protocol):
    def stop(self) -> None:
        """Stop looking."""

    def left_out(self) -> str:
        """Describe what was trained beside the model that was found; empty where that is unknown."""


class Closable(Protocol):
    """What watches the model that was found."""

    def close(self, error: BaseException | None = None) -> None:
        """End the watch; `error` is what ended the script."""


def run_script(
    script: Path | TrainingScript,
    arguments: Sequence[str],
    begin: Callable[[Adapter], Closable],
    *,
    is_recorded: Callable[[], bool] = lambda: False,
    failed: Callable[[Exception], object] | None = None,
) -> int:
    """Run the script, record its training and return its exit code; show its errors as Python does.

    If the script trains nothing, or other models beside the first, stderr says so, however the script has configured
    logging.

    Args:
        is_recorded: Whether processes that the script has started recorded their trainings; asked where it trained
            nothing itself.
        failed: Called with the error that ended the script, if it had trained nothing.

    Raises:
        ScriptNotFound, ProbeError, StoreError: As `run_to_end` says.
    """
    ends: list[Exception] = []
    code, reason, left_out = run_to_end(script, arguments, begin, failed=ends.append)
    if reason and not is_recorded():
        if failed is None or not ends:
            _say(f"mindscope: {reason}; nothing was recorded")
        else:
            _say(f"mindscope: {reason}")
            _guard_of("the end of the script is not recorded").attempt(failed, ends[0])
    if left_out:
        _say(f"mindscope: {left_out}")
    return code


def _say(words: str) -> None:
    """Print to stderr, unless the script has closed it or taken it away."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(f"{words}\n")


def run_to_end(
    script: Path | TrainingScript,
    arguments: Sequence[str],
    begin: Callable[[Adapter], Closable],
    *,
    failed: Callable[[Exception], object] = lambda _: None,
) -> tuple[int, str, str]:
    """Run the script; return its exit code, why no model was watched, and what was trained beside it.

    Args:
        script: A Python file, or a module.
        arguments: What the script finds behind its own name in `sys.argv`.
        begin: Begins the watch once the model is found.
        failed: Called with the error that ended the script before a model was found; an exit and Ctrl-C are none.

    Raises:
        ScriptNotFound: There is no such file.
        ProbeError, StoreError: The model was found, but `begin` could not watch it, or the script watches it itself;
            the script was stopped there, and no run was begun.
    """
    program = TrainingScript(script) if isinstance(script, Path) else script
    if not program.path.is_file():
        raise ScriptNotFound(f"no script at {script}; give the path of a Python file")
    start = _Start(program, begin)
    finders = _finders(start)
    error: BaseException | None = None
    try:
        with watched_from_outside(start.refuse), world_of(program, arguments):
            code, error = _run(program)
    finally:
        attempt = _guard_of("the watch was not ended as it should be").attempt
        for finder in finders:
            attempt(finder.stop)
        for monitor in start.monitors:
            attempt(monitor.close, error)
    if start.refusals:
        raise start.refusals[0]
    left_out = "; ".join(words for finder in finders if (words := attempt(finder.left_out, otherwise="")))
    reason = "" if start.monitors or left_out else attempt(_reason, program, code, error, otherwise="")
    if reason and isinstance(error, Exception):
        failed(error)
    return code, reason, left_out


def _guard_of(words: str) -> Guard:
    return Guard(lambda _: None, lambda: words)


class _Start:
    """Begins to watch the model that was found, or stops the script there."""

    def __init__(self, program: TrainingScript, begin: Callable[[Adapter], Closable]) -> None:
        self._program, self._begin = program, begin
        self.monitors: list[Closable] = []
        self.refusals: list[Exception] = []

    def found(self, adapter: Adapter) -> None:
        """Watch the model, unless the script does so itself, or has continued after a refusal."""
        if self.refusals:
            raise Stopped(1)
        try:
            if is_watched(adapter.model):
                raise _own_watch(self._program, adapter.model)
            self.monitors.append(self._begin(adapter))
        except (ProbeError, StoreError) as refusal:
            self.refusals.append(refusal)
            raise Stopped(1) from refusal

    def followed(self, adapter: Adapter) -> None:
        """Watch a model that the script trains after the one that was found; what fails here stops no script.

        Raises:
            NotWatchable: The script watches that model itself; the monitors go on as they are.
        """
        if is_watched(adapter.model):
            raise _own_watch(self._program, adapter.model)
        for earlier in self.monitors:
            earlier.close()
        self.monitors.append(self._begin(adapter))

    def refuse(self, model: object) -> None:
        """Stop a script that is about to watch this model, unless another one was found before."""
        if not self.monitors:
            self.refusals.append(_own_watch(self._program, model))
            raise Stopped(1) from self.refusals[-1]


def _own_watch(program: TrainingScript, model: object) -> NotWatchable:
    return NotWatchable(
        f"{program} watches its {type(model).__name__} itself; run it as it is, with python, or "
        "take the call of mindscope.watch out of it"
    )


def _reason(program: TrainingScript, code: int, error: BaseException | None) -> str:
    """Explain why no model was found."""
    if program.module in _LAUNCHERS:
        return (
            f"{program} starts processes of its own, which are not watched; let it start the watched ones: "
            f"`{_LAUNCHERS[program.module]} ... -m mindscope run -- train.py`"
        )
    if code == 0:
        known = "a Module of torch or a Cell" if find_spec("torch") is not None else "a Cell (torch is not installed)"
        return f"{program} trained no model that could be watched: it must call {known} with gradients on"
    end = f"exit code {code}" if error is None or isinstance(error, SystemExit) else type(error).__name__
    return f"{program} ended with {end} before it trained a model{_remedy(error)}"


def _remedy(error: BaseException | None) -> str:
    """Return what to do about an error before the training, behind a semicolon; empty where that is not known."""
    if "relative import" in str(error):
        return "; a part of a package runs as `-- -m PACKAGE.MODULE`"
    found = unlisted_networks(error)
    return f"; {found}" if found else ""


class _LateFinder:
    """Finds models of a framework from the moment on when the script has imported it.

    Args:
        framework: The package of the framework.
        finder: Our module and class that know it.
        found: Called with the adapter of the model.
        options: Passed on to the finder.
    """

    def __init__(
        self, framework: str, finder: tuple[str, str], found: Callable[[Adapter], None], **options: Any
    ) -> None:
        self._path, self._found, self._options = finder, found, options
        self._finder: _Finder | None = None
        self._watch = ImportWatch(framework, self._begin)

    def _begin(self) -> None:
        _guard_of("the models of this script cannot be watched; is the framework's version known?").attempt(self._make)

    def _make(self) -> None:
        module, name = self._path
        self._finder = getattr(import_module(module, __package__), name)(self._found, **self._options)

    def stop(self) -> None:
        """Look no more."""
        self._watch.stop()
        if self._finder is not None:
            self._finder.stop()

    def left_out(self) -> str:
        """Return what the framework's own finder says."""
        return "" if self._finder is None else self._finder.left_out()


def _finders(start: _Start) -> list[_Finder]:
    """Return a finder for each framework."""
    engine = f"{__name__.partition('.')[0]}.framework"
    return [
        _LateFinder(engine, (".adapters.engine.engine_unknown_model", "EngineFinder"), start.found),
        _LateFinder(
            "torch",
            (".adapters.torch.torch_unknown_model", "TorchFinder"),
            start.found,
            is_hasty=is_hasty(),
            followed=start.followed,
        ),
    ]


def _run(program: TrainingScript) -> tuple[int, BaseException | None]:
    """Exit code, and what ended the script, None if it ended by itself or by an exit code of 0."""
    threads = set(threading.enumerate())
    try:
        return _run_main(program)
    finally:
        _guard_of("threads of the script are not waited for").attempt(finish_threads, threads)


def _run_main(program: TrainingScript) -> tuple[int, BaseException | None]:
    """Run the script until its main thread has reached its end."""
    try:
        program.run()
    except SystemExit as end:
        code = _exit_code(end.code)
        return code, end if code else None
    except BaseException as error:  # noqa: BLE001  it is the script's own, and shown as such
        own = _inside(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(own), own)
        return 130 if isinstance(error, KeyboardInterrupt) else 1, error
    return 0, None


def _exit_code(code: object) -> int:
    if code is None or isinstance(code, int):
        return code or 0
    _say(str(code))
    return 1


def _inside(trace: TracebackType | None) -> TracebackType | None:
    """Return the traceback from the script's own first frame on; None when there is none."""
    part = trace
    while part is not None and part.tb_frame.f_code.co_filename.startswith(_RUNNERS):
        part = part.tb_next
    return part
