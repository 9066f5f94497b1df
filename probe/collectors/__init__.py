"""The catalogue of collectors, one a file; in this order, since `update` has read the weights for `weight`."""

from . import (
    activation,
    activation_grad,
    communication,
    gradient,
    gradient_unreduced,
    histogram,
    learning_rate,
    loss,
    loss_scale,
    optimizer,
    step_seconds,
    update,
    weight,
)
