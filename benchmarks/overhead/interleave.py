"""Copies of one training that take turns in one process, block by block, and the ratios of their times."""

import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .tool import Attached

#: On the wall, of the process with all its threads, of the training thread alone.
CLOCKS = ("wall", "cpu", "thread")
Seconds = tuple[float, float, float]


def _nothing() -> None:
    """What the processor computes is done when it returns."""


@dataclass
class Copy:
    """One copy of the model with its optimizer, and with a tool or none.

    Args:
        loss: Of the next batch.
        times: Seconds of one step, by clock, of every block so far.
        settle: Returns when everything that was queued is done, where steps are queued on a device.
    """

    model: Any
    optimizer: Any
    loss: Callable[[], Any]
    attached: Attached = field(default_factory=Attached)
    times: list[Seconds] = field(default_factory=list)
    settle: Callable[[], object] = _nothing

    def block(self, steps: int) -> Seconds:
        """Seconds of one step, by clock; a step before them finds the caches as the copy before left them."""
        self._step()
        self.attached.finish()
        self.settle()
        began = (time.perf_counter(), time.process_time(), time.thread_time())
        for _ in range(steps):
            self._step()
        training = time.thread_time()
        self.attached.finish()
        self.settle()
        ends = (time.perf_counter(), time.process_time(), training)
        wall, cpu, thread = ((end - begin) / steps for begin, end in zip(began, ends, strict=True))
        return wall, cpu, thread

    def _step(self) -> None:
        self.optimizer.zero_grad()
        value = self.loss()
        value.backward()
        self.attached.after_backward(value)
        self.optimizer.step()
        self.attached.after_step(value)


def take_turns(copies: Mapping[str, Copy], steps: int, rounds: int) -> None:
    """Nothing; every copy has run a block in each round, in an order drawn anew."""
    order, shuffled = list(copies), random.Random(0)
    for _ in range(rounds):
        shuffled.shuffle(order)
        for label in order:
            copies[label].times.append(copies[label].block(steps))


def ratios(own: Sequence[Seconds], plain: Sequence[Seconds]) -> dict[str, float]:
    """By clock the median over the rounds of a copy's time to that of the plain one."""
    pairs = list(zip(own, plain, strict=True))
    return {clock: statistics.median(one[at] / twin[at] for one, twin in pairs) for at, clock in enumerate(CLOCKS)}
