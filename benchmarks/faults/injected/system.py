"""Time and memory."""

import time
from typing import Any

import numpy as np

from ..script import Batch, Script
from ..table import Truth, fault


@fault("slow-loader", on="mlp", cause="dataloader_bound", is_silent=True)
def slow_loader(script: Script) -> Truth:
    """Every batch is read from a slow disk in the training's own thread."""
    tensors = script.tensors

    def slow(batch: Batch) -> Batch:
        time.sleep(0.025)
        return tensors(batch)

    script.tensors = slow
    return Truth()


@fault("kept-graphs", on="lm", cause="memory_growth", is_silent=True)
def kept_graphs(script: Script) -> Truth:
    """Losses are summed with their graphs, `total += loss`, and every activation stays."""
    kept: list[Any] = []
    script.steps, script.batch_size, intact = 120, 16, script.loss

    def loss(model: Any, *batch: Any) -> Any:
        found = intact(model, *batch)
        if model.training:
            kept.append(found * 1.0)
        return found

    script.loss = loss
    return Truth()


@fault("engine-kept-batches", on="engine-mlp", cause="memory_growth", is_silent=True)
def engine_kept_batches(script: Script) -> Truth:
    """A list for a plot keeps an image of every activation, eight megabytes a step."""
    kept: list[Any] = []
    tensors = script.tensors
    script.steps = 120

    def keep(batch: Batch) -> Batch:
        kept.append(np.repeat(np.ravel(batch[0]), 512).astype(np.float32))
        return tensors(batch)

    script.tensors = keep
    return Truth()
