"""What stands between the gradients and the weights."""

from copy import deepcopy
from typing import Any

import torch
from mindscope.framework import nn as engine_nn

from ..script import Script
from ..table import Truth, fault


@fault("no-zero-grad", on="mlp", cause="missing_zero_grad", is_silent=True)
def no_zero_grad(script: Script) -> Truth:
    """Nobody clears the gradients."""

    def update(loss: Any) -> None:
        loss.backward()
        script.optimizer.step()

    script.update = update
    return Truth(onset=1)


@fault("engine-no-zero-grad", on="engine-cnn", cause="missing_zero_grad", is_silent=True)
def engine_no_zero_grad(script: Script) -> Truth:
    """From one step on, nobody clears the gradients."""
    onset, update = script.some_step(), script.update

    def pile_up(loss: Any) -> None:
        loss.backward()
        script.optimizer.step()

    script.at(onset, lambda: setattr(script, "update", pile_up))
    script.update = update
    return Truth(onset=onset)


@fault("zero-grad-after-backward", on="gru", cause=("missing_optimizer_step", "frozen_parameter"))
def zero_grad_after_backward(script: Script) -> Truth:
    """Gradients are cleared between the backward pass and the step, so that every step is empty."""

    def update(loss: Any) -> None:
        loss.backward()
        script.optimizer.zero_grad(set_to_none=False)
        script.optimizer.step()

    script.update = update
    return Truth()


@fault("step-never-due", on="mlp", cause="missing_optimizer_step")
def step_never_due(script: Script) -> Truth:
    """The weights are put back after every step by an average that was meant for the evaluation alone."""

    def update(loss: Any) -> None:
        kept = deepcopy(script.model.state_dict())
        script.optimizer.zero_grad()
        loss.backward()
        script.optimizer.step()
        script.model.load_state_dict(kept)

    script.update = update
    return Truth()


@fault("decay-typo", on="lm", cause="weight_decay_too_high")
def decay_typo(script: Script) -> Truth:
    """A weight decay of 30 where 0.1 was meant."""
    script.make_optimizer = lambda model: torch.optim.AdamW(
        model.parameters(), lr=script.rate, betas=(0.9, 0.95), weight_decay=30.0
    )
    return Truth()


@fault("engine-decay-typo", on="engine-mlp", cause="weight_decay_too_high")
def engine_decay_typo(script: Script) -> Truth:
    """A decay of 100 for AdamW, as for an optimizer that scales it by the gradient."""
    script.make_optimizer = lambda model: engine_nn.AdamW(model.trainable_params(), script.rate, weight_decay=100.0)
    return Truth()


@fault("stale-moments", on="mlp", cause="optimizer_state_stale", is_silent=True)
def stale_moments(script: Script) -> Truth:
    """An old checkpoint of the optimizer is loaded in mid-run, the model's is not."""
    early, onset = 3, script.some_step(0.5, 0.7)
    kept: dict[str, Any] = {}
    script.at(early, lambda: kept.update(deepcopy(script.optimizer.state_dict())))
    script.at(onset, lambda: script.optimizer.load_state_dict(kept))
    return Truth(onset=onset)


@fault("lost-moments", on="lm", cause=("optimizer_state_stale", "resume_mismatch"), is_silent=True)
def lost_moments(script: Script) -> Truth:
    """The optimizer's state is dropped in mid-run, to make place for an evaluation."""
    onset = script.some_step(0.4, 0.7)
    script.at(onset, lambda: script.optimizer.state.clear())
    return Truth(onset=onset)


@fault("lagging-second-moment", on="moe", cause="optimizer_state_stale", is_silent=True)
def lagging_second_moment(script: Script) -> Truth:
    """A restored optimizer keeps first moments and counters, and second moments from a run a thousand times quieter."""
    onset = script.some_step(0.4, 0.7)

    def restore() -> None:
        for state in script.optimizer.state.values():
            state["exp_avg_sq"].mul_(1e-6)

    script.at(onset, restore)
    return Truth(onset=onset)


@fault("clip-to-nothing", on="gru", cause="clipping_to_nothing", is_silent=True)
def clip_to_nothing(script: Script) -> Truth:
    """The limit of the norm is 1e-4: each step is scaled to nothing."""
    script.clip = 1e-4
    return Truth()


@fault("clip-in-cnn", on="cnn", cause="clipping_to_nothing")
def clip_in_cnn(script: Script) -> Truth:
    """Clipping by norm was added with the limit of the element-wise one, 1e-3, under SGD."""

    def update(loss: Any) -> None:
        script.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(script.model.parameters(), 1e-3)
        script.optimizer.step()

    script.update = update
    return Truth()
