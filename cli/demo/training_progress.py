"""The progress of the demo's trainings: a live bar on a terminal, some lines elsewhere."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text

#: Lines printed per training without a terminal.
_LINES = 10
#: Weight of the newest step in the shown throughput (our choice: about the last twenty steps).
_NEWEST = 0.05


class Reporter(Protocol):
    """Shows one training's progress."""

    def step(self, number: int, loss: float) -> None:
        """Report the end of a step."""


class Throughput:
    """Items a second, smoothed over the last steps; the first step, which compiles, is left out."""

    def __init__(self, items: int) -> None:
        self._items = items
        self._last: float | None = None
        self._seconds: float | None = None

    def tick(self, now: float) -> None:
        """Record the end of a step."""
        if self._last is not None:
            elapsed = now - self._last
            self._seconds = elapsed if self._seconds is None else self._seconds + _NEWEST * (elapsed - self._seconds)
        self._last = now

    @property
    def per_second(self) -> float:
        """Items a second, 0 before the second step."""
        return self._items / self._seconds if self._seconds else 0.0


@contextmanager
def reporting(console: Console, name: str, steps: int, items: int, unit: str) -> Iterator[Reporter]:
    """Open a reporter that suits the console: a live bar on a terminal, lines elsewhere."""
    if not console.is_terminal:
        yield _LineReporter(console, name, steps, Throughput(items), unit)
        return
    columns = (
        TextColumn("[bold]{task.description:<18}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        _LossColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, expand=True) as progress:
        task = progress.add_task(name, total=steps, loss=float("nan"), speed="")
        yield _BarReporter(progress, task, Throughput(items), unit)


class _LossColumn(ProgressColumn):
    def render(self, task: Task) -> Text:
        loss: float = task.fields["loss"]
        shown = "…" if not task.completed else f"{loss:.4f}"
        return Text(f"loss {shown}", style="red" if task.completed and loss != loss else "cyan")  # NaN is not itself


class _BarReporter:
    def __init__(self, progress: Progress, task: int, speed: Throughput, unit: str) -> None:
        self._progress, self._task, self._speed, self._unit = progress, task, speed, unit

    def step(self, number: int, loss: float) -> None:
        self._speed.tick(time.monotonic())
        speed = f"{self._speed.per_second:,.0f} {self._unit}/s" if self._speed.per_second else ""
        self._progress.update(self._task, completed=number + 1, loss=loss, speed=speed)  # type: ignore[arg-type]


class _LineReporter:
    def __init__(self, console: Console, name: str, steps: int, speed: Throughput, unit: str) -> None:
        self._console, self._name, self._steps, self._speed, self._unit = console, name, steps, speed, unit
        self._every = max(1, steps // _LINES)

    def step(self, number: int, loss: float) -> None:
        self._speed.tick(time.monotonic())
        done = number + 1
        if done % self._every and done not in (1, self._steps):
            return
        speed = f", {self._speed.per_second:,.0f} {self._unit}/s" if self._speed.per_second else ""
        self._console.print(f"{self._name}: step {done}/{self._steps}, loss {loss:.4f}{speed}", highlight=False)
