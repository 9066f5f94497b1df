"""What is reported of the first step: the weights before it, and that no hook saw an activation."""

import logging

import numpy as np

from ...storage.records import Event
from ..collectors.collector import Step
from ..device_results import DeviceResults
from ..kernels import NO_MORE

_log = logging.getLogger(__name__)


def initial_weights(step: Step, micro_step: int, device_results: DeviceResults) -> list[Event]:
    """Return the events `initial_weight` of all weights of two and more dimensions; those of a device come late.

    Args:
        step: The first one, before the weights move.
    """
    step.more = NO_MORE
    rows = step.statistics(step.weights())
    names, shapes = step.view.names, step.view.shapes

    def make() -> list[Event]:
        return [
            Event(
                "initial_weight",
                step.number,
                site,
                micro_step,
                {
                    "mean": finite_or_none(row[1]),
                    "std": finite_or_none(row[2]),
                    "min": finite_or_none(row[3]),
                    "max": finite_or_none(row[4]),
                    "fan_in": int(np.prod(shape[1:])),
                    "shape": list(shape),
                },
            )
            for site, shape, row in zip(names, shapes, rows, strict=True)
            if len(shape) > 1
        ]

    if step.weights().remote:
        device_results.late_events(make)
        return []
    return make()


def finite_or_none(value: float) -> float | None:
    """Return the value where JSON can hold it, else None."""
    return float(value) if np.isfinite(value) else None


def report_empty_step(record: str) -> str:
    """Log that no activation was recorded in the first due step, and return the message.

    Args:
        record: Value of the configuration's key `record`.
    """
    message = (
        "no activation was recorded in the first due step; was the model called in training mode with gradients on?"
    )
    _log.warning("%s (configuration `record: %s`)", message, record)
    return message
