"""Transformations of functions: gradients, pull-backs, push-forwards, Jacobians, and derivatives of one's own."""

from ..ops.array import stop_gradient
from .custom_vjp import custom_vjp
from .forward import jvp, linearize
from .gradient import grad, value_and_grad, vjp
from .jacobian import hessian, jacfwd, jacrev
from .recompute import recompute

__all__ = [
    "custom_vjp",
    "grad",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "recompute",
    "stop_gradient",
    "value_and_grad",
    "vjp",
]
