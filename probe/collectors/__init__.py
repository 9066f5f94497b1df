"""The catalogue of collectors, one a file; in this order, since `update` has read the weights for `weight`."""

from . import (
    activation,
    activation_grad,
    clip,
    communication,
    gradient,
    gradient_norm,
    gradient_unreduced,
    histogram,
    inputs,
    learning_rate,
    loss,
    loss_scale,
    memory,
    optimizer,
    step_seconds,
    update,
    weight,
)
