"""Transformations of functions: gradients, pull-backs, push-forwards, Jacobians, and rules of one's own."""

from ..ops.array import stop_gradient
from .forward import jvp, linearize
from .gradient import grad, value_and_grad, vjp

__all__ = ["grad", "jvp", "linearize", "stop_gradient", "value_and_grad", "vjp"]
