"""First weights that are not what they should be."""

import numpy as np
import torch
from mindscope.framework import Tensor
from torch import nn

from ..script import Script
from ..table import Truth, fault


@fault("constant-weights", on="mlp", cause="bad_initialization")
def constant_weights(script: Script) -> Truth:
    """One layer is filled with a constant, so that all its units are the same one."""
    site = script.one_of("fc1", "fc2", "fc3")
    script.after_build(lambda model: nn.init.constant_(model.get_submodule(site).weight, 0.05))
    return Truth(sites=(site,))


@fault("wide-weights", on="cnn", cause="bad_initialization")
def wide_weights(script: Script) -> Truth:
    """The hidden layer is drawn from a standard normal, as a tutorial from long ago does."""

    def draw(model: nn.Module) -> None:
        nn.init.normal_(model.hidden.weight, std=1.0)

    script.after_build(draw)
    return Truth(sites=("hidden",))


@fault("default-embedding", on="lm", cause="bad_initialization")
def default_embedding(script: Script) -> Truth:
    """The head shares the embedding's weights, which nobody has made small: the first loss is far above chance."""
    script.after_build(lambda model: nn.init.normal_(model.tokens.weight, std=1.0))
    return Truth(sites=("tokens", "head"))


@fault("engine-wide-weights", on="engine-mlp", cause="bad_initialization")
def engine_wide_weights(script: Script) -> Truth:
    """The weights of one layer come from a file in other units, thirty times too large."""
    site = script.one_of("fc1", "fc2", "fc3")

    def grow(model: object) -> None:
        weight = model.parameters_dict()[f"{site}.weight"]
        weight.set_data(Tensor(weight.asnumpy() * np.float32(30.0)))

    script.after_build(grow)
    return Truth(sites=(site,))


@fault("low-bias", on="graph", cause="dead_units")
def low_bias(script: Script) -> Truth:
    """The bias of the hidden layer is read from another place, far below zero; the ReLU behind it is no module."""
    script.after_build(lambda model: nn.init.constant_(model.hidden.bias, -20.0))
    return Truth(sites=("hidden",))


@fault("zero-weights", on="autoencoder", cause="bad_initialization")
def zero_weights(script: Script) -> Truth:
    """A helper has set all weights of the encoder to zero together with the biases."""

    def clear(model: nn.Module) -> None:
        with torch.no_grad():
            for parameter in model.encoder.parameters():
                parameter.zero_()

    script.after_build(clear)
    return Truth(sites=("encoder.0", "encoder.2"))
