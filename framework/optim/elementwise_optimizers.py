"""Optimizers whose update looks at one element at a time: SGD, Adam, Adagrad, RMSprop, Lion and relatives."""

from collections.abc import Mapping
from math import sqrt

from .optimizer import Optimizer
from .parameter_groups import Group, Params, Rate
from .parameter_update import UpdateRule, load_kernels


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

    def _rule(self, group: Group, step: int) -> UpdateRule:
        rate = group["lr"] / (1.0 + (step - 1) * group["lr_decay"])
        return UpdateRule(load_kernels().adagrad, (rate, group["eps"], group["weight_decay"]))


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

    def _rule(self, group: Group, step: int) -> UpdateRule:
        del step
        alpha = group["alpha"]
        scalars = (group["lr"], alpha, 1.0 - alpha, group["eps"], group["weight_decay"], group["momentum"])
        return UpdateRule(load_kernels().rmsprop, (*scalars, float(group["centered"])))


def not_negative(optimizer: Optimizer, group: Group, *names: str) -> None:
    """Check that the options of these names are 0 or more.

    Raises:
        ValueError: One is not.
    """
    for name in names:
        if not group[name] >= 0.0:
            raise ValueError(f"{type(optimizer).__name__} expects {name} of 0 or more, got {group[name]}")


def below_one(optimizer: Optimizer, group: Group, *names: str) -> None:
    """Check that the options of these names are in [0, 1).

    Raises:
        ValueError: One is not.
    """
    for name in names:
        if not 0.0 <= group[name] < 1.0:
            raise ValueError(f"{type(optimizer).__name__} expects {name} in [0, 1), got {group[name]}")


#: MindSpore's name.
RMSProp = RMSprop


class SGD(Optimizer):
    """`w -= lr * (g + weight_decay * w)`, with a momentum buffer when `momentum` is not 0.

    Args:
        params: Parameters or groups.
        learning_rate: Number, schedule, or a list with a rate for each step.
        momentum: Share of the previous update, in [0, 1).
        dampening: Share of the gradient kept out of the buffer, from its second step on.
        weight_decay: L2 penalty, added to the gradient.
        nesterov: Look ahead; needs momentum and no dampening.

    Reference:
        Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning", in the form where
        the rate multiplies the buffer.
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate = 0.1,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
    ) -> None:
        entries = list(params)
        uses_momentum = momentum != 0.0 or any(isinstance(e, Mapping) and e.get("momentum", 0.0) for e in entries)
        super().__init__(
            entries,
            learning_rate,
            slots=("momentum_buffer",) if uses_momentum else (),
            momentum=momentum,
            dampening=dampening,
            weight_decay=weight_decay,
            nesterov=nesterov,
        )

    def _check_options(self, group: Group) -> None:
        if not 0.0 <= group["momentum"] < 1.0:
            raise ValueError(f"{type(self).__name__} expects momentum in [0, 1), got {group['momentum']}")
        if not group["weight_decay"] >= 0.0:
            raise ValueError(f"{type(self).__name__} expects weight_decay of 0 or more, got {group['weight_decay']}")
        if group["nesterov"] and (group["momentum"] == 0.0 or group["dampening"] != 0.0):
            raise ValueError(f"{type(self).__name__} expects momentum and no dampening where nesterov is asked for")

    def _rule(self, group: Group, step: int) -> UpdateRule:
        kernels = load_kernels()
        mu = group["momentum"]
        if mu == 0.0:
            return UpdateRule(kernels.sgd, (group["lr"], group["weight_decay"]), uses_slots=False)
        if not self.slots():
            raise ValueError("SGD was made without momentum and keeps no buffer; give momentum when you make it")
        fresh = 1.0 if step == 1 else 1.0 - group["dampening"]
        kernel = kernels.nesterov if group["nesterov"] else kernels.momentum
        return UpdateRule(kernel, (group["lr"], group["weight_decay"], mu, fresh))


class Momentum(SGD):
    """SGD with momentum, under the name and argument order of MindSpore (which is why it stands two levels deep).

    Example:
        >>> optimizer = Momentum(network.trainable_params(), learning_rate=0.1, momentum=0.9)
    """

    def __init__(
        self,
        params: Params,
        learning_rate: Rate,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(params, learning_rate, momentum, weight_decay=weight_decay, nesterov=use_nesterov)


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

    def _rule(self, group: Group, step: int) -> UpdateRule:
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

    def _rule(self, group: Group, step: int) -> UpdateRule:
        return _adam_rule(group, step, decay=0.0, keep=1.0 - group["lr"] * group["weight_decay"])


def _adam_rule(group: Group, step: int, *, decay: float, keep: float) -> UpdateRule:
    beta1, beta2 = group["betas"]
    step_size = group["lr"] / (1.0 - beta1**step)
    root_correction = sqrt(1.0 - beta2**step)
    scalars = (step_size, root_correction, 1.0 - beta1, beta2, 1.0 - beta2, group["eps"], decay, keep)
    return UpdateRule(load_kernels().adam, scalars)


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

    def _rule(self, group: Group, step: int) -> UpdateRule:
        del step
        keep = 1.0 - group["lr"] * group["weight_decay"]
        return UpdateRule(load_kernels().lion, (group["lr"], group["beta1"], group["beta2"], keep))
