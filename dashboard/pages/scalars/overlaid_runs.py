"""Runs over each other: how an address names any number of them, and which they are."""

from collections.abc import Sequence
from typing import Final

from ....storage import Run
from ...address import PageAddress
from ...queries.reader import Reader

#: Characters at the end of a run's id that stand for it in an address: eight random ones.
ENDING: Final = 8
#: Runs that an address has room for.
MOST_RUNS: Final = 200


def overlay_address(runs: Sequence[str]) -> PageAddress:
    """Return the address of the wall with these runs over each other, of `MOST_RUNS` at most.

    Args:
        runs: Their ids, one or more.
    """
    others = ",".join(run[-ENDING:] for run in runs[1:MOST_RUNS])
    address = PageAddress("scalars", run=runs[0])
    return address.having(**{"with": others}) if others else address


def runs_shown(reader: Reader, reference: str, others: Sequence[str] | None) -> list[Run]:
    """Return the run of the page, then those laid over it, in the order in which they were chosen.

    Args:
        others: Ids, or their ends; runs that are gone are left out.

    Raises:
        RunNotFound: The run of the page is gone.
    """
    by_ending = {run.id[-ENDING:]: run for run in reader.runs()}
    first = reader.find(reference)
    chosen = [by_ending[other[-ENDING:]] for other in others or () if other[-ENDING:] in by_ending]
    return list({run.id: run for run in (first, *chosen)}.values())
