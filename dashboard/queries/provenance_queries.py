"""Parameters and results of the runs of the store, as far as a page can show them."""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...insight.errors import UnknownField
from ...insight.lineage import Provenance, correlation, known_fields, parse_query, provenance, resolve
from ...storage import Run, RunNotFound
from .reader import Reader

#: Runs that are read, the newest; our choice: more lines cannot be distinguished.
MOST: Final = 300
#: Seconds that one update may read: a new run costs tens of milliseconds in a folder.
_UPDATE_S: Final = 1.0
#: Fewer runs than this have a correlation by chance, as `insight.lineage.importance` has it.
_FEWEST: Final = 6
RESULT: Final = "result."


@dataclass(frozen=True, slots=True, eq=False)
class KnownRuns:
    """What is known of the runs.

    Args:
        rows: Newest first.
        left: How many runs are still to be read.
        version: A string that changes when the rows may have changed.
    """

    rows: tuple[Provenance, ...]
    left: int
    version: str


class ProvenanceCache:
    """The rows of the newest runs, each read once until it changes; a long store is read in several updates.

    Args:
        clock: Seconds; only differences count.
    """

    def __init__(self, reader: Reader, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader, self._clock = reader, clock
        self._lock = threading.Lock()
        self._known: dict[str, tuple[str, Provenance]] = {}

    def update(self) -> KnownRuns:
        """Read some more runs, and return all known ones."""
        runs = self._reader.runs()[:MOST]
        with self._lock:  # a concurrent caller waits instead of reading the same runs
            end = self._clock() + _UPDATE_S
            for run in runs:
                if not self._is_known(run):
                    self._read(run)
                    if self._clock() >= end:
                        break
            self._known = {run.id: self._known[run.id] for run in runs if run.id in self._known}
            states = " ".join(f"{run} {state}" for run, (state, _) in self._known.items())
            return KnownRuns(
                tuple(row for _, row in self._known.values()),
                sum(not self._is_known(run) for run in runs),
                blake2b(states.encode(), digest_size=8).hexdigest(),
            )

    def _is_known(self, run: Run) -> bool:
        return run.id in self._known and self._known[run.id][0] == _state_of(run)

    def _read(self, run: Run) -> None:
        """Read one run; drop it when it was deleted meanwhile."""
        try:
            row = self._reader.read(lambda store: provenance(store, run))
        except RunNotFound:
            self._known.pop(run.id, None)
            return
        self._known[run.id] = (_state_of(run), row)


def _state_of(run: Run) -> str:
    """Return what changes with the row of a run: while it is written, every ten steps."""
    return f"{run.state} {run.last_step // 10} {run.name} {run.remark} {run.findings} {dict(run.tags)}"


def matching(rows: Sequence[Provenance], line: str) -> tuple[Provenance, ...]:
    """Return the runs that meet the conditions of a line, as `lr > 0.01 and state = finished`.

    Raises:
        WrongCondition: One of them does not read as a condition.
        UnknownField: It speaks of what no run has.
    """
    return parse_query(line).select(rows)


def results_of(rows: Sequence[Provenance]) -> tuple[str, ...]:
    """Return the names of numeric results, without their prefix."""
    names = [name for name in known_fields(rows) if name.startswith(RESULT)]
    return tuple(name.removeprefix(RESULT) for name in names)


def short_name(field: str, known: Sequence[str]) -> str:
    """Return the shortest end of the field's name that is unambiguous: `lr` for `tag.lr`."""
    parts = field.split(".")
    for at in range(len(parts) - 1, 0, -1):
        name = ".".join(parts[at:])
        try:
            if resolve(name, known) == field:
                return name
        except UnknownField:
            continue  # several fields end so
    return field


def is_numeric(rows: Sequence[Provenance], field: str) -> bool:
    """Return whether all values of the field are numbers."""
    values = [row.fields[field] for row in rows if row.fields.get(field) is not None]
    return bool(values) and all(isinstance(value, int | float) for value in values)


@dataclass(frozen=True, slots=True, eq=False)
class Correlations:
    """Rank correlations of fields with results.

    Args:
        values: `(fields, results)`, -1 to 1; NaN with fewer than six runs.
        runs: `(fields, results)` how many runs have both.
    """

    values: NDArray[np.float64]
    runs: NDArray[np.int64]


def correlations(rows: Sequence[Provenance], fields: Sequence[str], results: Sequence[str]) -> Correlations:
    """Return the rank correlation of each field with each result over the runs that have both."""
    found = np.full((len(fields), len(results)), np.nan)
    runs = np.zeros(found.shape, np.int64)
    columns = {name: np.array([row.number(name) for row in rows]) for name in (*fields, *results)}
    for at, field in enumerate(fields):
        for beside, result in enumerate(results):
            both = np.isfinite(columns[field]) & np.isfinite(columns[result])
            runs[at, beside] = both.sum()
            if runs[at, beside] >= _FEWEST:
                found[at, beside] = correlation(columns[field][both], columns[result][both])
    return Correlations(found, runs)
