"""Odd data."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from mindscope.cli.demo.demo_data import Digits

from ..injected.data import _change_batches
from ..script import Batch, Script
from ..table import healthy


@healthy("spiky-data", on="mlp")
def spiky_data(script: Script) -> None:
    """Inputs with heavy tails: now and then a value is far out."""

    def spike(step: int, batch: Batch) -> Batch:
        noise = np.random.default_rng((script.seed, step)).standard_t(2.0, batch[0].shape)
        return (batch[0] + 0.3 * noise).astype(np.float32), batch[1]

    _change_batches(script, spike)


@healthy("rare-class", on="cnn")
def rare_class(script: Script) -> None:
    """Nine of ten images are of one class."""
    whole, common = script.data, int(script.pick.integers(0, 10))

    def mostly(images: Any, labels: Any) -> tuple[Any, Any]:
        generator = np.random.default_rng(script.seed)
        ones = generator.choice(np.flatnonzero(labels == common), len(labels))
        chosen = np.where(generator.random(len(labels)) < 0.9, ones, np.arange(len(labels)))
        return images[chosen], labels[chosen]

    def data() -> Digits:
        all_of_them = whole()
        return Digits(
            *mostly(all_of_them.images, all_of_them.labels),
            *mostly(all_of_them.held_out_images, all_of_them.held_out_labels),
        )

    script.data = data


@healthy("noisy-labels", on="mlp")
def noisy_labels(script: Script) -> None:
    """Three in ten labels are wrong, which the person knows."""

    def disturb(step: int, batch: Batch) -> Batch:
        generator = np.random.default_rng((script.seed, step))
        wrong = generator.random(len(batch[1])) < 0.3
        return batch[0], np.where(wrong, generator.integers(0, 10, len(batch[1])), batch[1])

    _change_batches(script, disturb)


@healthy("growing-batches", on="mlp")
def growing_batches(script: Script) -> None:
    """The batch grows from 16 to 64 and to 256 (Smith et al. 2018)."""
    make = script.make_batches

    def batches() -> Iterator[Batch]:
        source = make()
        for step in range(10**6):
            size = 16 if step < 20 else 64 if step < 40 else 256
            parts = [next(source) for _ in range(max(1, size // 64))]
            images, labels = (np.concatenate(column)[:size] for column in zip(*parts, strict=True))
            yield images, labels

    script.make_batches = batches


@healthy("small-batches", on="cnn")
def small_batches(script: Script) -> None:
    """Eight images a step."""
    script.batch_size, script.rate = 8, 0.01


@healthy("short-sequences", on="lm")
def short_sequences(script: Script) -> None:
    """A curriculum: the windows grow in the course of the run."""

    def shorten(step: int, batch: Batch) -> Batch:
        length = 8 if step < 20 else 16 if step < 40 else 32
        return batch[0][:, :length], batch[1][:, :length]

    _change_batches(script, shorten)


@healthy("sparse-inputs", on="engine-mlp")
def sparse_inputs(script: Script) -> None:
    """Most inputs are zero: pixels are dropped on purpose."""

    def drop(step: int, batch: Batch) -> Batch:
        kept = np.random.default_rng((script.seed, step)).random(batch[0].shape) < 0.3
        return (batch[0] * kept).astype(np.float32), batch[1]

    _change_batches(script, drop)


@healthy("pixels-as-they-are", on="cnn")
def pixels_as_they_are(script: Script) -> None:
    """Pixels between 0 and 1, which batch norm takes care of."""
    script.inputs = lambda images: images.astype(np.float32)


@healthy("permutations", on="gru")
def permutations(script: Script) -> None:
    """Every sequence is an order of the same eight tokens, and what is asked is the largest so far."""
    script.evaluates_every = 0

    def batches() -> Iterator[Batch]:
        generator = np.random.default_rng(script.seed)
        while True:
            orders = np.stack([generator.permutation(8) for _ in range(32)])
            yield orders, np.maximum.accumulate(orders, axis=1)

    script.make_batches = batches
