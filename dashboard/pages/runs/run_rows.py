"""The rows of the table of runs: what the list of runs tells, and what has to be read of each run, a few at a time."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

from ....insight.errors import UnknownField
from ....insight.lineage import Provenance, parse_query, resolve
from ....storage import Json, Run, RunNotFound
from ...address import PageAddress
from ...components.tables import GridRow, grid_value
from ...formatting import sentence
from ...headline import headline_of
from ...queries.reader import Reader
from .run_actions import spell_tags

_SPARK_POINTS: Final = 48


def spark(reader: Reader, run: Run) -> tuple[float | None, ...]:
    """Return the loss of the first rank in a few points; None where it was not finite."""
    values = reader.scalar(run.id, "loss", limit=_SPARK_POINTS).values
    return tuple(value if np.isfinite(value) else None for value in values.tolist())


@dataclass(frozen=True, slots=True)
class RunDetails:
    """What was read of a run.

    Args:
        run: The run as it was then.
        cells: The cells of its row that depend on what was read.
        scalars: Names of what it has logged.
        values: The last value of some of these.
    """

    run: Run
    cells: GridRow
    scalars: tuple[str, ...]
    values: Mapping[str, float] = field(default_factory=dict)


class RunDetailsCache:
    """Details of the runs, each read once until the run changes; a long list is read in several updates.

    Args:
        clock: Seconds; only differences count.
    """

    def __init__(self, reader: Reader, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._reader, self._clock = reader, clock
        self._lock = threading.Lock()
        self._known: dict[str, RunDetails] = {}

    def update(
        self, runs: Sequence[Run], names: Callable[[Collection[str]], Iterable[str]], *, for_s: float
    ) -> dict[str, RunDetails]:
        """Read some more runs, and return the details of all that were read; those of a run that changes may be late.

        Args:
            names: Returns the scalars whose last values are wanted, given the names of all that a run has.
            for_s: Seconds that this may take; what is begun is finished. With 0 nothing is read.
        """
        with self._lock:
            end = self._clock() + for_s
            there = {run.id: run for run in runs}
            self._known = {run: details for run, details in self._known.items() if run in there}
            new = [run for run in runs if run.id not in self._known]
            to_read = [*new, *(there[known] for known in self._known)] if for_s else []  # what was read last comes last
            for run in to_read:
                if self._is_reading(run, names) and self._clock() >= end:
                    break
            return {run.id: self._known[run.id] for run in runs if run.id in self._known}

    def _is_read(self, run: Run) -> bool:
        return run.id in self._known and self._known[run.id].run == run

    def _is_reading(self, run: Run, names: Callable[[Collection[str]], Iterable[str]]) -> bool:
        """Read what is not known of one run, and return whether there was any; forget it when it was deleted."""
        was_read = self._is_read(run)
        try:
            if not was_read:
                self._known.pop(run.id, None)
                self._known[run.id] = RunDetails(run, _read_cells(self._reader, run), self._reader.scalars(run.id))
            details = self._known[run.id]
            missing = set(names(details.scalars)) - set(details.values)
            if missing:
                series = {name: self._reader.scalar(run.id, name, limit=_SPARK_POINTS).values for name in missing}
                read = {name: float(values[-1]) if values.size else np.nan for name, values in series.items()}
                self._known[run.id] = replace(details, values={**details.values, **read})
        except RunNotFound:
            self._known.pop(run.id, None)
            return True
        return bool(missing) or not was_read


def _read_cells(reader: Reader, run: Run) -> GridRow:
    headline = headline_of(reader, run)
    first = headline.first
    return {
        "severity": first.severity if first else "",
        "worst": sentence(first.cause) if first else headline.verdict,
        "first_bad": first.first_step if first else None,
        "spark": list(spark(reader, run)),
    }


_UNREAD: Final[GridRow] = {"severity": "", "worst": "…", "first_bad": None, "spark": []}


@dataclass(frozen=True, slots=True)
class RunTable:
    """The table as it is asked for.

    Args:
        rows: Newest first.
        columns: Full names of the chosen fields.
        fields: What can be chosen.
        left: How many runs are still to be read.
        error: What is wrong with the query or the columns, as one message; empty when they are right.
    """

    rows: list[GridRow]
    columns: tuple[str, ...]
    fields: tuple[str, ...]
    left: int = 0
    error: str = ""


def run_table(
    cache: RunDetailsCache, runs: Sequence[Run], where: str, chosen: Sequence[str], *, now: float, for_s: float
) -> RunTable:
    """Return the rows of the runs that meet a query, with columns of chosen fields.

    Args:
        where: A query of `insight.lineage`, such as `loss < 2 and tags.lr > 1e-4`.
        chosen: Names of scalars, tags and other fields, as a query spells them.
        now: Unix seconds.
        for_s: Seconds that reading may take.

    Raises:
        WrongCondition: The query does not read as one.
    """
    query = parse_query(where)
    asked = [*(condition.field for condition in query.conditions), *chosen]
    of_runs = tuple(dict.fromkeys(name for run in runs for name, _ in _fields_of(run)))

    def wanted(scalars: Collection[str]) -> Iterator[str]:
        known = (*of_runs, *scalars)
        yield from (name for field in asked if (name := _resolved(field, known)) in scalars)

    details = cache.update(runs, wanted, for_s=for_s)
    scalars = sorted({name for read in details.values() for name in read.scalars})
    known, left = (*scalars, *of_runs), len(runs) - len(details)
    rows = tuple(Provenance(run.id, dict(_fields_of(run, details.get(run.id)))) for run in runs)
    try:
        rows = query.select(rows, known)
    except UnknownField:
        rows = rows if left else ()  # a run that was not read yet may have the field
    resolved = [_resolved(field, known) or (field if left else "") for field in chosen]
    columns = tuple(dict.fromkeys(name for name in resolved if name))
    by_id = {run.id: run for run in runs}
    shown = [_row(by_id[row.run], details.get(row.run), row.fields, columns, now) for row in rows]
    return RunTable(shown, columns, known, left, "" if left or not runs else _unknown(asked, known))


#: The column that is shown unless others are chosen; a store without it is shown without.
USUAL_COLUMN: Final = "loss"


def _unknown(asked: Iterable[str], known: Sequence[str]) -> str:
    """Say which of the fields is unknown, and the nearest to it; empty when all are known."""
    for name in asked:
        try:
            resolve(name, known)
        except UnknownField as error:
            if name != USUAL_COLUMN:
                return str(error)
    return ""


def _resolved(name: str, known: Sequence[str]) -> str:
    """Return the full name of a field; empty for an unknown one."""
    try:
        return resolve(name, known)
    except UnknownField:
        return ""


def _fields_of(run: Run, details: RunDetails | None = None) -> Iterator[tuple[str, Json]]:
    """Yield the fields of a run that a query may ask for."""
    yield from (("name", run.name or run.id), ("state", run.state_words), ("kind", run.kind))
    yield from (("framework", run.framework), ("steps", run.last_step + 1), ("elapsed", elapsed_s(run)))
    yield from (("findings", run.findings), ("worst", run.worst), ("remark", run.remark))
    yield from ((f"tag.{key}", value) for key, value in run.tags.items())
    if details is not None:
        yield from details.values.items()


def elapsed_s(run: Run) -> float:
    """Return the seconds from the run's beginning to its last sign of life."""
    return max(0.0, run.updated_at - run.created_at)


def _row(
    run: Run, details: RunDetails | None, fields: Mapping[str, Json], columns: Iterable[str], now: float
) -> GridRow:
    return {
        "id": run.id,
        "name": run.name or run.id,
        "href": _address(run).href,
        "state": run.state_words,
        **(_UNREAD if details is None else details.cells),
        "step": run.last_step if run.last_step >= 0 else None,
        "kind": run.kind,
        "tags": "  ".join(f"{key} {value}" for key, value in run.tags.items()),
        "remark": run.remark,
        "tag_line": spell_tags(run.tags),
        "elapsed": round(elapsed_s(run)),
        "age": round(now - run.updated_at),
        **{f"field.{name}": grid_value(fields.get(name)) for name in columns},
    }


def _address(run: Run) -> PageAddress:
    if run.kind == "evaluation":
        return PageAddress("robustness", run=run.parent or run.id)
    return PageAddress("run", run=run.id)
