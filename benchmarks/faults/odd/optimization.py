"""Odd rates, scales and steps."""

from typing import Any

import torch
from mindscope.framework import nn as engine_nn
from mindscope.framework import ops

from ..injected.gradients import MICRO_BATCHES, accumulate
from ..injected.precision import scaled
from ..script import Script
from ..table import healthy


@healthy("long-warm-up", on="lm")
def long_warm_up(script: Script) -> None:
    """Two thirds of the run are warm-up, from a rate near zero."""
    script.warm_up = 40


@healthy("cosine-to-zero", on="mlp")
def cosine_to_zero(script: Script) -> None:
    """A cosine down to zero, so that the last steps hardly move."""
    script.make_schedule = lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=script.steps)


@healthy("warm-restarts", on="cnn")
def warm_restarts(script: Script) -> None:
    """A cosine with warm restarts (Loshchilov and Hutter 2017)."""
    script.make_schedule = lambda optimizer: torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(
        optimizer, T_0=20, eta_min=1e-4
    )


@healthy("rate-in-steps", on="cnn")
def rate_in_steps(script: Script) -> None:
    """The rate falls to a tenth twice."""
    script.make_schedule = lambda optimizer: torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[25, 45])


@healthy("one-cycle", on="mlp")
def one_cycle(script: Script) -> None:
    """One cycle up to ten times the rate and down again, momentum the other way (Smith 2018)."""
    script.make_schedule = lambda optimizer: torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=0.01, total_steps=script.steps + 1
    )


@healthy("accumulation", on="lm")
def accumulation(script: Script) -> None:
    """Four micro-batches a step, each divided by four."""
    accumulate(script, float(MICRO_BATCHES))


@healthy("engine-accumulation", on="engine-cnn")
def engine_accumulation(script: Script) -> None:
    """The same on the engine."""
    accumulate(script, float(MICRO_BATCHES))


@healthy("loss-scaling", on="mlp")
def loss_scaling(script: Script) -> None:
    """A dynamic scale that begins so high that the first steps overflow."""
    scaled(script, torch.amp.GradScaler("cpu", init_scale=2.0**24, growth_interval=20))


@healthy("bfloat16", on="lm")
def bfloat16(script: Script) -> None:
    """Forward passes under autocast."""
    intact = script.loss

    def loss(model: Any, *batch: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return intact(model, *batch)

    script.loss = loss


@healthy("tight-clipping", on="gru")
def tight_clipping(script: Script) -> None:
    """Gradients are clipped at a tenth, in almost every step."""
    script.clip = 0.1


@healthy("plain-descent", on="mlp")
def plain_descent(script: Script) -> None:
    """SGD without momentum at a high rate."""
    script.make_optimizer = lambda model: torch.optim.SGD(model.parameters(), lr=0.3)


@healthy("summed-loss", on="mlp")
def summed_loss(script: Script) -> None:
    """The loss is a sum over the batch, and the rate is that much smaller."""
    script.loss = lambda model, inputs, labels: torch.nn.functional.cross_entropy(
        model(inputs), labels, reduction="sum"
    )
    script.make_optimizer = lambda model: torch.optim.SGD(model.parameters(), lr=0.1 / script.batch_size, momentum=0.9)


@healthy("engine-momentum", on="engine-mlp")
def engine_momentum(script: Script) -> None:
    """Momentum with weight decay, on the engine."""
    script.make_optimizer = lambda model: engine_nn.Momentum(
        model.trainable_params(), 0.05, momentum=0.9, weight_decay=1e-3
    )


@healthy("averaged-weights", on="cnn")
def averaged_weights(script: Script) -> None:
    """The evaluation looks at a moving average of the weights and puts the others back."""
    average: dict[str, Any] = {}
    update, evaluate = script.update, script.evaluate

    def averaging(loss: Any) -> None:
        update(loss)
        for name, value in script.model.state_dict().items():
            kept = average.setdefault(name, value.detach().clone())
            kept.copy_(value if not value.is_floating_point() else 0.9 * kept + 0.1 * value)

    def with_average() -> dict[str, float]:
        own = {name: value.clone() for name, value in script.model.state_dict().items()}
        script.model.load_state_dict(average)
        found = evaluate()
        script.model.load_state_dict(own)
        return found

    script.update, script.evaluate = averaging, with_average


@healthy("engine-smoothed-labels", on="engine-cnn")
def engine_smoothed_labels(script: Script) -> None:
    """Cross entropy with label smoothing."""
    script.loss = lambda model, inputs, labels: ops.cross_entropy(model(inputs), labels, label_smoothing=0.2)
