"""Ways to break a training, a family a file."""

from . import (
    architecture,
    attention,
    data,
    evaluation,
    experts,
    gradients,
    initialisation,
    loss,
    membership,
    non_finite,
    optimizer,
    precision,
    ranks,
    rates,
    reinforcement,
    resuming,
    state,
    system,
)
