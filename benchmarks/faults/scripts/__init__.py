"""The scripts, each a file or a family of them."""

from . import (
    actor_critic,
    adversarial,
    autoencoder,
    cnn,
    contrastive,
    engine,
    graph,
    grpo,
    gru,
    lm,
    mlp,
    moe,
    q_learning,
    ranks,
)
