"""Training and evaluation that take each other's place."""

from typing import Any

import numpy as np
import torch
from torch.nn import functional

from ..script import Script
from ..table import Truth, fault


def _measure(script: Any, before: str, after: str) -> dict[str, float]:
    data = script.data()
    inputs, labels = script.tensors((script.inputs(data.held_out_images), data.held_out_labels))
    script.model.train(before == "train")
    with torch.no_grad():
        logits = script.model(inputs)
    script.model.train(after == "train")
    return {"validation/loss": float(functional.cross_entropy(logits, labels))}


@fault("stays-in-eval", on="cnn", cause="wrong_train_eval_mode", is_silent=True)
def stays_in_eval(script: Script) -> Truth:
    """Nobody calls `model.train()` after the first evaluation."""
    script.evaluate = lambda: _measure(script, "eval", "eval")
    return Truth(onset=script.evaluates_every)


@fault("evaluates-in-training", on="cnn", cause="wrong_train_eval_mode", is_silent=True)
def evaluates_in_training(script: Script) -> Truth:
    """The evaluation runs with dropout, and batch norm learns from the held-out digits."""
    script.evaluate = lambda: _measure(script, "train", "train")
    return Truth(onset=script.evaluates_every - 1)


@fault("never-in-training", on="lm", cause="wrong_train_eval_mode", is_silent=True)
def never_in_training(script: Script) -> Truth:
    """The model comes from a loader that sets evaluation mode, so there is no dropout."""
    script.after_build(lambda model: model.eval())
    script.evaluates_every = 0
    return Truth()


@fault("norm-left-in-eval", on="cnn", cause="wrong_train_eval_mode", is_silent=True)
def norm_left_in_eval(script: Script) -> Truth:
    """One batch norm was put into evaluation mode in mid-run, and the evaluation was taken out."""
    script.evaluates_every = 0
    site, onset = script.one_of("bn1", "bn2"), script.some_step()
    script.at(onset, lambda: script.model.get_submodule(site).eval())
    return Truth(sites=(site,), onset=onset)


@fault("raw-validation", on="cnn", cause="train_val_shift", is_silent=True)
def raw_validation(script: Script) -> Truth:
    """The held-out images skip the normalisation."""
    script.evaluation_inputs = lambda images: (images * 255.0).astype(np.float32)
    return Truth(onset=script.evaluates_every - 1)


@fault("other-validation", on="autoencoder", cause="train_val_shift", is_silent=True)
def other_validation(script: Script) -> Truth:
    """The held-out images are normalised with the statistics of another data set."""
    script.evaluation_inputs = lambda images: ((images - 0.9) / 0.08).astype(np.float32).reshape(len(images), -1)
    return Truth(onset=script.evaluates_every - 1)
