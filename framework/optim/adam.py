"""Adaptive moments: Adam, and AdamW with the decay taken out of the gradient."""

from math import sqrt

from .groups import Group, Params, Rate
from .optimizer import Optimizer
from .rule import Rule, load_kernels

_SLOTS = ("exp_avg", "exp_avg_sq")


class Adam(Optimizer):
    """Steps of the first moment over the root of the second, both corrected for their start at zero.

    Args:
        params: Parameters or groups.
        learning_rate: Number, schedule, or a list with a rate for each step.
        beta1: Decay of the first moment, in [0, 1).
        beta2: Decay of the second moment, in [0, 1).
        eps: Added to the root, after its correction.
        weight_decay: L2 penalty, added to the gradient; for decay of the weights themselves see `AdamW`.

    Reference:
        Kingma and Ba 2015, arXiv:1412.6980, algorithm 1.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        options = {"betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, learning_rate, slots=_SLOTS, **options)

    def _check_options(self, group: Group) -> None:
        _check(self, group)

    def _rule(self, group: Group, step: int) -> Rule:
        return _adam_rule(group, step, decay=group["weight_decay"], keep=1.0)


class AdamW(Optimizer):
    """Adam whose weight decay shrinks the weights directly: `w *= 1 - lr * weight_decay` before the step.

    Args:
        params: Parameters or groups.
        learning_rate: Number, schedule, or a list with a rate for each step.
        beta1: Decay of the first moment, in [0, 1).
        beta2: Decay of the second moment, in [0, 1).
        eps: Added to the root, after its correction.
        weight_decay: Share of the rate by which the weights shrink in each step.

    Reference:
        Loshchilov and Hutter 2019, arXiv:1711.05101, algorithm 2.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate = 1e-3,
        beta1: float = 0.9,
        beta2: float = 0.999,
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        options = {"betas": (beta1, beta2), "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, learning_rate, slots=_SLOTS, **options)

    def _check_options(self, group: Group) -> None:
        _check(self, group)

    def _rule(self, group: Group, step: int) -> Rule:
        return _adam_rule(group, step, decay=0.0, keep=1.0 - group["lr"] * group["weight_decay"])


def _adam_rule(group: Group, step: int, *, decay: float, keep: float) -> Rule:
    beta1, beta2 = group["betas"]
    step_size = group["lr"] / (1.0 - beta1**step)
    root_correction = sqrt(1.0 - beta2**step)
    scalars = (step_size, root_correction, 1.0 - beta1, beta2, 1.0 - beta2, group["eps"], decay, keep)
    return Rule(load_kernels().adam, scalars)


def _check(optimizer: Optimizer, group: Group) -> None:
    name = type(optimizer).__name__
    if not all(0.0 <= beta < 1.0 for beta in group["betas"]):
        raise ValueError(f"{name} expects both betas in [0, 1), got {group['betas']}")
    if not group["eps"] > 0.0:
        raise ValueError(f"{name} expects eps above 0, got {group['eps']}")
    if not group["weight_decay"] >= 0.0:
        raise ValueError(f"{name} expects weight_decay of 0 or more, got {group['weight_decay']}")


#: MindSpore's name. MindSpore's own does not correct the moments for their start at zero; this one does, as its
#: mint.optim.
AdamWeightDecay = AdamW
