"""Attention that sees too little or too much."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..script import Script
from ..scripts.gru import Recurrent
from ..scripts.lm import Attention
from ..table import Truth, fault

_BLOCKS = ("blocks.0.attn", "blocks.1.attn")


def _every_attention(model: nn.Module) -> list[Attention]:
    return [module for module in model.modules() if isinstance(module, Attention)]


@fault("leaky-mask", on="lm", cause="data_leak", is_silent=True)
def leaky_mask(script: Script) -> Truth:
    """The mask is off by one: every position sees the next one, which it is to name."""

    def mix(q: Any, k: Any, v: Any) -> Any:
        length = q.shape[-2]
        seen = torch.ones(length, length, dtype=torch.bool).tril(diagonal=1)
        return functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)

    def leak(model: nn.Module) -> None:
        for module in _every_attention(model):
            module.mix = mix

    script.after_build(leak)
    return Truth()


@fault("no-mask", on="moe", cause="data_leak", is_silent=True)
def no_mask(script: Script) -> Truth:
    """`is_causal` was lost when the attention was exchanged."""

    def leak(model: nn.Module) -> None:
        for module in _every_attention(model):
            module.mix = functional.scaled_dot_product_attention

    script.after_build(leak)
    return Truth()


@fault("bidirectional-recurrence", on="gru", cause="data_leak", is_silent=True)
def bidirectional_recurrence(script: Script) -> Truth:
    """The recurrence was made bidirectional for a tagger and is used to name the next symbol."""

    class Both(nn.GRU):
        """A GRU in both directions."""

        def __init__(self, width: int, hidden: int, *, batch_first: bool) -> None:
            super().__init__(width, hidden // 2, batch_first=batch_first, bidirectional=True)

    script.build = lambda: Recurrent(Both)
    return Truth()


@fault("scale-upside-down", on="lm", cause=("attention_entropy_collapse", "attention_logit_growth"))
def scale_upside_down(script: Script) -> Truth:
    """The logits are multiplied by the width of a head where they should be divided by its root, with a wide start."""

    def sharpen(model: nn.Module) -> None:
        for module in _every_attention(model):
            module.scale = 64.0
            nn.init.normal_(module.qkv.weight, std=0.125)

    script.after_build(sharpen)
    return Truth(sites=_BLOCKS)


@fault("growing-logits", on="lm", cause=("attention_logit_growth", "attention_entropy_collapse"))
def growing_logits(script: Script) -> Truth:
    """Queries and keys have a rate of their own, ten times that of the rest, and grow until attention is one-hot."""
    script.warm_up, script.clip = 1, float("inf")

    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        fast = [module.qkv.weight for module in _every_attention(model)]
        rest = [p for p in model.parameters() if not any(p is one for one in fast)]
        groups = [{"params": fast, "lr": 10.0 * script.rate}, {"params": rest}]
        return torch.optim.AdamW(groups, lr=script.rate, betas=(0.9, 0.95), weight_decay=0.0)

    script.make_optimizer = optimizer
    return Truth(sites=_BLOCKS)
