"""What is reported of the first step: the weights before it, the program's text, and that no hook saw an activation."""

import logging

import numpy as np

from ...storage.records import Event
from ..checks.program_text.contradictions import expressions_fit_their_names
from ..checks.program_text.orders import arrays_keep_one_order
from ..checks.program_text.own_files import own_sources
from ..checks.program_text.unread_values import values_are_read
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


def text_read(step: int) -> list[Event]:
    """Return what the text of the program tells, as events `check`; nothing where there is no script."""
    try:
        script, sources = own_sources()
        if not sources:
            return []
        results = [values_are_read(sources, script=script), *expressions_fit_their_names(sources)]
        results.append(arrays_keep_one_order(sources))
    except Exception:  # noqa: BLE001  the training must not feel that the observation fails
        _log.debug("the text of the program cannot be read", exc_info=True)
        return []
    return [Event("check", step, data={**result.data(), "occasion": 1}) for result in results]


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
