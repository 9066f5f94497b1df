"""One line of a benchmark's answer: a value beside its target and what others need for the same."""

from collections.abc import Mapping
from typing import Any


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
    row = {"case": case, "metric": metric, "value": round(float(value), 5), "unit": unit, "limit": None}
    return {**row, "peers": dict(peers or {}), "target": target, "ok": is_met}
