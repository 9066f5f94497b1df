"""The statistics, histograms and calls of one tensor."""

from typing import Final

import numpy as np

from ...storage import Histogram, Matrix, Series, metric_name, split_metric
from .reader import Reader

#: Statistics that count non-finite elements of a tensor; all others are of the finite elements.
ELEMENT_COUNTS: Final = ("nans", "pos_infs", "neg_infs")


def statistics(
    reader: Reader, run: str, site: str, subject: str, step: int, known: Series | None = None
) -> dict[str, float]:
    """Return every statistic of one tensor at one step, in the order in which it was recorded.

    Args:
        known: A series of the tensor that was read already; its value is not read again.
    """
    mine = [layout for layout in reader.layouts(run) if layout.subject == subject]
    found = {}
    for name in dict.fromkeys(name for layout in mine for name in layout.statistics):
        metric = metric_name(subject, name)
        values = known.values[known.steps == step] if known is not None and known.metric == metric else np.empty(0)
        if not values.size:
            values = reader.series(run, site, metric, first=step, last=step, limit=16).values
        if values.size:
            found[name] = float(values[0])
    return found


def element_counts(
    reader: Reader, run: str, metric: str, *, first: int | None = None, last: int | None = None, maps: int = 1
) -> list[Matrix]:
    """Return the recorded matrices that count the non-finite elements of the metric's tensors."""
    names = _count_metrics(reader, run, metric)
    return [reader.matrix(run, name, first=first, last=last, maps=maps) for name in names]


def broken_steps(reader: Reader, run: str, site: str, metric: str) -> tuple[int, ...]:
    """Return the steps at which the tensor had non-finite elements, among those that a figure shows."""
    steps: set[int] = set()
    for name in _count_metrics(reader, run, metric):
        series = reader.series(run, site, name)
        steps.update(series.steps[series.values > 0].tolist())
    return tuple(sorted(steps))


def _count_metrics(reader: Reader, run: str, metric: str) -> list[str]:
    subject, _ = split_metric(metric)
    known = reader.all_metrics(run)
    return [name for statistic in ELEMENT_COUNTS if (name := metric_name(subject, statistic)) in known]


def histograms(
    reader: Reader, run: str, site: str, subject: str, *, first: int | None = None, last: int | None = None
) -> tuple[tuple[int, Histogram], ...]:
    """Return the recorded histograms of a range of steps, each after its step, evenly thinned."""
    key = ("histograms", site, subject, first, last)
    return reader.cached(run, key, lambda store: store.histograms(run, site, subject, first=first, last=last))


def histogram(reader: Reader, run: str, site: str, subject: str, step: int) -> tuple[int, Histogram] | None:
    """Return the recorded histogram nearest to a step, with its own step; None when the tensor has none."""
    recorded = histograms(reader, run, site, subject)
    return min(recorded, key=lambda pair: abs(pair[0] - step), default=None)


def calls(reader: Reader, run: str, site: str, subject: str) -> tuple[int, ...]:
    """Return which calls of the site in a step were recorded; the first is 0."""
    found = {
        call
        for layout in reader.layouts(run)
        if layout.subject == subject
        for name, call in zip(layout.sites, layout.calls or (0,) * len(layout.sites), strict=True)
        if name == site
    }
    return tuple(sorted(found))


def whole_series(reader: Reader, run: str, site: str, metric: str, *, rank: int | None, call: int) -> Series:
    """Read every stored point of a series; not cached, for it may be long."""
    reader.version(run)
    total = reader.series(run, site, metric, rank=rank, call=call, limit=16).total
    return reader.read(lambda store: store.series(run, site, metric, rank=rank, call=call, limit=max(16, total)))
