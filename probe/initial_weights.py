"""What the weights were before the first step, for judging their initialisation."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ..storage.records import Event
from .collector import View


def initial_weights(step: int, micro_step: int, view: View, rows: NDArray[np.float64]) -> Callable[[], list[Event]]:
    """What makes an event `initial_weight` of every weight of two and more dimensions, once the rows are filled.

    Args:
        rows: `(parameters, 10)` their statistics.
    """
    names, shapes = view.names, view.shapes

    def make() -> list[Event]:
        return [
            Event(
                "initial_weight",
                step,
                site,
                micro_step,
                {
                    "mean": finite_or_none(row[1]),
                    "std": finite_or_none(row[2]),
                    "fan_in": int(np.prod(shape[1:])),
                    "shape": list(shape),
                },
            )
            for site, shape, row in zip(names, shapes, rows, strict=True)
            if len(shape) > 1
        ]

    return make


def finite_or_none(value: float) -> float | None:
    """The value where JSON can hold it, else None."""
    return float(value) if np.isfinite(value) else None
