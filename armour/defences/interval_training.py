"""Training whose loss is that of the worst logits which intervals allow: the model learns to be certified.

Needs torch; the module is read by torch.fx, and intervals pass through it with gradients to its weights.
"""

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from numpy.typing import ArrayLike
from torch import Tensor, fx, nn
from torch.nn import functional

from ..array_api import Array
from ..errors import InvalidInput, InvalidModel
from ..model import WrappedModel, network_of
from .defended_training import checked_batch
from .trainee import TrainingOptimizer

_CLIPPED: Final = 8.0  # length of the gradient: that of Shi et al.'s own program is 8 as well
#: Modules that grow with each input; an interval passes by its ends.
_MONOTONE: Final = (nn.ReLU, nn.LeakyReLU, nn.MaxPool2d, nn.AvgPool2d, nn.AdaptiveAvgPool2d, nn.Flatten, nn.Identity)
_FUNCTIONS: Final = (torch.relu, functional.relu, torch.flatten)
_LINEAR: Final = {nn.Linear: functional.linear, nn.Conv1d: functional.conv1d, nn.Conv2d: functional.conv2d}
_KNOWN: Final = "Linear, Conv1d, Conv2d, ReLU, LeakyReLU, pooling, Flatten and sums"


class Ends(NamedTuple):
    """Smallest and largest value of each unit, `(n, ...)`."""

    low: Tensor
    high: Tensor


@dataclass(frozen=True, slots=True)
class IntervalStep:
    """One step's numbers.

    Args:
        loss: That was lowered.
        epsilon: Of the intervals, at this step.
        certified: Share of the batch whose worst logits are right.
    """

    loss: float
    epsilon: float
    certified: float

    @property
    def scalars(self) -> dict[str, float]:
        """The scalars for `Monitor.log`."""
        return {"loss": self.loss, "robust/epsilon": self.epsilon, "robust/certified_accuracy": self.certified}


class IntervalTraining:
    """Training by interval bounds: budget and weight of the worst case grow from 0 over most of the steps.

    The last layer is merged with the differences of logits, as `certify` does.

    Args:
        module: A torch module of dense, convolution, relu and pooling layers that ends in a `Linear`, in training mode.
        optimizer: Holds its parameters.
        epsilon: Budget in Linf, above 0.
        steps: Of the whole training.
        bounds: Smallest and largest value of an input element.
        clean_share: Of the clean loss in the end.
        warm_up, ramp: Shares of the steps without a budget, and those over which it grows afterwards.

    Raises:
        InvalidModel: A layer through which no intervals pass; the message names it.

    Reference:
        Gowal et al. 2018, arXiv:1810.12715, section 3 and appendix A.
    """

    def __init__(
        self,
        module: nn.Module,
        optimizer: TrainingOptimizer,
        epsilon: float,
        *,
        steps: int,
        bounds: tuple[float, float] = (0.0, 1.0),
        clean_share: float = 0.5,
        warm_up: float = 0.05,
        ramp: float = 0.55,
    ) -> None:
        is_schedule = warm_up >= 0 and ramp > 0 and warm_up + ramp <= 1
        if not (math.isfinite(epsilon) and epsilon > 0 and steps >= 1 and 0 <= clean_share <= 1 and is_schedule):
            raise InvalidInput(
                "interval training expects epsilon above 0, 1 step or more, clean_share from 0 to 1 and warm_up + ramp "
                f"of up to 1, got epsilon={epsilon}, steps={steps}, clean_share={clean_share}, warm_up={warm_up}, "
                f"ramp={ramp}"
            )
        self.model = WrappedModel(network_of(module), bounds, name=type(module).__name__)
        self.steps = 0
        self._module, self._optimizer, self._bounds = module, optimizer, bounds
        self._epsilon, self._all, self._clean_share = epsilon, steps, clean_share
        self._warm_up, self._ramp = warm_up, ramp
        self._graph, self._last = _read(module)

    def step(self, x: Array, y: ArrayLike) -> IntervalStep:
        """Train one step on a batch `(n, ...)` with integer classes `(n,)`."""
        inputs, labels = checked_batch(self.model, x, y)
        share = min(max((self.steps / self._all - self._warm_up) / self._ramp, 0.0), 1.0)
        clean = 1.0 - (1.0 - self._clean_share) * share
        worst = self.worst_logits(inputs, labels, self._epsilon * share)
        loss = clean * functional.cross_entropy(self._module(inputs), labels)
        loss = loss + (1.0 - clean) * functional.cross_entropy(worst, labels)
        self._optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self._module.parameters(), _CLIPPED)
        self._optimizer.step()
        self.steps += 1
        certified = (worst.argmax(dim=1) == labels).float().mean()
        return IntervalStep(float(loss.detach()), self._epsilon * share, float(certified))

    def worst_logits(self, x: Tensor, labels: Tensor, epsilon: float) -> Tensor:
        """Return `(n, classes)`: 0 at the label, elsewhere the largest lead over it that intervals allow.

        Where all leads are below 0, the prediction is the same everywhere in the budget.
        """
        low, high = self._bounds
        ends = _passed(self._graph, Ends((x - epsilon).clamp(low, high), (x + epsilon).clamp(low, high)))
        weight, bias = self._last.weight, self._last.bias
        rows = weight[None] - weight[labels][:, None]
        middle, reach = (ends.low + ends.high) / 2, (ends.high - ends.low) / 2
        lead = torch.einsum("nck,nk->nc", rows, middle) + torch.einsum("nck,nk->nc", rows.abs(), reach)
        return lead if bias is None else lead + bias[None] - bias[labels][:, None]


