"""Rates adapted by the size of past gradients, without a first moment: Adagrad and RMSprop."""

from .groups import Group, Params, Rate
from .optimizer import Optimizer
from .rule import Rule, load_kernels


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients so far.

    Args:
        params: Parameters or groups.
        learning_rate: Number, schedule, or a list with a rate for each step.
        lr_decay: The rate is divided by `1 + lr_decay * (step - 1)`.
        weight_decay: L2 penalty, added to the gradient.
        initial_accumulator_value: What the sums start at; MindSpore's `accum`, whose default is 0.1.
        eps: Added to the root.

    Reference:
        Duchi et al. 2011, "Adaptive subgradient methods for online learning and stochastic optimization", figure 1
        with a diagonal matrix.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        if not initial_accumulator_value >= 0.0:
            raise ValueError(f"Adagrad expects initial_accumulator_value of 0 or more, got {initial_accumulator_value}")
        options = {"lr_decay": lr_decay, "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, learning_rate, slots=("sum",), **options)
        for total in self.slots()["sum"]:
            total[...] = initial_accumulator_value

    def _check_options(self, group: Group) -> None:
        not_negative(self, group, "lr_decay", "eps", "weight_decay")

    def _rule(self, group: Group, step: int) -> Rule:
        rate = group["lr"] / (1.0 + (step - 1) * group["lr_decay"])
        return Rule(load_kernels().adagrad, (rate, group["eps"], group["weight_decay"]))


class RMSprop(Optimizer):
    """Steps divided by the root of a running mean of squared gradients.

    Args:
        params: Parameters or groups.
        learning_rate: Number, schedule, or a list with a rate for each step.
        alpha: How much of the running mean stays in each step, in [0, 1); MindSpore's `decay`.
        eps: Added to the root.
        weight_decay: L2 penalty, added to the gradient.
        momentum: Share of the previous update, in [0, 1).
        centered: Whether the square of the mean gradient is taken off: a variance instead of a second moment.

    Reference:
        Tieleman and Hinton 2012, lecture 6.5 of "Neural networks for machine learning"; centred: Graves 2013,
        arXiv:1308.0850, eq. 38 to 41.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
    ) -> None:
        options = {
            "alpha": alpha,
            "eps": eps,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
        }
        super().__init__(params, learning_rate, slots=("square_avg", "grad_avg", "momentum_buffer"), **options)

    def _check_options(self, group: Group) -> None:
        not_negative(self, group, "eps", "weight_decay")
        below_one(self, group, "alpha", "momentum")

    def _rule(self, group: Group, step: int) -> Rule:
        del step
        alpha = group["alpha"]
        scalars = (group["lr"], alpha, 1.0 - alpha, group["eps"], group["weight_decay"], group["momentum"])
        return Rule(load_kernels().rmsprop, (*scalars, float(group["centered"])))


def not_negative(optimizer: Optimizer, group: Group, *names: str) -> None:
    """Nothing; the options of these names are 0 or more.

    Raises:
        ValueError: One is not.
    """
    for name in names:
        if not group[name] >= 0.0:
            raise ValueError(f"{type(optimizer).__name__} expects {name} of 0 or more, got {group[name]}")


def below_one(optimizer: Optimizer, group: Group, *names: str) -> None:
    """Nothing; the options of these names are in [0, 1).

    Raises:
        ValueError: One is not.
    """
    for name in names:
        if not 0.0 <= group[name] < 1.0:
            raise ValueError(f"{type(optimizer).__name__} expects {name} in [0, 1), got {group[name]}")


#: MindSpore's name.
RMSProp = RMSprop
