"""The scripts, each a file or a family of them."""

from . import adversarial, autoencoder, cnn, engine, grpo, gru, lm, mlp, moe, ranks
