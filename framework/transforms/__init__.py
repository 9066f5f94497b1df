"""Transformations of functions: gradients, pull-backs, push-forwards, Jacobians, and derivatives of one's own."""

from ..ops.layout import stop_gradient
from .autodiff import grad, jvp, linearize, value_and_grad, vjp
from .custom_vjp import custom_vjp
from .jacobian import hessian, jacfwd, jacrev
from .recomputation import recompute

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
