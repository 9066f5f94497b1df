"""Networks that cannot learn as they are built."""

from collections import OrderedDict
from typing import Any

import numpy as np
import torch
from mindscope.framework import Tensor
from mindscope.framework import nn as engine_nn
from torch import nn

from ..script import Script
from ..scripts.gru import Recurrent
from ..table import Truth, fault


@fault("no-activation", on="mlp", cause="missing_nonlinearity", is_silent=True)
def no_activation(script: Script) -> Truth:
    """An activation was lost when the network was written anew."""
    lost = int(script.pick.integers(1, 4))

    def build() -> Any:
        layers = type(script).build(script)._modules
        return nn.Sequential(OrderedDict((name, layer) for name, layer in layers.items() if name != f"act{lost}"))

    script.build = build
    return Truth(sites=("fc2", "fc3", "head")[lost - 1 : lost] + ("fc1", "fc2", "fc3")[lost - 1 : lost])


@fault("engine-no-activation", on="engine-mlp", cause="missing_nonlinearity", is_silent=True)
def engine_no_activation(script: Script) -> Truth:
    """An activation is the identity: a default that was never filled in."""
    script.after_build(lambda model: setattr(model, "act2", engine_nn.Identity()))
    return Truth(sites=("fc2", "fc3", "act2"))


@fault("dead-relu", on="mlp", cause="dead_units")
def dead_relu(script: Script) -> Truth:
    """The biases of one layer were filled with minus ten, a sign too many in an initialiser."""
    number = int(script.pick.integers(1, 4))
    script.after_build(lambda model: nn.init.constant_(model.get_submodule(f"fc{number}").bias, -10.0))
    return Truth(sites=(f"fc{number}", f"act{number}"))


@fault("engine-relu-dies", on="engine-cnn", cause="dead_units")
def engine_relu_dies(script: Script) -> Truth:
    """In mid-run an update that is far too large for one bias kills a whole layer."""
    onset = script.some_step()

    def kill() -> None:
        bias = script.model.parameters_dict()["hidden.bias"]
        bias.set_data(Tensor(np.full(bias.shape, -50.0, np.float32)))

    script.at(onset, kill)
    return Truth(sites=("hidden", "act3"), onset=onset)


@fault("half-dead-units", on="cnn", cause="dead_units", is_silent=True)
def half_dead_units(script: Script) -> Truth:
    """Most units of the hidden layer start with a bias at which they never fire, and the rest learns on."""

    def kill(model: nn.Module) -> None:
        with torch.no_grad():
            model.hidden.bias[:52] = -20.0

    script.after_build(kill)
    return Truth(sites=("hidden", "act3"))


@fault("saturated-tanh", on="autoencoder", cause=("saturated_activation", "bad_initialization"))
def saturated_tanh(script: Script) -> Truth:
    """The first layer's weights are fifty times too large: its tanh is at its ends from the start."""

    def grow(model: nn.Module) -> None:
        with torch.no_grad():
            model.encoder[0].weight.mul_(50.0)

    script.after_build(grow)
    return Truth(sites=("encoder.0", "encoder.1"))


@fault("saturated-sigmoid", on="mlp", cause=("saturated_activation", "vanishing_gradient", "bad_initialization"))
def saturated_sigmoid(script: Script) -> Truth:
    """Sigmoids between layers whose weights were drawn for images in 0..255 and given standardised ones ten times."""
    script.activation = nn.Sigmoid

    def grow(model: nn.Module) -> None:
        with torch.no_grad():
            for name in ("fc1", "fc2"):
                model.get_submodule(name).weight.mul_(40.0)

    script.after_build(grow)
    return Truth(sites=("fc1", "act1", "fc2", "act2"))


@fault("deep-sigmoid", on="mlp", cause="vanishing_gradient")
def deep_sigmoid(script: Script) -> Truth:
    """Ten sigmoid layers one after another."""

    def build() -> Any:
        layers: list[nn.Module] = [nn.Linear(64, 64)]
        for _ in range(9):
            layers += [nn.Sigmoid(), nn.Linear(64, 64)]
        return nn.Sequential(*layers, nn.Sigmoid(), nn.Linear(64, 10))

    script.build = build
    return Truth()


@fault("deep-without-norm", on="mlp", cause=("exploding_gradient", "bad_initialization"))
def deep_without_norm(script: Script) -> Truth:
    """Twelve layers with weights drawn three times too wide, and nothing that normalises."""

    def build() -> Any:
        layers: list[nn.Module] = [nn.Linear(64, 64)]
        for _ in range(11):
            layers += [nn.ReLU(), nn.Linear(64, 64)]
        for layer in layers[::2]:
            nn.init.normal_(layer.weight, std=3.0 * (2.0 / 64.0) ** 0.5)
        return nn.Sequential(*layers, nn.ReLU(), nn.Linear(64, 10))

    script.build = build
    return Truth()


@fault("exploding-recurrence", on="gru", cause=("exploding_gradient", "bad_initialization"))
def exploding_recurrence(script: Script) -> Truth:
    """A plain ReLU recurrence with a recurrent matrix far above one, unclipped."""

    class Plain(nn.RNN):
        """A recurrence with ReLU."""

        def __init__(self, width: int, hidden: int, *, batch_first: bool) -> None:
            super().__init__(width, hidden, nonlinearity="relu", batch_first=batch_first)
            nn.init.orthogonal_(self.weight_hh_l0, gain=1.9)

    script.build = lambda: Recurrent(Plain)
    script.clip = float("inf")
    return Truth(sites=("recurrent",))
