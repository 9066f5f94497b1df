"""The catalogue of rules, one line a file, sorted; importing it fills the table."""

from ..rule import RULES
from . import (
    bad_initialization,
    dead_units,
    exploding_gradient,
    frozen_parameter,
    learning_rate_too_high,
    learning_rate_too_low,
    loss_scale_overflow,
    loss_spike,
    missing_optimizer_step,
    missing_warmup,
    missing_zero_grad,
    monitor_fault,
    non_finite_activation,
    non_finite_gradient,
    non_finite_loss,
    parameter_not_in_optimizer,
    schedule_error,
    vanishing_gradient,
)

__all__ = ["RULES"]
