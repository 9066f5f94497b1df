"""A service that is asked by an attacker and by others, with its defence and without."""

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from ..arrays import Images, to_numpy
from ..attacks import Square
from ..contract.result import AttackResult
from ..detectors import Alarm
from ..model import Model
from .query_defence import QueryDefence, query_defence

_TIMED: Final = 50  # benign queries whose times are taken: our choice


def ask_both(
    bare: Model,
    defended: Model,
    x: Images,
    y: ArrayLike,
    *,
    attack: Square,
    epsilon: float,
    alarm: Alarm | None = None,
    seed: int = 0,
) -> tuple[QueryDefence, float]:
    """What the defence costs the attacker and everybody else, and the accuracy that the attack leaves with it.

    Args:
        bare: Without the defence.
        defended: With it; the same model where the alarm is all there is.
        x: `(n, ...)` inputs; the attack begins at them, and benign queries are they themselves.
        attack: Asks for logits.
        alarm: Looks at every query; an adversarial input that sets it off is no success.

    Raises:
        InvalidInput: No sample can be attacked.
    """
    raw = attack(bare, x, y, epsilons=[epsilon], seed=seed)
    held = _caught(attack(defended, x, y, epsilons=[epsilon], seed=seed), alarm)

    def guarded(query: Images) -> None:
        if alarm is not None:
            alarm.flags(query)
        defended.logits(defended.native(query))

    seconds = _seconds(x[:_TIMED], lambda query: bare.logits(bare.native(query)), guarded)
    flags = np.zeros(len(x), np.bool_) if alarm is None else alarm.flags(x)
    found = query_defence(
        raw, held, attack.queries, benign_flags=flags, raw_seconds=seconds[0], defended_seconds=seconds[1]
    )
    return found, float(held.robust_accuracy[-1])


def _caught(result: AttackResult, alarm: Alarm | None) -> AttackResult:
    """The result without the successes that set the alarm off."""
    if alarm is None:
        return result
    flags = np.stack([alarm.flags(to_numpy(found)) for found in result.adversarials])
    return replace(result, success=result.success & ~flags)


def _seconds(queries: Images, *answers: Callable[[Images], object]) -> tuple[list[float], ...]:
    """How long each answer to each query takes, turn by turn; the first query of all is asked twice and not counted."""
    times: tuple[list[float], ...] = tuple([] for _ in answers)
    for at in range(-1, len(queries)):
        query = queries[max(at, 0)][None]
        for answer, spent in zip(answers, times, strict=True):
            begin = time.perf_counter()
            answer(query)
            if at >= 0:
                spent.append(time.perf_counter() - begin)
    return times