def initialize_for_intervals(module: nn.Module) -> None:
    """Draw weights under which intervals neither grow nor shrink from layer to layer, and set biases to 0.

    Reference:
        Shi et al. 2021, arXiv:2103.17268, section 3.1: a normal distribution with deviation sqrt(2 pi) / fan-in.
    """
    with torch.no_grad():
        for layer in module.modules():
            if isinstance(layer, nn.Linear | nn.Conv1d | nn.Conv2d):
                layer.weight.normal_(0.0, math.sqrt(2 * math.pi) / layer.weight[0].numel())
                if layer.bias is not None:
                    layer.bias.zero_()


_Node = tuple[fx.Node, Callable[..., Any]]  # Any: ends of intervals, and what functions take besides


def _read(module: nn.Module) -> tuple[list[_Node], nn.Linear]:
    """Return the layers before the last one, each with how ends pass through it, and the last one."""
    try:
        nodes = list(fx.Tracer().trace(module).nodes)
    except Exception as error:  # code of the user, which runs on placeholders for tensors
        raise InvalidModel(
            f"the graph of {type(module).__name__} cannot be read by torch.fx ({error}); interval training expects a "
            "forward whose path does not depend on values"
        ) from error
    modules = dict(module.named_modules())
    answer: Any = nodes[-1].args[0]
    last = modules.get(str(answer.target)) if isinstance(answer, fx.Node) and answer.op == "call_module" else None
    if not isinstance(last, nn.Linear):
        raise InvalidModel(
            f"interval training expects a module that ends in a Linear, {type(module).__name__} does not"
        )
    inner = [node for node in nodes if node.op not in ("placeholder", "output") and node is not answer]
    found = [(node, _passing(node, modules)) for node in inner]
    unknown = [str(modules.get(str(node.target), node.target)) for node, passing in found if passing is None]
    if unknown:
        raise InvalidModel(f"no intervals pass through {', '.join(unknown)}; interval training takes {_KNOWN}")
    end = (answer, lambda ends: ends)
    return [(node, passing) for node, passing in found if passing is not None] + [end], last


def _passing(node: fx.Node, modules: dict[str, nn.Module]) -> Callable[..., Any] | None:
    layer = modules.get(str(node.target)) if node.op == "call_module" else None
    if type(layer) in _LINEAR:
        return lambda ends: _through_linear(layer, ends)
    if isinstance(layer, _MONOTONE):
        return lambda ends: Ends(layer(ends.low), layer(ends.high))
    function: Any = node.target
    if node.op == "call_function" and function in _FUNCTIONS:
        return lambda ends, *rest, **named: Ends(*(function(end, *rest, **named) for end in ends))
    if node.op == "call_function" and function in (operator.add, torch.add):
        return _sum
    if node.op == "call_method" and function in ("relu", "flatten"):
        return lambda ends, *rest, **named: Ends(*(getattr(end, function)(*rest, **named) for end in ends))
    return None


def _sum(first: Any, second: Any) -> Ends:
    """Add ends to ends, or to what does not depend on the input."""
    one, other = (part if isinstance(part, Ends) else Ends(part, part) for part in (first, second))
    return Ends(one.low + other.low, one.high + other.high)


def _through_linear(layer: Any, ends: Ends) -> Ends:
    middle, reach = layer((ends.low + ends.high) / 2), (ends.high - ends.low) / 2
    if isinstance(layer, nn.Linear):
        spread = functional.linear(reach, layer.weight.abs())
    else:
        convolve = _LINEAR[type(layer)]
        spread = convolve(reach, layer.weight.abs(), None, layer.stride, layer.padding, layer.dilation, layer.groups)
    return Ends(middle - spread, middle + spread)


def _passed(graph: list[_Node], region: Ends) -> Ends:
    """Return the ends in front of the last layer."""
    known: dict[fx.Node, Ends] = {}
    found = region
    for node, passing in graph:
        arguments, named = (
            fx.node.map_arg(part, lambda one: known.get(one, region)) for part in (node.args, node.kwargs)
        )
        found = known[node] = passing(*arguments, **named)
    return found
