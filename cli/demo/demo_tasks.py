"""The demo's two trainings: a CNN on digits and a transformer on the bytes of Python's manual."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...framework import Tensor, ops
from ...framework.nn import Cell
from ...framework.optim import Adam, Optimizer
from .demo_data import digits, manual, shuffled_batches, windows
from .demo_models import ByteTransformer, DigitsCNN

Batch = tuple[NDArray[np.generic], NDArray[np.int64]]
Batches = Iterator[Batch]


@dataclass(frozen=True, slots=True)
class Task:
    """A model with its data, optimizer and loss.

    Args:
        name: Short name, as `--model` takes it.
        run: Name of its runs.
        steps: Default number of steps in the demo.
        items: Number of `unit`s in one step.
        build: Returns the untrained model for a seed.
        optimize: Returns the optimizer of a model's trainable parameters.
        batches: Returns endless inputs and targets for a seed.
        loss: Mean loss of the model's output against the targets.
        held_out: Returns held-out inputs between 0 and 1 and their classes for a seed; None if there are none.
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
    """A running task; a fault may change any of its attributes.

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
        """The optimizer, created on first access for the parameters that require gradients then."""
        if self._optimizer is None:
            self._optimizer = self.task.optimize(self.model)
        return self._optimizer

    def held_out(self) -> Batch | None:
        """Return held-out inputs and classes, or None if the task has none."""
        return self.task.held_out(self.seed) if self.task.held_out else None

    def step(self) -> float:
        """Run one more step and return its loss."""
        inputs, targets = next(self._batches)
        if self.clears_gradients:
            self.optimizer.zero_grad()
        loss = self.task.loss(self.model(Tensor(inputs)), Tensor(targets))
        loss.backward()
        self.optimizer.step()
        return float(loss.asnumpy())


_CNN_BATCH: Final = 64
_CNN_RATE: Final = 1e-3
_CONTEXT: Final = 64
_WINDOWS: Final = 16
_TRANSFORMER_RATE: Final = 1e-3


def _cnn(seed: int) -> Cell:
    return DigitsCNN(seed=seed).set_train()


def _transformer(seed: int) -> Cell:
    return ByteTransformer(context=_CONTEXT, activation="relu", seed=seed).set_train()


def _adam(rate: float, model: Cell) -> Optimizer:
    return Adam(model.trainable_params(), learning_rate=rate)


def _digit_batches(seed: int) -> Batches:
    data = digits(seed)
    return shuffled_batches(data.images, data.labels, _CNN_BATCH, seed)


def _text_batches(seed: int) -> Batches:
    return windows(manual(), _CONTEXT, _WINDOWS, seed)


def _unseen_digits(seed: int) -> Batch:
    data = digits(seed)
    return data.held_out_images, data.held_out_labels


def _cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    classes = logits.shape[-1]
    return ops.cross_entropy(logits.reshape(-1, classes), targets.reshape(-1))


TASKS: Final = {
    task.name: task
    for task in (
        Task(
            name="cnn",
            run="digits-cnn",
            steps=1200,
            items=_CNN_BATCH,
            unit="images",
            build=_cnn,
            optimize=partial(_adam, _CNN_RATE),
            batches=_digit_batches,
            loss=_cross_entropy,
            held_out=_unseen_digits,
        ),
        Task(
            name="transformer",
            run="manual-transformer",
            steps=500,
            items=_WINDOWS * _CONTEXT,
            unit="bytes",
            build=_transformer,
            optimize=partial(_adam, _TRANSFORMER_RATE),
            batches=_text_batches,
            loss=_cross_entropy,
        ),
    )
}
