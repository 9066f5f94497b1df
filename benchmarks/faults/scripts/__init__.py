"""The scripts, each a file or a family of them."""

from . import autoencoder, cnn, engine, grpo, gru, lm, mlp, moe, ranks
