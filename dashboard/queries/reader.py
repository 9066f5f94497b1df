"""Cached access to the store: what every page reads, and how the other modules of this package read more."""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, TypeVar, cast

import numpy as np

from ...storage import (
    ROOT_SITE,
    Finding,
    InvalidName,
    Layout,
    Matrix,
    Run,
    RunNotFound,
    Series,
    Store,
    Structure,
    metric_name,
    split_metric,
)
from ...storage.database.disk_room import store_trouble
from ...storage.training_kinds import TrainingKind, kind_of_events
from ..formatting import store_location
from .answer_cache import AnswerCache

Answer = TypeVar("Answer")

#: Results that visitors share for moments; each may be a figure of two megabytes.
_SHARED: Final = 8
_RUNS_FOR_S: Final = 0.5
#: Seconds for which it is believed what was seen of the disk.
_TROUBLE_FOR_S: Final = 2.0
_CELLS: Final = 150_000


class Reader:
    """What the pages read, each answer kept until the run's version changes; may be used from any thread."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._kept = AnswerCache()
        self._shared: OrderedDict[Hashable, tuple[float, object]] = OrderedDict()
        self._turns: dict[Hashable, threading.Lock] = {}
        self._ids: frozenset[str] = frozenset()
        self._runs: tuple[float, tuple[Run, ...]] = (-1e9, ())
        self._answering = threading.local()
        self._heard: dict[str, tuple[float, float, bool]] = {}  # last time of the writer, since when, seen to change

    @property
    def location(self) -> str:
        """The store's URL without secrets."""
        return store_location(self._store.url)

    def runs(self) -> tuple[Run, ...]:
        """Return all runs, newest first, at most half a second old."""
        at, runs = self._runs
        if time.monotonic() - at > _RUNS_FOR_S:
            runs = self._store.runs()
            self._runs = (time.monotonic(), runs)
        return runs

    def find(self, reference: str) -> Run:
        """Return the run that the reference names.

        Raises:
            RunNotFound: No run matches, or several do.
        """
        return self._store.find_run(reference or "latest")

    def version(self, run: str) -> str:
        """Return a string that changes with every change of the run.

        Raises:
            RunNotFound: No run has that id; text from a browser is never used as a path in the store.
        """
        known: dict[str, str] | None = getattr(self._answering, "versions", None)
        if known is not None and run in known:
            return known[run]
        if run not in self._ids:
            self._ids = frozenset({*self._ids, self._store.find_run(run).id})
            if run not in self._ids:
                raise RunNotFound(f"no run has the id {run!r}; the whole id is needed here")
        version = self._store.version(run)
        if known is not None:
            known[run] = version
        return version

    def news_age(self, run: Run) -> float:
        """Return the seconds since the run's writer was heard of last.

        The writer's clock may be another machine's, so what was seen here counts once its time has changed.
        """
        now = time.monotonic()
        known = self._heard.get(run.id)
        if known is None or known[0] != run.updated_at:
            known = self._heard[run.id] = (run.updated_at, now, known is not None)
        _, since, was_seen = known
        return now - since if was_seen else max(time.time() - run.updated_at, now - since)

    def trouble(self) -> str:
        """Return why trainings cannot record into the store now; empty if they can."""
        return self.shared("trouble", lambda: store_trouble(self._store.url), for_s=_TROUBLE_FOR_S)

    def begin_answer(self) -> None:
        """Read each run's version once in this thread until `end_answer`, so that one answer is consistent."""
        self._answering.versions = {}

    def end_answer(self) -> None:
        """Stop reusing the versions that this thread has read."""
        self._answering.versions = None

    def cached(self, run: str, key: Hashable, read: Callable[[Store], Answer]) -> Answer:
        """Return the result of `read(store)`, cached under the key until the run's version changes.

        Two threads may read the same twice; neither waits.
        """
        return self.kept((run, self.version(run), key), read)

    def kept(self, key: Hashable, read: Callable[[Store], Answer]) -> Answer:
        """Return the result of `read(store)`, cached under a key that changes with it."""
        found = self._kept.find(key)
        if found is not None:
            return cast("Answer", found[0])
        answer = read(self._store)
        self._kept.keep(key, answer)
        return answer

    def shared(self, key: Hashable, make: Callable[[], Answer], *, for_s: float) -> Answer:
        """Return what `make` made under the key in the last `for_s` seconds; concurrent callers wait for one result.

        For expensive results that many visitors request while a run is written, when its version changes all the time.
        """
        with self._lock:
            turn = self._turns.setdefault(key, threading.Lock())
        with turn:
            made = self._shared.get(key)
            if made is not None and time.monotonic() - made[0] < for_s:
                return cast("Answer", made[1])
            answer = make()
            with self._lock:
                self._shared[key] = (time.monotonic(), answer)
                self._shared.move_to_end(key)
                while len(self._shared) > _SHARED:
                    self._shared.popitem(last=False)
                self._turns = {
                    name: lock for name, lock in self._turns.items() if name in self._shared or lock.locked()
                }
        return answer

    def read(self, read: Callable[[Store], Answer]) -> Answer:
        """Return the result of `read(store)`, without caching."""
        return read(self._store)

    def change(self, run: str, write: Callable[[Store], object]) -> None:
        """Call `write(store)`, which changes the run; only `store_changes` calls it, after checking permissions.

        Raises:
            RunNotFound: No run has that id.
        """
        self.version(run)
        write(self._store)
        if getattr(self._answering, "versions", None) is not None:
            self._answering.versions = {}
        self._runs = (-1e9, ())
        self._ids = frozenset()

    def structure(self, run: str) -> Structure:
        """Return the structure of the model."""
        return self.cached(run, "structure", lambda store: store.structure(run))

    def training_kind(self, run: str) -> TrainingKind:
        """Return the kind of training."""
        return self.cached(run, "kind", lambda store: kind_of_events(store.events(run, kind="training_kind")))

    def layouts(self, run: str, *, rank: int | None = None) -> tuple[Layout, ...]:
        """Return the streams that a rank recorded; without one, here and below, the first that the run has."""
        return self.cached(run, ("layouts", rank), lambda store: store.layouts(run, rank=rank))

    def findings(self, run: str) -> tuple[Finding, ...]:
        """Return all findings, earliest first."""
        return self.cached(run, "findings", lambda store: store.findings(run))

    def metrics(self, run: str) -> tuple[str, ...]:
        """Return the metrics that have a row for every site, sorted."""
        return tuple(metric for metric in self.all_metrics(run) if not metric.startswith("scalar/"))

    def scalars(self, run: str) -> tuple[str, ...]:
        """Return the names of the run's scalars, sorted."""
        return tuple(metric.removeprefix("scalar/") for metric in self.all_metrics(run) if metric.startswith("scalar/"))

    def all_metrics(self, run: str, *, rank: int | None = None) -> tuple[str, ...]:
        """Return all metrics of a rank of the run, scalars among them, sorted."""
        return self.cached(run, ("metrics", rank), lambda store: store.metrics(run, rank=rank))

    def sites(self, run: str, metric: str, *, rank: int | None = None) -> tuple[str, ...]:
        """Return the sites that have the metric, in model order; none for an unknown metric."""
        try:
            subject, _ = split_metric(metric)
        except InvalidName:
            return ()

        def read(_: Store) -> tuple[str, ...]:
            mine = sorted(
                (layout for layout in self.layouts(run, rank=rank) if layout.subject == subject),
                key=lambda layout: layout.part,
            )
            return tuple(dict.fromkeys(site for layout in mine for site in layout.sites))

        return self.cached(run, ("sites", subject, rank), read)

    def series(
        self,
        run: str,
        site: str,
        metric: str,
        *,
        first: int | None = None,
        last: int | None = None,
        limit: int = 1000,
        rank: int | None = None,
        call: int = 0,
    ) -> Series:
        """Return one series in at most `limit` points, extremes and non-finite values kept."""
        key = ("series", site, metric, first, last, limit, rank, call)
        return self.cached(
            run,
            key,
            lambda store: store.series(run, site, metric, rank=rank, call=call, first=first, last=last, limit=limit),
        )

    def scalar(
        self,
        run: str,
        name: str,
        *,
        rank: int | None = None,
        first: int | None = None,
        last: int | None = None,
        limit: int = 1000,
    ) -> Series:
        """Return one scalar of a rank of the run."""
        metric = metric_name("scalar", name)
        return self.series(run, ROOT_SITE, metric, rank=rank, first=first, last=last, limit=limit)

    def matrix(
        self, run: str, metric: str, *, first: int | None = None, last: int | None = None, maps: int = 1
    ) -> Matrix:
        """Return one metric over all sites, in as many columns as a screen shows and a page carries.

        Args:
            maps: How many of these a page shows; together they stay within what it carries.
        """
        columns = int(np.clip(_CELLS // max(1, maps * len(self.sites(run, metric))), 60, 400))
        key = ("matrix", metric, first, last, columns)
        return self.cached(run, key, lambda store: store.matrix(run, metric, first=first, last=last, limit=columns))
