"""Routers that do not spread their tokens."""

from typing import Any

import torch
from torch import nn

from ..script import Script
from ..scripts.experts import Experts
from ..table import Truth, fault

_ROUTERS = ("blocks.0.mlp", "blocks.1.mlp", "blocks.0.mlp.router", "blocks.1.mlp.router")


def _mixtures(model: nn.Module) -> list[Experts]:
    return [module for module in model.modules() if isinstance(module, Experts)]


@fault("balance-turned", on="moe", cause=("router_collapse", "expert_starvation"), is_silent=True)
def balance_turned(script: Script) -> Truth:
    """The balance is rewarded where it should be paid for, with the weight of another model."""
    script.balance_weight = -1.0
    return Truth(sites=_ROUTERS)


@fault("router-favourite", on="moe", cause=("router_collapse", "expert_starvation"), is_silent=True)
def router_favourite(script: Script) -> Truth:
    """The router got a bias from an old checkpoint that prefers one expert, and no loss balances it."""
    script.balance_weight = 0.0
    number = int(script.pick.integers(0, 2))

    def prefer(model: nn.Module) -> None:
        mixture = _mixtures(model)[number]
        favour = torch.tensor([30.0, 0.0, 0.0, 0.0])
        mixture.choose = lambda chances: (chances.clamp_min(1e-9).log() + favour).softmax(-1)

    script.after_build(prefer)
    return Truth(sites=(f"blocks.{number}.mlp", f"blocks.{number}.mlp.router"))


@fault("expert-out-of-range", on="moe", cause=("expert_starvation", "router_collapse"), is_silent=True)
def expert_out_of_range(script: Script) -> Truth:
    """A mask over the experts is one too short: the last expert of a block never gets a token."""
    number = int(script.pick.integers(0, 2))

    def mask(model: nn.Module) -> None:
        def choose(chances: Any) -> Any:
            return torch.cat([chances[:, :-1], torch.zeros_like(chances[:, -1:])], -1)

        _mixtures(model)[number].choose = choose

    script.after_build(mask)
    return Truth(sites=(f"blocks.{number}.mlp", f"blocks.{number}.mlp.router", f"blocks.{number}.mlp.experts.3"))
