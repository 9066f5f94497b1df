"""Batches that are not what they should be."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from mindscope.cli.demo.demo_data import Digits

from ..script import Batch, Script
from ..table import Truth, fault


def _change_batches(script: Script, change: Any) -> None:
    """Nothing; every batch passes through `change(step, batch)`."""
    make = script.make_batches

    def batches() -> Iterator[Batch]:
        for step, batch in enumerate(make()):
            yield change(step, batch)

    script.make_batches = batches


@fault("shuffled-labels", on="mlp", cause="uninformative_labels")
def shuffled_labels(script: Script) -> Truth:
    """Images and labels were shuffled one after the other, with different orders."""
    script.steps = 120
    _change_batches(script, lambda step, batch: (batch[0], script.pick.permutation(batch[1])))
    return Truth()


@fault("engine-constant-labels", on="engine-cnn", cause="uninformative_labels", is_silent=True)
def engine_constant_labels(script: Script) -> Truth:
    """A column of the table is read wrongly: every label is the same."""
    _change_batches(script, lambda step, batch: (batch[0], np.full_like(batch[1], 3)))
    return Truth()


@fault("labels-shift", on="cnn", cause="uninformative_labels")
def labels_shift(script: Script) -> Truth:
    """From a certain shard on, the labels belong to other images."""
    script.steps = 90
    onset = script.some_step(0.4, 0.5)
    _change_batches(script, lambda step, b: (b[0], np.roll(b[1], 7)) if step >= onset else b)
    return Truth(onset=onset)


@fault("raw-pixels", on="mlp", cause="unnormalized_input")
def raw_pixels(script: Script) -> Truth:
    """Pixels between 0 and 255 go into the network as they are."""
    script.inputs = lambda images: (images * 255.0).astype(np.float32).reshape(len(images), -1)
    return Truth()


@fault("engine-offset-input", on="engine-mlp", cause="unnormalized_input")
def engine_offset_input(script: Script) -> Truth:
    """The features are measured from an origin far away: a thousand plus what matters."""
    script.inputs = lambda images: (images + 1000.0).astype(np.float32).reshape(len(images), -1)
    return Truth()


@fault("bad-batch", on="mlp", cause="bad_batch")
def bad_batch(script: Script) -> Truth:
    """One batch comes from a file in another unit: its values are two hundred times too large."""
    onset = script.some_step()
    _change_batches(script, lambda step, b: (b[0] * np.float32(200.0), b[1]) if step == onset else b)
    return Truth(onset=onset)


@fault("nan-in-batch", on="cnn", cause=("bad_batch", "non_finite_activation"))
def nan_in_batch(script: Script) -> Truth:
    """A missing value of the table arrives as NaN in one image."""
    onset = script.some_step()

    def spoil(step: int, batch: Batch) -> Batch:
        if step == onset:
            batch[0][0, 0, 3, 3] = np.nan
        return batch

    _change_batches(script, spoil)
    return Truth(onset=onset)


@fault("garbage-text", on="lm", cause="bad_batch", is_silent=True)
def garbage_text(script: Script) -> Truth:
    """One batch of the corpus is a binary file: every byte equally likely, where text was."""
    onset = script.some_step()

    def spoil(step: int, batch: Batch) -> Batch:
        if step != onset:
            return batch
        noise = script.pick.integers(0, 128, (len(batch[0]), batch[0].shape[1] + 1))
        return noise[:, :-1], noise[:, 1:]

    _change_batches(script, spoil)
    return Truth(onset=onset)


@fault("same-batch", on="mlp", cause="repeated_batch", is_silent=True)
def same_batch(script: Script) -> Truth:
    """The loader is made anew in every step with the same seed: `next(iter(loader))` gives one batch for ever."""
    make = script.make_batches

    def batches() -> Iterator[Batch]:
        while True:
            yield next(make())

    script.make_batches = batches
    return Truth()


@fault("engine-stuck-loader", on="engine-lm", cause="repeated_batch", is_silent=True)
def engine_stuck_loader(script: Script) -> Truth:
    """From one step on the loader hands out its buffer again and again."""
    onset = script.some_step(0.3, 0.5)
    kept: list[Batch] = []

    def stick(step: int, batch: Batch) -> Batch:
        if step == onset:
            kept.append(batch)
        return kept[0] if kept else batch

    _change_batches(script, stick)
    return Truth(onset=onset)


@fault("few-digits", on="cnn", cause="overfitting")
def few_digits(script: Script) -> Truth:
    """Only the first 192 images of the data set were downloaded, and two in five of their labels are wrong."""
    script.steps, script.rate = 150, 0.02
    whole = script.data

    def data() -> Digits:
        all_of_them = whole()
        generator = np.random.default_rng(script.seed)
        labels = all_of_them.labels[:192].copy()
        wrong = generator.random(192) < 0.4
        labels[wrong] = generator.integers(0, 10, int(wrong.sum()))
        return Digits(all_of_them.images[:192], labels, all_of_them.held_out_images, all_of_them.held_out_labels)

    script.data = data
    return Truth(onset=20)
