"""How far the learning-rate schedules of a torch training have come when it ends."""

import gc
import sys
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, Final

from ...storage.records import Json

__all__ = ["Schedules"]

_MOST: Final = 8
#: Step at which schedules are looked for: a script that takes fewer has no schedule that matters.
_LOOK: Final = 8
#: What a schedule calls its length, by kind; that of one with milestones is the last of them.
_LENGTHS: Final = ("T_max", "total_steps", "total_iters")


class Schedules:
    """The schedules of some optimizers, from an early step on: at the end of a training its function has returned.

    Optimizers do not know their schedules, so the garbage collector is asked who refers to them. It is not asked for
    all objects: among them are tuples that other threads are about to make, which must have one owner.

    Args:
        optimizers: Returns those watched.
    """

    def __init__(self, optimizers: Callable[[], Iterable[Any]]) -> None:
        self._optimizers = optimizers
        self._found: dict[int, Any] = {}
        self._steps = 0

    def before_step(self) -> None:
        """Count a step, and look for schedules at the eighth."""
        self._steps += 1
        if self._steps == _LOOK:
            self._look()

    def take(self) -> list[dict[str, Json]]:
        """Look once more; return the fields of the event `schedule` for each, and let them go."""
        self._look()
        found, self._found = list(self._found.values()), {}
        return [_state_of(one, inner=any(_holds(outer, one) for outer in found)) for one in found[:_MOST]]

    def _look(self) -> None:
        module = sys.modules.get("torch.optim.lr_scheduler")
        if module is not None:
            self._found |= _referring(list(self._optimizers()), module.LRScheduler)


def _referring(optimizers: list[Any], wanted: type) -> dict[int, Any]:
    """Return, by identity, the objects of this type that have one of these as an attribute, in a dictionary or not."""
    first = gc.get_referrers(*optimizers) if optimizers else []
    dictionaries = [each for each in first if type(each) is dict and "last_epoch" in each]
    second = gc.get_referrers(*dictionaries) if dictionaries else []
    return {id(each): each for each in (*first, *second) if issubclass(type(each), wanted)}


def _holds(outer: Any, schedule: Any) -> bool:
    return any(schedule is part for part in getattr(outer, "_schedulers", ()))


def _state_of(schedule: Any, *, inner: bool) -> dict[str, Json]:
    group = schedule.optimizer.param_groups[0]
    lengths = [getattr(schedule, name) for name in _LENGTHS if hasattr(schedule, name)]
    lengths += [max(schedule.milestones)] if getattr(schedule, "milestones", None) else []
    values = {
        "stepped": schedule.last_epoch,
        "length": next(iter(lengths), None),
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
