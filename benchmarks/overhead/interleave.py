"""Copies of one training that take turns in one process, a few steps at a time, and the ratios of their times."""

import math
import statistics
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from .tool import Attached

#: On the wall; of the training thread and what others do in the background while the copy trains alone; of the training
#: thread; of it and what others do in the background while the copies take turns.
CLOCKS = ("wall", "cpu", "thread", "turns")
Seconds = tuple[float, ...]
#: For how long the watched copy trains alone in a round, and how many steps at least.
_ALONE_S, _ALONE_STEPS = 1.0, 10


_UNWATCHED = Attached()


def _nothing() -> None:
    """What the processor computes is done when it returns."""


@dataclass
class Copy:
    """One copy of the model with its optimizer, and with a tool or none.

    Args:
        loss: Of the next batch.
        times: Seconds of one step, by clock, of every round so far.
        settle: Returns when everything that was queued is done, where steps are queued on a device.
    """

    model: Any
    optimizer: Any
    loss: Callable[[], Any]
    attached: Attached = field(default_factory=Attached)
    times: list[Seconds] = field(default_factory=list)
    settle: Callable[[], object] = _nothing

    def turn(self, steps: int) -> Seconds:
        """Seconds by clock, threads in the background left out; a step before finds the caches as the others left
        them."""
        self._step()
        self.settle()
        began = _now()
        for _ in range(steps):
            self._step()
        self.settle()
        return _since(began)

    def finish(self) -> Seconds:
        """The same of what is still to be done, so that everything that was recorded is where it belongs."""
        began = _now()
        self.attached.finish()
        return _since(began)

    def background_s(self) -> float:
        """Processor seconds a step of threads in the background while the copy trains alone, until all is done.

        What a tool does by the clock it does once for all steps that pass meanwhile: among turns these are a third of
        those that pass in a training of its user's.
        """
        steps, before, until = 0, background_s(), time.perf_counter() + _ALONE_S
        while steps < _ALONE_STEPS or time.perf_counter() < until:
            self._step()
            steps += 1
        self.settle()
        self.attached.finish()
        return max(0.0, background_s() - before) / steps

    def _step(self) -> None:
        self.optimizer.zero_grad()
        value = self.loss()
        value.backward()
        self.attached.after_backward(value)
        self.optimizer.step()
        self.attached.after_step(value)


def take_turns(copies: Mapping[str, Copy], steps: int, turns: int, rounds: int) -> None:
    """Nothing; in each round every copy has run so many short turns, in all orders equally often: what drifts cancels.

    What threads did in the background of a round is the watched copy's own, in whosever turn they did it: no other has
    such threads. Where there are any, it trains alone at the end of the round.
    """
    orders = list(permutations(copies))
    for number in range(rounds):
        before = background_s()
        spent = {label: [0.0] * len(CLOCKS) for label in copies}
        for turn in range(turns):
            for label in orders[(number * turns + turn) % len(orders)]:
                _add(spent[label], copies[label].turn(steps))
        for label, copy in copies.items():
            _add(spent[label], copy.finish())
        behind = max(0.0, background_s() - before) / (turns * (steps + 1))  # of each turn one step is not timed
        for label, copy in copies.items():
            times = [seconds / (turns * steps) for seconds in spent[label]]
            if behind and copy.attached != _UNWATCHED:
                times[CLOCKS.index("turns")] += behind
                times[CLOCKS.index("cpu")] += copy.background_s()
            copy.times.append(tuple(times))


def background_s() -> float:
    """Processor seconds that all threads of Python but this one have taken so far."""
    others = (one.ident for one in threading.enumerate() if one is not threading.current_thread())
    return sum(time.clock_gettime(time.pthread_getcpuclockid(one)) for one in others if one is not None)


def _now() -> Seconds:
    foreground = time.process_time() - background_s()
    return time.perf_counter(), foreground, time.thread_time(), foreground


def _since(began: Seconds) -> Seconds:
    return tuple(end - begin for end, begin in zip(_now(), began, strict=True))


def _add(total: list[float], more: Seconds) -> None:
    total[:] = [one + other for one, other in zip(total, more, strict=True)]


@dataclass(frozen=True)
class Ratio:
    """A median over rounds, and where it lies with 95 % confidence.

    The ends are ratios of two of the rounds, by their ranks: that holds whatever the ratios are distributed like.
    """

    value: float
    low: float
    high: float


def ratios(own: Sequence[Seconds], *plain: Sequence[Seconds]) -> dict[str, Ratio]:
    """By clock a copy's time to the mean of the plain ones in the same round."""
    rounds = list(zip(own, *plain, strict=True))
    return {
        clock: ratio_of([one[at] / statistics.fmean(twin[at] for twin in twins) for one, *twins in rounds])
        for at, clock in enumerate(CLOCKS)
    }


def ratio_of(found: Sequence[float]) -> Ratio:
    """The median of these and its interval, by the binomial's normal approximation; of few, all of them."""
    ordered = sorted(found)
    below = max(0, math.floor(0.5 * len(ordered) - 0.98 * math.sqrt(len(ordered))))
    return Ratio(statistics.median(ordered), ordered[below], ordered[-1 - below])
