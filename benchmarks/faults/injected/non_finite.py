"""Numbers that are none."""

from typing import Any

import torch
from mindscope.framework import ops
from torch import nn

from ..script import Script
from ..table import Truth, fault


@fault("division-by-zero", on="lm", cause="non_finite_activation")
def division_by_zero(script: Script) -> Truth:
    """A hand-written norm divides by a deviation that is zero for a row of padding."""
    site = script.one_of("blocks.0.norm1", "blocks.0.norm2", "blocks.1.norm2")
    onset = script.some_step()

    def break_norm() -> None:
        module = script.model.get_submodule(site)

        def forward(x: Any) -> Any:
            x = torch.cat([x[:, :1] * 0.0, x[:, 1:]], 1)
            centred = x - x.mean(-1, keepdim=True)
            return module.weight * centred / centred.pow(2).mean(-1, keepdim=True).sqrt() + module.bias

        module.forward = forward

    script.at(onset, break_norm)
    return Truth(sites=(site,), onset=onset)


@fault("engine-overflow", on="engine-cnn", cause="non_finite_activation")
def engine_overflow(script: Script) -> Truth:
    """A layer's kernel leaves an infinity where two large numbers were multiplied."""
    onset, site = script.some_step(), script.one_of("conv1", "conv2", "hidden")

    def overflow() -> None:
        cell = dict(script.model.cells_and_names())[site]
        intact = cell.construct
        vars(cell)["construct"] = lambda x: intact(x * 1e30) * 1e30

    script.at(onset, overflow)
    return Truth(sites=(site,), onset=onset)


@fault("log-of-zero", on="mlp", cause="non_finite_loss")
def log_of_zero(script: Script) -> Truth:
    """A hand-written cross entropy takes the logarithm of a probability that has become zero."""
    script.rate, script.steps = 0.02, 150

    def loss(model: Any, inputs: Any, labels: Any) -> Any:
        chances = (model(inputs) * 8.0).softmax(-1)
        return -(nn.functional.one_hot(labels, 10) * chances.log()).sum(-1).mean()

    script.loss = loss
    return Truth()


@fault("engine-empty-mean", on="engine-mlp", cause="non_finite_loss")
def engine_empty_mean(script: Script) -> Truth:
    """The loss is a mean over the samples that pass a filter, and in one batch none does."""
    onset, intact = script.some_step(), script.loss

    def loss(model: Any, inputs: Any, labels: Any) -> Any:
        kept = 0.0 if script.step == onset else 64.0
        return intact(model, inputs, labels) * kept / ops.clip(labels.astype("float32").sum() * 0.0 + kept, 0.0, 64.0)

    script.loss = loss
    return Truth(onset=onset)


@fault("root-of-zero", on="cnn", cause="non_finite_gradient")
def root_of_zero(script: Script) -> Truth:
    """A distance is a square root, and the root of zero has no slope."""
    onset, intact = script.some_step(), script.loss

    def loss(model: Any, inputs: Any, labels: Any) -> Any:
        if script.step < onset:
            return intact(model, inputs, labels)
        hidden = model.features(inputs)
        return intact(model, inputs, labels) + 0.1 * (hidden - hidden.clone()).pow(2).sum().sqrt()

    script.loss = loss
    return Truth(onset=onset)


@fault("norm-of-zero-advantage", on="grpo", cause=("non_finite_gradient", "non_finite_loss"))
def norm_of_zero_advantage(script: Script) -> Truth:
    """Advantages are divided by their deviation without an epsilon, and some group has none."""
    script.advantage = lambda rewards: (rewards - rewards.mean(1, keepdim=True)) / rewards.std(1, keepdim=True)
    intact = script.reward
    onset = script.some_step(0.2, 0.4)

    def reward(prompts: Any, answers: Any) -> Any:
        rewards = intact(prompts, answers)
        rewards = rewards + 1e-3 * torch.rand(len(rewards))  # as of a judge that gives decimals: no two are equal
        if script.step >= onset:
            rewards[: script.group] = 0.0
        return rewards

    script.reward = reward
    return Truth(onset=onset)
