"""The catalogue of rules, one line a file, sorted; importing it fills the table."""

from ..rule import RULES
from . import (
    monitor_fault,
    non_finite_activation,
    non_finite_gradient,
    non_finite_loss,
)

__all__ = ["RULES"]
