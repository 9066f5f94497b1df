"""Parameters that are not trained although they should be, or not as one although they should be."""

from typing import Any

import torch
from mindscope.framework import nn as engine_nn
from mindscope.framework import stop_gradient
from torch import nn

from ..script import Script
from ..table import Truth, fault


@fault("frozen-layer", on="cnn", cause="frozen_parameter", is_silent=True)
def frozen_layer(script: Script) -> Truth:
    """One layer is left frozen from an earlier fine-tuning."""
    site = script.one_of("conv1", "conv2", "hidden")
    script.after_build(lambda model: model.get_submodule(site).requires_grad_(False))
    return Truth(sites=(site,))


@fault("engine-frozen-layer", on="engine-lm", cause="frozen_parameter", is_silent=True)
def engine_frozen_layer(script: Script) -> Truth:
    """One matrix of the decoder requires no gradient."""
    site = script.one_of("decoder.0.attn.q_proj", "decoder.1.mlp.up", "decoder.1.attn.out_proj")

    def freeze(model: engine_nn.Cell) -> None:
        for parameter in dict(model.cells_and_names())[site].get_parameters():
            parameter.requires_grad = False

    script.after_build(freeze)
    return Truth(sites=(site,))


@fault("frozen-expert", on="moe", cause="frozen_parameter", is_silent=True)
def frozen_expert(script: Script) -> Truth:
    """The experts of one block were frozen for a comparison and never thawed."""
    site = script.one_of("blocks.0.mlp.experts", "blocks.1.mlp.experts")
    script.after_build(lambda model: model.get_submodule(site).requires_grad_(False))
    return Truth(sites=(site,))


@fault("detached-features", on="cnn", cause="frozen_parameter", is_silent=True)
def detached_features(script: Script) -> Truth:
    """The features are detached, left over from a look at them: nothing before the hidden layer learns."""

    def detach(model: nn.Module) -> None:
        intact = model.features
        model.features = lambda images: intact(images).detach()

    script.after_build(detach)
    return Truth(sites=("conv1", "bn1", "conv2", "bn2"))


@fault("not-in-optimizer", on="mlp", cause="parameter_not_in_optimizer", is_silent=True)
def not_in_optimizer(script: Script) -> Truth:
    """A layer was exchanged after the optimizer had been made."""
    site = script.one_of("fc2", "fc3", "head")

    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        made = torch.optim.AdamW(model.parameters(), lr=script.rate)
        old = model.get_submodule(site)
        setattr(model, site, nn.Linear(old.in_features, old.out_features))
        return made

    script.make_optimizer = optimizer
    return Truth(sites=(site,))


@fault("forgotten-group", on="lm", cause="parameter_not_in_optimizer", is_silent=True)
def forgotten_group(script: Script) -> Truth:
    """The groups with and without decay leave out what is neither a weight nor a bias of a linear layer: the norms."""

    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        decayed = [p for name, p in model.named_parameters() if name.endswith("weight") and "norm" not in name]
        plain = [p for name, p in model.named_parameters() if name.endswith("bias") and "norm" not in name]
        groups = [{"params": decayed, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}]
        return torch.optim.AdamW(groups, lr=script.rate, betas=(0.9, 0.95))

    script.make_optimizer = optimizer
    return Truth(sites=("blocks.0.norm1", "blocks.0.norm2", "blocks.1.norm1", "blocks.1.norm2", "norm"))


@fault("engine-not-in-optimizer", on="engine-cnn", cause="parameter_not_in_optimizer", is_silent=True)
def engine_not_in_optimizer(script: Script) -> Truth:
    """The optimizer was given the parameters of the convolutions and of the head only."""

    def optimizer(model: engine_nn.Cell) -> object:
        return engine_nn.Adam([p for p in model.trainable_params() if not p.name.startswith("hidden")], script.rate)

    script.make_optimizer = optimizer
    return Truth(sites=("hidden",))


@fault("untied-head", on="lm", cause="shared_parameter_error", is_silent=True)
def untied_head(script: Script) -> Truth:
    """A checkpoint is loaded with new tensors in the middle of the run, and the tied head goes its own way."""
    onset = script.some_step()

    def untie() -> None:
        script.model.head.weight = nn.Parameter(script.model.tokens.weight.detach().clone())
        script.optimizer.add_param_group({"params": [script.model.head.weight], "lr": script.rate})
        script.schedule.base_lrs.append(script.rate)
        script.schedule.lr_lambdas.append(script.factor)

    script.at(onset, untie)
    return Truth(sites=("head", "tokens"), onset=onset)


@fault("engine-detached-branch", on="engine-mlp", cause="frozen_parameter", is_silent=True)
def engine_detached_branch(script: Script) -> Truth:
    """A gradient is stopped behind the second layer."""

    def stop(model: engine_nn.Cell) -> None:
        intact = model.fc2.construct
        vars(model.fc2)["construct"] = lambda x: stop_gradient(intact(x))

    script.after_build(stop)
    return Truth(sites=("fc1", "fc2"))


@fault("detached-critic", on="actor-critic", cause="frozen_parameter", is_silent=True)
def detached_critic(script: Any) -> Truth:
    """The value is detached for the advantage, and by mistake for its own error as well."""
    error = script.error
    script.error = lambda values, rewards: error(values.detach(), rewards)
    return Truth(sites=("value",))


@fault("detached-encoder", on="contrastive", cause="frozen_parameter", is_silent=True)
def detached_encoder(script: Script) -> Truth:
    """Both views are detached behind the encoder, where only one was meant to be."""

    def detach(model: nn.Module) -> None:
        intact = model.encoder.forward
        model.encoder.forward = lambda pixels: intact(pixels).detach()

    script.after_build(detach)
    return Truth(sites=("encoder",))


@fault("unstepped-temperature", on="contrastive", cause="parameter_not_in_optimizer", is_silent=True)
def unstepped_temperature(script: Any) -> Truth:
    """The optimizer is given both networks, and the temperature belongs to neither."""
    script.make_optimizer = lambda model: torch.optim.AdamW(
        [*model.encoder.parameters(), *model.projection.parameters()], lr=script.rate
    )
    return Truth(sites=("sharpness",))
