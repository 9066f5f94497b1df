"""How far the learning-rate schedules of a torch training have come when it ends."""

import gc
import sys
from collections.abc import Iterable, Iterator
from math import isfinite
from typing import Any, Final

from ...storage.records import Json

__all__ = ["schedules_of"]

_MOST: Final = 8
#: What a schedule calls its length, by kind.
_LENGTHS: Final = ("T_max", "total_steps", "total_iters")


def schedules_of(optimizers: Iterable[Any]) -> Iterator[dict[str, Json]]:
    """Yield the fields of the event `schedule` for each schedule of these optimizers.

    Optimizers do not know their schedules, so the garbage collector is asked once who refers to them. It is not asked
    for all objects: among them are tuples that other threads are about to make, which must have one owner.
    """
    module = sys.modules.get("torch.optim.lr_scheduler")
    if module is None:
        return
    found = _referring(list(optimizers), module.LRScheduler)
    for schedule in found[:_MOST]:
        yield _state_of(schedule, inner=any(_holds(outer, schedule) for outer in found))


def _referring(optimizers: list[Any], wanted: type) -> list[Any]:
    """Return the objects of this type that have one of these as an attribute, directly or in a dictionary."""
    first = gc.get_referrers(*optimizers) if optimizers else []
    dictionaries = [each for each in first if type(each) is dict and "last_epoch" in each]
    second = gc.get_referrers(*dictionaries) if dictionaries else []
    found = {id(each): each for each in (*first, *second) if issubclass(type(each), wanted)}
    return list(found.values())


def _holds(outer: Any, schedule: Any) -> bool:
    return any(schedule is part for part in getattr(outer, "_schedulers", ()))


def _state_of(schedule: Any, *, inner: bool) -> dict[str, Json]:
    group = schedule.optimizer.param_groups[0]
    values = {
        "stepped": schedule.last_epoch,
        "length": next((getattr(schedule, name) for name in _LENGTHS if hasattr(schedule, name)), None),
        "rate": group.get("lr"),
        "peak": group.get("max_lr", group.get("initial_lr")),
        "lowest": getattr(schedule, "eta_min", None),
        "best": getattr(schedule, "best", None),
    }
    numbers: dict[str, Json] = {name: float(value) for name, value in values.items() if _is_a_number(value)}
    return {"type": type(schedule).__name__, "mode": getattr(schedule, "mode", ""), "is_part": inner, **numbers}


def _is_a_number(value: Any) -> bool:
    try:
        return isfinite(float(value))
    except (TypeError, ValueError):
        return False
