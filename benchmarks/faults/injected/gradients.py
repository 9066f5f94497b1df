"""Micro-batches that are added up wrongly."""

from typing import Any

import torch

from ..script import Script
from ..table import Truth, fault

MICRO_BATCHES = 4


def accumulate(script: Script, divisor: float) -> None:
    """Nothing; every step sums several micro-batches, each divided by that."""
    script.declared["accumulation_steps"] = MICRO_BATCHES

    def train_step() -> float:
        script.optimizer.zero_grad()
        total = 0.0
        for _ in range(MICRO_BATCHES):
            loss = script.loss(script.model, *script.tensors(next(script.batches)))
            (loss / divisor).backward()
            total += script.number(loss) / MICRO_BATCHES
        script.optimizer.step()
        script.advance()
        return total

    script.train_step = train_step


@fault("accumulation-undivided", on="cnn", cause="accumulation_scale", is_silent=True)
def accumulation_undivided(script: Script) -> Truth:
    """Four micro-batches a step are summed and never divided: the rate is four times what it seems."""
    accumulate(script, 1.0)
    return Truth()


@fault("accumulation-divided-twice", on="mlp", cause="accumulation_scale", is_silent=True)
def accumulation_divided_twice(script: Script) -> Truth:
    """The trainer divides by the number of micro-batches and so does the loop."""
    accumulate(script, float(MICRO_BATCHES**2))
    return Truth()


@fault("engine-accumulation-undivided", on="engine-mlp", cause="accumulation_scale", is_silent=True)
def engine_accumulation_undivided(script: Script) -> Truth:
    """Four micro-batches a step are summed and never divided, on the engine."""
    accumulate(script, 1.0)
    return Truth()


@fault("gradient-scaled-away", on="autoencoder", cause=("learning_rate_too_low", "vanishing_gradient"))
def gradient_scaled_away(script: Script) -> Truth:
    """The loss was scaled down for half precision, and the rate of plain gradient descent was not scaled up."""
    intact = script.loss

    def loss(model: Any, *batch: Any) -> Any:
        return intact(model, *batch) * 1e-7

    script.loss = loss
    script.make_optimizer = _plain_descent
    return Truth()


def _plain_descent(model: Any) -> Any:
    return torch.optim.SGD(model.parameters(), lr=0.1)
