"""Outcomes of a command as a run of the store, and as lines on the screen."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..output import print_json, remark
from .report import write_report

if TYPE_CHECKING:
    from ...storage import Json, Outcome


def record(
    outcomes: "Sequence[Outcome]",
    url: str,
    *,
    name: str,
    parent: str,
    config: "Mapping[str, Json]",
    framework: str = "",
) -> str:
    """The id of the run of kind `evaluation` that now holds the outcomes."""
    from ...armour.evaluation.outcome_log import OutcomeLog
    from ...storage import open_store

    with open_store(url) as store, OutcomeLog(store, name, framework, parent or None, config) as log:
        log.write(outcomes)
        return log.run


def check_parent(url: str, parent: str) -> None:
    """Nothing, if there is no parent or the store has it.

    Raises:
        RunNotFound: Before anything is computed.
    """
    from ..stores import open_existing

    if parent:
        with open_existing(url) as store:
            store.find_run(parent)


def tell(outcomes: "Sequence[Outcome]", lines: Sequence[str], run: str, url: str, *, json: bool, html: str) -> None:
    """Prints the outcomes as one document, or the lines, and writes the report where one is asked for."""
    if html:
        write_report(html, outcomes)
        remark(f"report written to {html}")
    if json:
        print_json({"run": run, "outcomes": outcomes})
        return
    print("\n".join(lines))
    remark(f"stored as {run} in {url}")
