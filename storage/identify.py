"""How runs are called: new ids, and the run that a reference means."""

import re
import secrets
import time
from collections.abc import Sequence

from .errors import InvalidName, RunNotFound, nearest
from .run import Run

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")


def new_run_id(name: str, now: float) -> str:
    """An id that sorts by time and can be a file name: `20261121-053312-digits-3f2a91c4`."""
    slug = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40] or "run"
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime(now))}-{slug}-{secrets.token_hex(4)}"


def check_run_id(run_id: str) -> str:
    """The id, when it can be a file name.

    Raises:
        InvalidName: It cannot.
    """
    if not _ID.fullmatch(run_id) or ".rank" in run_id:
        raise InvalidName(
            f"run id {run_id!r} must be 1 to 128 letters, digits, dots, dashes or underscores, begin with a letter or "
            f"digit and not hold '.rank'"
        )
    return run_id


def find_run(runs: Sequence[Run], reference: str) -> Run:
    """The run of `runs` (newest first) with that id, unique id prefix, name (its newest), or `latest`.

    Raises:
        RunNotFound: None or several answer to it.
    """
    if not runs:
        raise RunNotFound(f"no run {reference!r}: the store is empty; `mindscope demo` makes a run")
    if reference == "latest":
        return runs[0]
    for run in runs:
        if run.id == reference:
            return run
    for run in runs:
        if run.name == reference:
            return run
    begun = [run for run in runs if reference and run.id.startswith(reference)]
    if len(begun) == 1:
        return begun[0]
    if begun:
        listed = ", ".join(run.id for run in begun[:5])
        raise RunNotFound(f"{len(begun)} runs begin with {reference!r}: {listed}; give more of the id")
    known = [run.id for run in runs] + [run.name for run in runs]
    raise RunNotFound(f"no run {reference!r}{nearest(reference, known)}; `mindscope runs` lists them")
