"""One line of a benchmark's answer: a value beside its target and what others need for the same."""

from collections.abc import Mapping
from typing import Any


def row_of(
    case: str, metric: str, value: float | None, unit: str, target: float | None = None, ok: bool | None = None
) -> dict[str, Any]:
    """A row as `render.py` reads it; without a value where nothing was counted."""
    row = {"case": case, "metric": metric, "value": value, "unit": unit, "limit": None}
    return {**row, "peers": {}, "target": target, "ok": ok}


def at_most(
    target: float | None, case: str, metric: str, value: float, unit: str, peers: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """A value that is to be small; without a target it is told only."""
    return _row(case, metric, value, unit, target, None if target is None else value <= target, peers)


def at_least(
    target: float | None, case: str, metric: str, value: float, unit: str, peers: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """A value that is to be large."""
    return _row(case, metric, value, unit, target, None if target is None else value >= target, peers)


def _row(
    case: str,
    metric: str,
    value: float,
    unit: str,
    target: float | None,
    is_met: bool | None,
    peers: Mapping[str, float] | None,
) -> dict[str, Any]:
    return row_of(case, metric, round(float(value), 5), unit, target, is_met) | {"peers": dict(peers or {})}
