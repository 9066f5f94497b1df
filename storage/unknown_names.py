"""Warns people who ask a store for a name that it does not have; our own code asks whether something is there."""

import sys
import warnings
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

from .errors import nearest
from .metric_series import ROOT_SITE, display_site
from .records import Layout
from .run_info import Structure

__all__ = ["is_asked_by_people", "missing_folder", "warn_of_unknown_series"]

#: Likeness from which on two names are the same but for a slip (our choice: a letter in six).
_ALIKE: Final = 0.85
_PACKAGE: Final = __name__.partition(".")[0]
_OURS: Final = tuple(
    f"{_PACKAGE}.{part}" for part in ("cli", "dashboard", "insight", "probe", "storage", "watching", "armour")
)


def is_asked_by_people(depth: int = 2) -> bool:
    """Return whether the caller's caller is code of a user: our own reads metrics that may be missing."""
    return not str(sys._getframe(depth).f_globals.get("__name__", "")).startswith(_OURS)


def warn_of_unknown_series(
    run: str,
    site: str,
    metric: str,
    layouts: Sequence[Layout],
    metrics: Iterable[str],
    structure: Structure,
    *,
    stacklevel: int = 3,
) -> None:
    """Warn where a name looks misspelt: the run has none like it, or one that is nearly the same.

    What is only not recorded, such as the gradient of a frozen parameter, is no misspelling.
    """
    known = tuple(metrics)
    if not known:
        return  # nothing is recorded yet
    if metric not in known:
        if _is_misspelt(metric, known):
            warnings.warn(f"run {run} has no metric {metric!r}{nearest(metric, known)}", stacklevel=stacklevel)
        return
    sites = {name for layout in layouts for name in layout.sites} | {ROOT_SITE}
    sites |= {module.site for module in structure.modules} | {parameter.site for parameter in structure.parameters}
    if site not in sites:
        words = f"run {run} has no site {display_site(site)!r}{nearest(site, sites)}"
        warnings.warn(words, stacklevel=stacklevel)


def _is_misspelt(metric: str, known: Sequence[str]) -> bool:
    """Return whether a metric is nearly a known one, or its statistic is known of no subject."""
    if get_close_matches(metric, known, n=1, cutoff=_ALIKE):
        return True
    subject, _, statistic = metric.rpartition("/")
    return subject.partition("/")[0] != "scalar" and statistic not in {name.rpartition("/")[2] for name in known}


def missing_folder(folder: Path) -> tuple[str, bool]:
    """Return that there is no such folder, with the nearest store beside it, and whether there is one; or empty."""
    if folder.exists():
        return "", False
    beside = folder.resolve().parent
    stores = {file.parent.name for file in beside.glob("*/*.rank*.db")}
    near = nearest(folder.name, stores)
    return f"there is no folder {folder}, so the store is empty{near}", bool(near)
