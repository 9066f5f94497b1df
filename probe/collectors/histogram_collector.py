"""Histograms of chosen subjects, on a slower schedule."""

from dataclasses import replace

from ...storage.records import Histogram
from ..kernels import Arrays, Bins
from .collector import Step, collector


@collector("histogram", at="before_step")
class Histograms:
    """Counts of the values of weights and gradients before the step, in equal bins or in octaves (`scale: log`).

    Those of activations and their gradients are made by the hooks, from the same counts.
    """

    def __call__(self, step: Step) -> tuple[Histogram, ...]:
        """Return one histogram a parameter and subject."""
        tables = {"weight": step.weights, "gradient": step.view.gradients}
        return tuple(
            one
            for subject in step.histogram_subjects
            if subject in tables
            for one in _of_table(subject, step, tables[subject]())
        )


def histogram_at(
    site: str, subject: str, place: tuple[int, int, int], ends: tuple[float, float], bins: Bins, call: int
) -> Histogram:
    """Return the histogram of the array at (address, size, code), whose finite values lie between the ends."""
    return Histogram(site, subject, *bins.count(place, *ends), call)


def _of_table(subject: str, step: Step, arrays: Arrays) -> list[Histogram]:
    """Yield the histograms of arrays on the host; those of a device are requested if they may come later."""
    if step.device_results is None or not step.device_results.accepts_requests:
        arrays = arrays.local()
    else:
        for number, tensor in arrays.remote.items():
            step.device_results.request_histogram(tensor, step.view.names[number], subject, step.bins)
        arrays = replace(arrays, remote={})
    rows = arrays.statistics()
    places = zip(arrays.addresses.tolist(), arrays.sizes.tolist(), arrays.codes.tolist(), strict=True)
    return [
        histogram_at(name, subject, place, (row[3], row[4]), step.bins, 0)
        for name, place, row in zip(step.view.names, places, rows, strict=True)
        if place[0]
    ]
