"""Half precision."""

from typing import Any

import torch

from ..script import Script
from ..table import Truth, fault


def scaled(script: Any, scaler: torch.amp.GradScaler) -> None:
    """Nothing; float16 forward passes under a scaler."""
    intact = script.loss

    def loss(model: Any, *batch: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.float16):
            return intact(model, *batch)

    def update(loss: Any) -> None:
        script.optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(script.optimizer)
        scaler.update()

    script.loss, script.update = loss, update


@fault("scale-never-falls", on="mlp", cause="loss_scale_overflow")
def scale_never_falls(script: Script) -> Truth:
    """The scale is fixed, far too high for the gradients of float16."""
    scaled(script, torch.amp.GradScaler("cpu", init_scale=2.0**40, backoff_factor=0.999, growth_interval=10**6))
    return Truth()


@fault("scale-collapses", on="cnn", cause=("loss_scale_overflow", "non_finite_gradient"))
def scale_collapses(script: Script) -> Truth:
    """From one step on every backward pass overflows, and the scale halves without end."""
    scaled(script, torch.amp.GradScaler("cpu", init_scale=2.0**10))
    onset, inner = script.some_step(), script.loss

    def loss(model: Any, *batch: Any) -> Any:
        found = inner(model, *batch)
        return found + (model.head.weight * 0.0).sum().sqrt() if script.step >= onset else found

    script.loss = loss
    return Truth(onset=onset)


@fault("half-overflow", on="lm", cause="non_finite_activation")
def half_overflow(script: Script) -> Truth:
    """The feed-forward part runs in float16 where its products leave the range."""
    onset, number = script.some_step(), int(script.pick.integers(0, 2))

    def overflow() -> None:
        up = script.model.blocks[number].mlp.up
        intact = up.forward
        up.forward = lambda x: (intact(x).half() * 60000.0).float()

    script.at(onset, overflow)
    return Truth(sites=(f"blocks.{number}.mlp.up",), onset=onset)
