"""The catalogue of rules, one line a file, sorted; importing it fills the table."""

from ..rule import RULES
from . import (
    bad_initialization,
    clipping_to_nothing,
    data_leak,
    dead_units,
    exploding_gradient,
    frozen_parameter,
    learning_rate_too_high,
    learning_rate_too_low,
    loss_input_domain,
    loss_scale_overflow,
    loss_spike,
    missing_nonlinearity,
    missing_optimizer_step,
    missing_warmup,
    missing_zero_grad,
    monitor_fault,
    non_finite_activation,
    non_finite_gradient,
    non_finite_loss,
    optimizer_state_stale,
    parameter_not_in_optimizer,
    repeated_batch,
    schedule_error,
    shared_parameter_error,
    vanishing_gradient,
    wrong_train_eval_mode,
)

__all__ = ["RULES"]
