"""One training as a person would write it: a model, an optimizer, batches, and the five lines of a step."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...framework import Tensor
from ...framework.nn import Cell
from ...framework.optim import Optimizer

Batch = tuple[NDArray[np.generic], NDArray[np.int64]]
Batches = Iterator[Batch]


@dataclass(frozen=True, slots=True)
class Task:
    """A model, its data and how the two are brought together.

    Args:
        name: Short name, as `--model` takes it.
        run: Name of the runs that it leaves.
        steps: How long it trains in the demo.
        items: What one step consumes: so many of `unit`.
        build: The untrained model, by seed.
        optimize: The optimizer for the parameters that want one.
        batches: Endless inputs and targets, by seed.
        loss: Mean loss of the model's output against the targets.
        held_out: Inputs between 0 and 1 that are not trained on and their classes, by seed; None where there are none.
    """

    name: str
    run: str
    steps: int
    items: int
    unit: str
    build: Callable[[int], Cell]
    optimize: Callable[[Cell], Optimizer]
    batches: Callable[[int], Batches]
    loss: Callable[[Tensor, Tensor], Tensor]
    held_out: Callable[[int], Batch] | None = None


class Training:
    """A task under way; a fault may change any of it.

    Attributes:
        clears_gradients: Whether a step begins with `zero_grad`, as it should.
    """

    def __init__(self, task: Task, seed: int = 0) -> None:
        self.task = task
        self.seed = seed
        self.model = task.build(seed)
        self.clears_gradients = True
        self._batches = task.batches(seed)
        self._optimizer: Optimizer | None = None

    @property
    def optimizer(self) -> Optimizer:
        """The optimizer, made when it is first asked for, for the parameters that require gradients by then."""
        if self._optimizer is None:
            self._optimizer = self.task.optimize(self.model)
        return self._optimizer

    def held_out(self) -> Batch | None:
        """Data that the model has not seen, where the task has some."""
        return self.task.held_out(self.seed) if self.task.held_out else None

    def step(self) -> float:
        """The loss of one more step of training."""
        inputs, targets = next(self._batches)
        if self.clears_gradients:
            self.optimizer.zero_grad()
        loss = self.task.loss(self.model(Tensor(inputs)), Tensor(targets))
        loss.backward()
        self.optimizer.step()
        return float(loss.asnumpy())
