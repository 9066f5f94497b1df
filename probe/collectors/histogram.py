"""Histograms of chosen subjects, on a slower schedule."""

import numpy as np

from ...storage.records import Histogram
from ..collector import Step, collector
from ..kernels import Arrays, count_values, edges_between


@collector("histogram", at="before_step")
class Histograms:
    """Counts of the values of weights and gradients before the step, in equal bins from minimum to maximum.

    Those of activations and their gradients are made by the hooks, from the same counts.
    """

    def prepare(self, step: Step) -> None:
        """Nothing is needed before the step."""

    def __call__(self, step: Step) -> tuple[Histogram, ...]:
        """One histogram a parameter and subject."""
        tables = {"weight": step.weights, "gradient": step.view.gradients}
        return tuple(
            one
            for subject in step.histogram_subjects
            if subject in tables
            for one in _of_table(subject, step.view.names, tables[subject](), step.bins)
        )


def histogram_at(
    site: str, subject: str, place: tuple[int, int, int], ends: tuple[float, float], bins: int, call: int
) -> Histogram:
    """The histogram of the array at (address, size, code), whose finite values lie between the ends."""
    low, high = ends if np.isfinite(ends).all() else (0.0, 0.0)
    edges = edges_between(low, high, bins)
    counts = np.zeros(bins, np.int64)
    count_values(*place, edges[0], edges[-1], counts)
    return Histogram(site, subject, edges, counts, call)


def _of_table(subject: str, names: tuple[str, ...], arrays: Arrays, bins: int) -> list[Histogram]:
    rows = arrays.statistics()
    places = zip(arrays.addresses.tolist(), arrays.sizes.tolist(), arrays.codes.tolist(), strict=True)
    return [
        histogram_at(name, subject, place, (row[3], row[4]), bins, 0)
        for name, place, row in zip(names, places, rows, strict=True)
        if place[0]
    ]
