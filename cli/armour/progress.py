"""A bar on stderr with the time that is left; nothing where stderr is no terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Takes the share that is done, 0 to 1, and what is at work.
Tell = Callable[[float, str], None]


@contextmanager
def bar(what: str) -> Iterator[Tell]:
    """A function to tell of progress.

    Args:
        what: Stands before the bar until something is told.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(bar_width=None),
        TaskProgressColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    screen = Console(file=sys.stderr)
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress:
        task = progress.add_task(what, total=1.0)
        yield lambda share, label: progress.update(task, completed=share, description=label)
