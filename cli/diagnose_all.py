"""`mindscope diagnose --all` diagnoses every run of a store, over several workers if there are many."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .failures import STORE_UNREADABLE
from .output import add_row, console, print_json, table
from .store_options import is_path, open_existing

#: Characters of a cell.
_LONGEST = 60


def diagnose_all(store: str, workers: str, *, write: bool, as_document: bool, severities: Sequence[str]) -> int:
    """Print the verdict of each training; return the exit code, which is 3 where a run is damaged or cannot be read.

    Args:
        workers: How many processes, or the address of a cluster.
        severities: Findings of these make the exit code 1.
    """
    from ..insight.many_runs import diagnose_runs
    from ..storage import display_site

    with open_existing(store) as opened:
        runs = opened.runs(limit=1_000_000)
        names = {run.id: run.name for run in runs if run.kind != "evaluation"}  # an evaluation has outcomes, no steps
    url = str(Path(store).absolute()) if is_path(store) else store
    listing = table("", "run", "name", "verdict", "first cause", "since", right=("since",))
    documents: list[dict[str, Any]] = []  # Any: parsed JSON
    is_bad = is_unread = False
    for one in diagnose_runs(url, tuple(names), workers, write=write):
        if one.document is None:
            is_unread = True
            documents.append({"run": one.run, "verdict": "unreadable", "error": one.error})
            add_row(listing, one.run, names[one.run], "unreadable", one.error[:_LONGEST], "")
            continue
        found: Any = one.document
        documents.append({**found, "name": names[one.run]})
        is_bad = is_bad or any(finding["severity"] in severities for finding in found["findings"])
        root = next(iter(found["root_causes"]), None)
        cause = "" if root is None else f"{root['cause']} at {display_site(root['site'])}"
        is_damaged = "damage" in found
        is_unread = is_unread or is_damaged
        since = "" if root is None else str(root["first_step"])
        add_row(
            listing,
            one.run,
            names[one.run],
            f"{found['verdict_words']}{', damaged' * is_damaged}",
            cause[:_LONGEST],
            since,
        )
    if as_document:
        print_json({"runs": documents})
    else:
        console().print(listing)
    return STORE_UNREADABLE if is_unread else int(is_bad)
