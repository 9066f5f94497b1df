"""A command's progress bar, and its outcomes as a run of the store and as lines on the screen."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..output import print_json, remark
from .armour_report import write_report

if TYPE_CHECKING:
    from ...storage import Json, Outcome

#: Takes the share that is done, 0 to 1, and the name of the current work.
ReportProgress = Callable[[float, str], None]


@contextmanager
def progress_bar(what: str) -> Iterator[ReportProgress]:
    """Show a progress bar within the block; yield the function that updates it.

    Args:
        what: Label of the bar until the first update.
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


def record(
    outcomes: "Sequence[Outcome]",
    url: str,
    *,
    name: str,
    parent: str,
    config: "Mapping[str, Json]",
    framework: str = "",
) -> str:
    """Write the outcomes to a new run of kind `evaluation` and return its id."""
    from ...armour.evaluation.outcome_log import OutcomeLog
    from ...storage import open_store

    with open_store(url) as store, OutcomeLog(store, name, framework, parent or None, config) as log:
        log.write(outcomes)
        return log.run


def check_parent(url: str, parent: str) -> None:
    """Check that the store has the parent, if one is named.

    Raises:
        RunNotFound: Before anything is computed.
    """
    from ..store_options import open_existing

    if parent:
        with open_existing(url) as store:
            store.find_run(parent)


def print_outcomes(
    outcomes: "Sequence[Outcome]", lines: Sequence[str], run: str, url: str, *, json: bool, html: str
) -> None:
    """Print the outcomes as one document or as lines, and write the report if one is asked for."""
    if html:
        write_report(html, outcomes)
        remark(f"report written to {html}")
    if json:
        print_json({"run": run, "outcomes": outcomes})
        return
    print("\n".join(lines))
    remark(f"stored as {run} in {url}")


def query_line(outcome: "Outcome") -> str:
    """Return one line about what a query defence costs both sides."""
    details: Any = outcome.details
    return (
        f"{outcome.attack}: {details['query_count_variance']:+.1%} of {details['allowed']} queries, "
        f"{details['success_variance']:.1%} fewer attacks succeed, {details['false_positive_rate']:.1%} false alarms, "
        f"answers {details['response_time_variance']:+.0%} slower"
    )
