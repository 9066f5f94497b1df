"""Gradient descent, plain and with momentum."""

from collections.abc import Mapping

from .groups import Group, Params, Rate
from .optimizer import Optimizer
from .rule import Rule, load_kernels


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

    def _rule(self, group: Group, step: int) -> Rule:
        kernels = load_kernels()
        mu = group["momentum"]
        if mu == 0.0:
            return Rule(kernels.sgd, (group["lr"], group["weight_decay"]), uses_slots=False)
        if not self.slots():
            raise ValueError("SGD was made without momentum and keeps no buffer; give momentum when you make it")
        fresh = 1.0 if step == 1 else 1.0 - group["dampening"]
        kernel = kernels.nesterov if group["nesterov"] else kernels.momentum
        return Rule(kernel, (group["lr"], group["weight_decay"], mu, fresh))


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
