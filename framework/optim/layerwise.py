"""Rates adapted layer by layer for large batches: Lars and Lamb."""

from math import sqrt

from .adaptive import below_one, not_negative
from .groups import Group, Params, Rate
from .optimizer import Optimizer
from .rule import Rule, load_kernels


class Lars(Optimizer):
    """Momentum whose rate is scaled, tensor by tensor, to the length of the weights over that of the gradient.

    Args:
        params: Parameters or groups; biases and norms go into a group with `coefficient=0`, whose rate is not scaled.
        learning_rate: Number, schedule, or a list with a rate for each step.
        momentum: Share of the previous update, in [0, 1).
        weight_decay: L2 penalty, added to the gradient and to its length.
        coefficient: How far a step goes, as a share of the length of the weights; 0 turns the scaling off.
        eps: Added to the length of the gradient.

    Reference:
        You et al. 2017, arXiv:1708.03888, algorithm 1.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        coefficient: float = 1e-3,
        eps: float = 1e-5,
    ) -> None:
        options = {"momentum": momentum, "weight_decay": weight_decay, "coefficient": coefficient, "eps": eps}
        super().__init__(params, learning_rate, slots=("momentum_buffer",), **options)

    def _check_options(self, group: Group) -> None:
        below_one(self, group, "momentum")
        not_negative(self, group, "weight_decay", "coefficient", "eps")

    def _rule(self, group: Group, step: int) -> Rule:
        del step
        names = ("lr", "momentum", "weight_decay", "coefficient", "eps")
        return Rule(load_kernels().lars, tuple(float(group[name]) for name in names), scope="vector")


class Lamb(Optimizer):
    """Adam's step, scaled tensor by tensor to the length of the weights: `w -= lr * |w| / |r| * r`.

    Where the weights or the step are zero the scale is 1.

    Args:
        params: Parameters or groups.
        learning_rate: Number, schedule, or a list with a rate for each step.
        beta1: Decay of the first moment, in [0, 1).
        beta2: Decay of the second moment, in [0, 1).
        eps: Added to the root, after its correction.
        weight_decay: Share of the weights in the step, before it is scaled.

    Reference:
        You et al. 2020, arXiv:1904.00962, algorithm 2.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:
        options = {"beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, learning_rate, slots=("exp_avg", "exp_avg_sq"), **options)

    def _check_options(self, group: Group) -> None:
        below_one(self, group, "beta1", "beta2")
        not_negative(self, group, "weight_decay")
        if not group["eps"] > 0.0:
            raise ValueError(f"Lamb expects eps above 0, got {group['eps']}")

    def _rule(self, group: Group, step: int) -> Rule:
        beta1, beta2 = group["beta1"], group["beta2"]
        corrections = (1.0 - beta1**step, sqrt(1.0 - beta2**step))
        scalars = (group["lr"], *corrections, beta1, beta2, group["eps"], group["weight_decay"])
        return Rule(load_kernels().lamb, scalars, scope="vector")


#: MindSpore's name; its own wraps another optimizer instead.
LARS = Lars
