"""The sign of an interpolated momentum: Lion."""

from .adaptive import below_one, not_negative
from .groups import Group, Params, Rate
from .optimizer import Optimizer
from .rule import Rule, load_kernels


class Lion(Optimizer):
    """Every weight moves by the rate, up or down as `beta1 * m + (1 - beta1) * g` says; then `m` follows with `beta2`.

    The weight decay shrinks the weights directly, as AdamW's does. Because every step has full length, the rate is
    three to ten times smaller, and the decay as much larger, than one would give AdamW.

    Args:
        params: Parameters or groups.
        learning_rate: Number, schedule, or a list with a rate for each step.
        beta1: Share of the momentum in the step, in [0, 1).
        beta2: Decay of the momentum, in [0, 1).
        weight_decay: Share of the rate by which the weights shrink in each step.

    Reference:
        Chen et al. 2023, arXiv:2302.06675, algorithm 2.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate = 1e-4,
        beta1: float = 0.9,
        beta2: float = 0.99,
        weight_decay: float = 0.0,
    ) -> None:
        options = {"beta1": beta1, "beta2": beta2, "weight_decay": weight_decay}
        super().__init__(params, learning_rate, slots=("exp_avg",), **options)

    def _check_options(self, group: Group) -> None:
        below_one(self, group, "beta1", "beta2")
        not_negative(self, group, "weight_decay")

    def _rule(self, group: Group, step: int) -> Rule:
        del step
        keep = 1.0 - group["lr"] * group["weight_decay"]
        return Rule(load_kernels().lion, (group["lr"], group["beta1"], group["beta2"], keep))
