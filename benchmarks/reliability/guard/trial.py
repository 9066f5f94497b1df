"""One training in a forked process, with one function of ours that raises, and how it differs from the unwatched."""

import contextlib
import json
import logging
import os
import runpy
import select
import signal
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mindscope.watching import run_script

from .injection import RAISED, Injector
from .stage import EVERYTHING, stage

SCRIPTS = Path(__file__).parent / "scripts"
#: Seconds after which a training hangs.
_LIMIT_S = 120.0


@dataclass(frozen=True, slots=True)
class Training:
    """A script, and how it is watched: by `watch` in it, or from outside by `mindscope run`."""

    script: str
    how: str

    @property
    def name(self) -> str:
        """Return both."""
        return f"{self.script}, {self.how}"

    def run(self, *, is_watched: bool, before_step: Callable[[int], None] = lambda _: None) -> None:
        """Run the script to its end."""
        path = SCRIPTS / f"{self.script}.py"
        config = EVERYTHING if self.how == "watch everything" else None
        is_from_outside = is_watched and self.how == "run"
        stage.reset(is_watched=is_watched and not is_from_outside, config=config, before_step=before_step)
        if not is_from_outside:
            runpy.run_path(str(path), run_name="__main__")
            return
        with tempfile.TemporaryDirectory() as folder:
            code = run_script(path, [], store=folder, name="trial", report=lambda _run, _diagnosis: None)
            stage.read_state(folder)
        if code != 0:
            raise SystemExit(1)


TRAININGS = (
    *(Training(script, "watch") for script in ("mlp", "gan", "scaler", "accumulation", "lbfgs", "engine")),
    Training("mlp", "watch everything"),
    *(Training(script, "run") for script in ("mlp", "raw", "gan", "lbfgs")),
)


@dataclass(slots=True)
class Outcome:
    """How a training went.

    Attributes:
        ended: What ended it; empty where it reached its end.
        losses, weights: As the stage keeps them.
        messages: What was logged from the level of a warning on, warned, or written by the interpreter.
        findings: What the diagnosis has said of it besides.
        summary: What `mindscope run` writes at its end about what was recorded.
        is_reached: Whether the function was called, and has raised.
        state: The state of the run in the store, where there is one.
    """

    ended: str = ""
    losses: list[str] = field(default_factory=list)
    weights: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    summary: list[str] = field(default_factory=list)
    is_reached: bool = False
    state: str = ""


class _Kept(logging.Handler):
    """Keeps what is logged; findings apart, since the diagnosis says them by its own."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(logging.WARNING)
        self._outcome = outcome

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record's message."""
        is_finding = record.name.endswith("retrying_writer") and record.msg == "run %s: %s"
        text = record.getMessage().splitlines()[0]
        (self._outcome.findings if is_finding else self._outcome.messages).append(f"{record.levelname}: {text}")


def outcome_of(training: Training, *, is_watched: bool, before_step: Callable[[int], None] = lambda _: None) -> Outcome:
    """Run the training in this process and return how it went."""
    outcome, handler = Outcome(), logging.getLogger("mindscope")
    kept = _Kept(outcome)
    handler.addHandler(kept)
    handler.propagate = False
    with warnings.catch_warnings(record=True) as warned, tempfile.TemporaryFile() as stderr:
        warnings.simplefilter("always")
        before = os.dup(2)
        os.dup2(stderr.fileno(), 2)
        try:
            training.run(is_watched=is_watched, before_step=before_step)
        except BaseException as error:  # noqa: BLE001  it is what is measured
            outcome.ended = "".join(traceback.format_exception(error)[-6:])
        finally:
            sys.stderr.flush()
            os.dup2(before, 2)
        stderr.seek(0)
        written = stderr.read().decode(errors="replace")
    handler.removeHandler(kept)
    lines = written.splitlines()
    outcome.messages += [line for line in lines if line.startswith("Exception ignored")]
    outcome.summary += [line for line in lines if line.startswith("mindscope")]
    outcome.is_reached = bool(RAISED)
    outcome.messages += [f"{one.category.__name__}: {one.message}" for one in warned]
    outcome.losses, outcome.weights = stage.losses, [one.hex() for one in stage.weights]
    with contextlib.suppress(Exception):
        outcome.state = stage.state()
    return outcome


def in_a_fork(work: Callable[[], Any], limit_s: float | None = None) -> Any:
    """Return what the work returns, done in a fork of this process; None where it takes too long, or dies."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(reading)
            with os.fdopen(writing, "w") as file:
                json.dump(work(), file)
            code = 0
        except BaseException:  # noqa: BLE001
            traceback.print_exc()
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as file:
        ready, _, _ = select.select([file], [], [], limit_s)
        text = file.read() if ready else ""
    if not ready:
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return json.loads(text) if text else None


@dataclass(frozen=True, slots=True)
class Trial:
    """What a trial changes: a function that raises from a step on, in a training."""

    training: Training
    function: str
    kind: str
    step: int

    def run(self, injector: Injector) -> Outcome:
        """Return how the training went, in a fork of this process."""

        def work() -> dict[str, Any]:
            def before_step(number: int) -> None:
                if number == self.step:
                    injector.inject(self.function, self.kind)

            return asdict(outcome_of(self.training, is_watched=True, before_step=before_step))

        found = in_a_fork(work, _LIMIT_S)
        return (
            Outcome(ended=f"the process has died, or has taken more than {_LIMIT_S:.0f} s")
            if found is None
            else Outcome(**found)
        )
