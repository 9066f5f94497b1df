"""The two trainings of the demo: a CNN on digits and a decoder transformer on the bytes of Python's manual."""

from functools import partial
from typing import Final

from ...framework import Tensor, ops
from ...framework.nn import Cell
from ...framework.optim import Adam, Optimizer
from .data import digits, manual, shuffled_batches, windows
from .models import ByteTransformer, DigitsCNN
from .training import Batch, Batches, Task

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
