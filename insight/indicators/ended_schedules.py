"""Schedules that have not done, by the end of a training, what their type says."""

from collections.abc import Iterator
from dataclasses import dataclass
from math import isnan, nan
from typing import Final

from ...storage import Event
from ..event_fields import number

__all__ = ["EndedSchedule", "ended_schedules"]

#: Share of its range by which a cosine has risen again, and steps beyond its end.
_RISEN, _BEYOND = 0.05, 2
#: Steps of the training for each step of the schedule from which it is stepped once an epoch; steps of the training
#: below which nothing is said. Our choice.
_AN_EPOCH, _FEWEST = 5, 50
#: Share of its way that a schedule has moved at most, and lengths, over the steps of the training, that may mean them.
_MOVED, _SHORT, _LONG = 0.1, 0.5, 2.0
#: Relative difference of a length that is the training's, in steps, for certain; a training of many short epochs that
#: ends early has other ones.
_ITS_OWN: Final = 0.005
#: Share of its steps before which the last milestone of a schedule counts something else, as epochs. Our choice.
_EARLY: Final = 0.05
#: Share of the peak below which a warm-up has hardly begun.
_TINY: Final = 0.2
#: Batches whose gradients are added up for one step, at most. Our choice.
_MOST_TIMES: Final = 64
#: Relative difference of what a schedule was told and a loss.
_SAME: Final = 1e-4
_WARM_UPS: Final = ("LambdaLR", "LinearLR", "OneCycleLR")


@dataclass(frozen=True, slots=True)
class EndedSchedule:
    """One schedule that did something else; a question where it may be meant."""

    words: str
    advice: str
    evidence: dict[str, float]
    is_certain: bool


def ended_schedules(
    event: Event, *, steps: int, highest: float, first_losses: tuple[float, ...]
) -> Iterator[EndedSchedule]:
    """Yield what is wrong with the schedule of an event `schedule`, at most one thing.

    Args:
        steps: Of the training.
        highest: The highest learning rate of the training.
        first_losses: Losses of the first steps.
    """
    names = ("stepped", "length", "rate", "peak")
    evidence = {name: value for name in names if not isnan(value := number(event, name))} | {"steps": float(steps)}
    kind, stepped, length = str(event.data.get("type")), number(event, "stepped"), number(event, "length")
    rate, peak = number(event, "rate"), number(event, "peak")
    said = f"the schedule {kind} was stepped {stepped:.0f} times in {steps} steps of the training"
    is_alone = not event.data.get("is_part")  # a part of another schedule has to wait for its turn
    is_an_epoch = is_alone and steps >= _FEWEST and stepped >= 1 and stepped * _AN_EPOCH <= steps
    lowest = number(event, "lowest")
    if kind == "CosineAnnealingLR" and stepped >= length + _BEYOND and rate - lowest > _RISEN * (peak - lowest):
        words = f"{said}, and its T_max is {length:.0f}: the rate has risen from {lowest:.4g} to {rate:.4g} again"
        advice = "let T_max be the number of times that the schedule is stepped: epochs, or epochs times batches"
        yield EndedSchedule(f"{words}; is it meant to?", advice, evidence, is_certain=False)
    elif kind == "MultiStepLR" and is_alone and steps >= _FEWEST and 0 < length < _EARLY * stepped and rate < peak:
        words = (
            f"{said}, and its last milestone is {length:.0f}: the rate has been {rate:.4g}, of {peak:.4g}, ever since"
        )
        advice = "step a schedule whose milestones are epochs once an epoch"
        yield EndedSchedule(words, advice, evidence, is_certain=True)
    elif is_alone and (times := _times_a_step(stepped, steps)) and kind != "ReduceLROnPlateau":
        words = (
            f"{said}: {times} times for each step of the optimizer, so it ends after {1 / times:.0%} of the training"
        )
        advice = "step the schedule after the optimizer, once for all batches whose gradients it adds up"
        yield EndedSchedule(words, advice, evidence, is_certain=True)
    elif is_an_epoch and _SHORT * steps <= length <= _LONG * steps and stepped <= _MOVED * length:
        words = f"{said}, and its length is {length:.0f}: it has gone {stepped / length:.1%} of its way"
        is_certain = abs(length - steps) <= max(_ITS_OWN * steps, 2)
        advice = "step a schedule whose length is in batches after every step of the optimizer"
        asked = "" if is_certain else "; does it count epochs?"
        yield EndedSchedule(words + asked, advice, evidence, is_certain=is_certain)
    elif is_an_epoch and kind in _WARM_UPS and 0 < rate < _TINY * peak and rate >= highest and stepped > 1:
        words = f"{said}: the rate has risen to {rate:.4g} only, of {peak:.4g}"
        advice = "step a warm-up that counts batches after every step of the optimizer"
        yield EndedSchedule(f"{words}; does the warm-up count epochs?", advice, evidence, is_certain=False)
    elif kind == "ReduceLROnPlateau" and event.data.get("mode") == "max" and stepped > 1:
        yield from _told_a_loss(event, said, evidence, first_losses, stepped)


def _times_a_step(stepped: float, steps: int) -> int:
    """Return how many times a schedule was stepped for each step of the training; 0 where that is once, or no number.

    A schedule that a resumed training has gone on with has another number.
    """
    times = round(stepped / steps) if steps >= _FEWEST and stepped > 0 else 0
    return times if 1 < times <= _MOST_TIMES and abs(stepped - times * steps) <= max(times, _ITS_OWN * stepped) else 0


def _told_a_loss(
    event: Event, said: str, evidence: dict[str, float], losses: tuple[float, ...], stepped: float
) -> Iterator[EndedSchedule]:
    """Yield a finding if the best of what `mode="max"` was told is the highest loss of an epoch, last or mean."""
    best = number(event, "best")
    epoch = max(round(evidence["steps"] / stepped), 1)
    ends = range(epoch, len(losses) + 1, epoch)
    lasts, means = [losses[end - 1] for end in ends], [sum(losses[end - epoch : end]) / epoch for end in ends]
    if not best or not any(
        abs(best - loss) <= _SAME * abs(best) for loss in (max(lasts, default=nan), max(means, default=nan))
    ):
        return
    words = f'{said} with mode="max", and the best that it was told, {best:.6g}, is the highest loss'
    advice = 'use mode="min" for a loss'
    yield EndedSchedule(words, advice, evidence | {"best": best}, is_certain=True)
