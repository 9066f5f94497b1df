"""Losses that are not the loss that was meant."""

from typing import Any

import torch
from mindscope.framework import ops
from torch.nn import functional

from ..script import Script
from ..table import Truth, fault


@fault("softmax-twice", on="mlp", cause="loss_input_domain", is_silent=True)
def softmax_twice(script: Script) -> Truth:
    """The model ends with a softmax, and cross entropy takes another one."""
    script.loss = lambda model, inputs, labels: functional.cross_entropy(model(inputs).softmax(-1), labels)
    return Truth()


@fault("engine-softmax-twice", on="engine-cnn", cause="loss_input_domain", is_silent=True)
def engine_softmax_twice(script: Script) -> Truth:
    """The same on the engine."""
    script.loss = lambda model, inputs, labels: ops.cross_entropy(ops.softmax(model(inputs), -1), labels)
    return Truth()


@fault("nll-of-logits", on="cnn", cause="loss_input_domain")
def nll_of_logits(script: Script) -> Truth:
    """The negative log-likelihood gets logits where log-probabilities belong."""
    script.loss = lambda model, inputs, labels: functional.nll_loss(model(inputs), labels)
    return Truth()


@fault("sigmoid-twice", on="mlp", cause="loss_input_domain", is_silent=True)
def sigmoid_twice(script: Script) -> Truth:
    """Binary cross entropy with logits gets what a sigmoid has made of them."""

    def loss(model: Any, inputs: Any, labels: Any) -> Any:
        wanted = functional.one_hot(labels, 10).float()
        return functional.binary_cross_entropy_with_logits(model(inputs).sigmoid(), wanted)

    script.loss = loss
    return Truth()


@fault("wrong-sign", on="mlp", cause="wrong_loss_sign")
def wrong_sign(script: Script) -> Truth:
    """The log-likelihood is minimised."""
    script.rate = 3e-4

    def loss(model: Any, inputs: Any, labels: Any) -> Any:
        return model(inputs).log_softmax(-1).gather(-1, labels[:, None]).mean()

    script.loss = loss
    return Truth()


@fault("engine-wrong-sign", on="engine-mlp", cause="wrong_loss_sign")
def engine_wrong_sign(script: Script) -> Truth:
    """The gradient is climbed: the sign of the objective was turned for a reward and never turned back."""
    intact = script.loss
    script.loss = lambda model, inputs, labels: intact(model, inputs, labels) * -1.0
    return Truth()


@fault("ascent", on="gru", cause=("wrong_loss_sign", "schedule_error"))
def ascent(script: Script) -> Truth:
    """The optimizer was told to maximise."""
    script.make_optimizer = lambda model: torch.optim.Adam(model.parameters(), lr=script.rate, maximize=True)
    return Truth()


@fault("column-against-row", on="q-learning", cause="loss_input_domain", is_silent=True)
def column_against_row(script: Any) -> Truth:
    """The values keep their last axis, so that each of 64 is compared with all 64 targets."""

    def loss(model: Any, places: Any, acts: Any, rewards: Any, nexts: Any, ends: Any) -> Any:
        values = model(places).gather(1, acts[:, None])
        return functional.smooth_l1_loss(values, script.promised(rewards, nexts, ends))

    script.loss = loss
    return Truth()
