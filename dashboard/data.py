"""Cached reads of the store; the only file of the dashboard that calls it."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, TypeVar, cast

import numpy as np

from ..storage import (
    ROOT_SITE,
    Finding,
    Histogram,
    InvalidName,
    Matrix,
    Outcome,
    Run,
    RunNotFound,
    Series,
    Store,
    Structure,
    metric_name,
    split_metric,
)
from .words import store_place

Answer = TypeVar("Answer")

#: Statistics that count the elements of a tensor which are not finite; all others are of the finite ones only.
ELEMENT_COUNTS: Final = ("nans", "pos_infs", "neg_infs")

_CACHED: Final = 512
_RUNS_FOR_S: Final = 0.5
_CELLS: Final = 150_000
_SPARK_POINTS: Final = 48


class Reader:
    """What the pages read, each answer kept until the run's version changes; may be used from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, object] = OrderedDict()
        self._ids: frozenset[str] = frozenset()
        self._runs: tuple[float, tuple[Run, ...]] = (-1e9, ())

    @property
    def place(self) -> str:
        """Where the store is, without secrets."""
        return store_place(self._store.url)

    def runs(self) -> tuple[Run, ...]:
        """All runs, newest first, at most half a second old."""
        at, runs = self._runs
        if time.monotonic() - at > _RUNS_FOR_S:
            runs = self._store.runs()
            self._runs = (time.monotonic(), runs)
        return runs

    def find(self, reference: str) -> Run:
        """The run that the reference names.

        Raises:
            RunNotFound: None or several answer to it.
        """
        return self._store.find_run(reference or "latest")

    def version(self, run: str) -> str:
        """A word that changes with the run.

        Raises:
            RunNotFound: No run has that id; what comes from a browser is never taken for a place in the store.
        """
        if run not in self._ids:
            self._ids = frozenset({*self._ids, self._store.find_run(run).id})
            if run not in self._ids:
                raise RunNotFound(f"no run has the id {run!r}; the whole id is needed here")
        return self._store.version(run)

    def _cached(self, run: str, key: Hashable, read: Callable[[], Answer]) -> Answer:
        """The answer as it was at the run's present version; two threads may read it twice, neither waits."""
        full = (run, self.version(run), key)
        with self._lock:
            if full in self._kept:
                self._kept.move_to_end(full)
                return cast("Answer", self._kept[full])
        answer = read()
        with self._lock:
            self._kept[full] = answer
            while len(self._kept) > _CACHED:
                self._kept.popitem(last=False)
        return answer

    def structure(self, run: str) -> Structure:
        """What was trained."""
        return self._cached(run, "structure", lambda: self._store.structure(run))

    def findings(self, run: str) -> tuple[Finding, ...]:
        """All findings, earliest first."""
        return self._cached(run, "findings", lambda: self._store.findings(run))

    def metrics(self, run: str) -> tuple[str, ...]:
        """The metrics that have a row for every site, sorted."""
        return tuple(metric for metric in self._all_metrics(run) if not metric.startswith("scalar/"))

    def scalars(self, run: str) -> tuple[str, ...]:
        """The names of the run's scalars, sorted."""
        return tuple(
            metric.removeprefix("scalar/") for metric in self._all_metrics(run) if metric.startswith("scalar/")
        )

    def _all_metrics(self, run: str) -> tuple[str, ...]:
        return self._cached(run, "metrics", lambda: self._store.metrics(run))

    def sites(self, run: str, metric: str) -> tuple[str, ...]:
        """The sites that have the metric, in model order; none for an unknown metric."""
        try:
            subject, _ = split_metric(metric)
        except InvalidName:
            return ()
        layouts = self._cached(run, "layouts", lambda: self._store.layouts(run))
        mine = sorted((layout for layout in layouts if layout.subject == subject), key=lambda layout: layout.part)
        return tuple(dict.fromkeys(site for layout in mine for site in layout.sites))

    def series(
        self, run: str, site: str, metric: str, *, first: int | None = None, last: int | None = None, limit: int = 1000
    ) -> Series:
        """One series in at most `limit` points, extremes and non-finite values kept."""
        key = ("series", site, metric, first, last, limit)
        return self._cached(
            run, key, lambda: self._store.series(run, site, metric, first=first, last=last, limit=limit)
        )

    def scalar(self, run: str, name: str, *, first: int | None = None, limit: int = 1000) -> Series:
        """One scalar of the run."""
        return self.series(run, ROOT_SITE, metric_name("scalar", name), first=first, limit=limit)

    def matrix(self, run: str, metric: str) -> Matrix:
        """One metric over all sites and steps, in as many columns as a screen shows and a page carries."""
        columns = int(np.clip(_CELLS // max(1, len(self.sites(run, metric))), 60, 400))
        return self._cached(run, ("matrix", metric, columns), lambda: self._store.matrix(run, metric, limit=columns))

    def statistics(self, run: str, site: str, subject: str, step: int) -> dict[str, float]:
        """Every statistic of one tensor at one step, in the order in which it was recorded."""
        layouts = self._cached(run, "layouts", lambda: self._store.layouts(run))
        names = dict.fromkeys(name for layout in layouts if layout.subject == subject for name in layout.statistics)
        found = {}
        for name in names:
            values = self.series(run, site, metric_name(subject, name), first=step, last=step, limit=16).values
            if values.size:
                found[name] = float(values[0])
        return found

    def element_counts(self, run: str, metric: str) -> list[Matrix]:
        """The matrices of how many elements of the metric's tensors were not finite, as far as recorded."""
        return [self.matrix(run, name) for name in self._count_metrics(run, metric)]

    def broken_steps(self, run: str, site: str, metric: str) -> tuple[int, ...]:
        """The steps at which the tensor had elements that were not finite, among those that a picture shows."""
        steps: set[int] = set()
        for name in self._count_metrics(run, metric):
            series = self.series(run, site, name)
            steps.update(series.steps[series.values > 0].tolist())
        return tuple(sorted(steps))

    def _count_metrics(self, run: str, metric: str) -> list[str]:
        subject, _ = split_metric(metric)
        known = self._all_metrics(run)
        return [name for statistic in ELEMENT_COUNTS if (name := metric_name(subject, statistic)) in known]

    def histogram(self, run: str, site: str, subject: str, step: int) -> tuple[int, Histogram] | None:
        """The recorded histogram nearest to a step, with its own step; None when the tensor has none."""
        key = ("histograms", site, subject)
        recorded = self._cached(run, key, lambda: self._store.histograms(run, site, subject))
        return min(recorded, key=lambda pair: abs(pair[0] - step), default=None)

    def spark(self, run: str) -> tuple[float | None, ...]:
        """The loss in a few points; None where it was not finite."""
        values = self.scalar(run, "loss", limit=_SPARK_POINTS).values
        return tuple(value if np.isfinite(value) else None for value in values.tolist())

    def outcomes(self, run: str) -> tuple[tuple[Run, tuple[Outcome, ...]], ...]:
        """The evaluations of a run that have outcomes, the run itself among them, newest first."""
        about = [one for one in self.runs() if one.id == run or one.parent == run]
        pairs = ((one, self._cached(one.id, "outcomes", lambda one=one: self._store.outcomes(one.id))) for one in about)  # type: ignore[misc]
        return tuple((one, outcomes) for one, outcomes in pairs if outcomes)
