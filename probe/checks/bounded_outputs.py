"""What a bounded function such as tanh cannot reach: targets beyond its range, and data to be imitated."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import torch

from ...storage.percent import percent
from .check_result import CheckResult, broken, held
from .loss_graph import origin_of
from .term_sizes import BY_ELEMENT

TARGETS, DATA = "targets_can_be_reached", "generator_can_reach_the_data"
_TARGETS = "the targets lie in the range of the {kind} that makes the predictions"
_DATA = "the data that {judge} compares with a generator's lie in the range of its {kind}"
_RANGES: Final = {"Tanh": (-1.0, 1.0), "Sigmoid": (0.0, 1.0), "Relu": (0.0, inf), "Softplus": (0.0, inf)}
#: Share of the range's width by which a value must lie outside, and share of such values: rounding, noise that spreads
#: levels of brightness and a few outliers are common. Our choice.
_MARGIN, _SHARE = 0.02, 0.05
#: Elements below which nothing is said, and elements that are looked at.
_FEWEST, _MOST = 32, 1 << 20


@dataclass(frozen=True, slots=True)
class NetworkCall:
    """A call of an outermost network in a step.

    Args:
        site: Of the network.
        given: The first tensor that it was given, if it is one of real numbers.
        outputs: What it returned, with graphs where it has them.
        version: How often the first tensor had been written to.
        conditions: Copies of the labels behind the first argument.
        is_taught: Whether gradients were enabled.
        is_frozen: Whether it has parameters, and none needed a gradient.
        takes_gradient: Whether a tensor that it was given has a gradient.
        signs: By which all of its answers enter the losses whose backward passes have begun; extended.
    """

    site: str
    given: torch.Tensor | None
    outputs: tuple[torch.Tensor, ...]
    version: int = 0
    conditions: tuple[torch.Tensor, ...] = ()
    is_taught: bool = False
    is_frozen: bool = False
    takes_gradient: bool = False
    signs: list[int] = field(default_factory=list)


def targets_can_be_reached(
    name: str, prediction: torch.Tensor, target: torch.Tensor | None, is_differentiated_by: Callable[[Any], bool]
) -> Iterator[CheckResult]:
    """Check the target of a prediction that a bounded function, such as a tanh, has just made, as the loss is called.

    Args:
        name: Of the loss.
        is_differentiated_by: Returns whether the step asks for derivatives by what a node made: such a target is made
            of the prediction and a gradient, and tells a direction only.
    """
    kind = kind_of(prediction.grad_fn)
    if name not in BY_ELEMENT or not kind or target is None or prediction.shape != target.shape:
        return
    if target.requires_grad or any(map(is_differentiated_by, (prediction.grad_fn, origin_of(prediction.grad_fn)))):
        return
    found = _result(TARGETS, _TARGETS.format(kind=kind), f"the targets of {name}", target, kind, name)
    if found is not None:
        yield found


def written_targets_can_be_reached(nodes: Sequence[Any], target: torch.Tensor) -> CheckResult | None:
    """Check the targets of a mean of squares that the program writes itself.

    Args:
        nodes: Of the loss, as `targets_of_squares` has read them.
    """
    made = [before for before, _ in nodes[2].next_functions if before is not None]
    kind = kind_of(made[0]) if len(made) == 1 else ""
    words = "the targets of the squared error"
    return _result(TARGETS, _TARGETS.format(kind=kind), words, target, kind, "squares") if kind else None


def generator_can_reach_the_data(calls: Sequence[NetworkCall]) -> Iterator[CheckResult]:
    """Check the data that a judge is given beside what a bounded network has made, as a constant.

    A judge is a network that is trained on the detached output of another; features of two kinds that share a layer are
    not detached.

    Args:
        calls: All calls of the step, in order.
    """
    kinds = {call.site: kind for call in calls for one in call.outputs if (kind := kind_of(one.grad_fn))}
    makers = {one.data_ptr(): call.site for call in calls for one in call.outputs if one.numel()}
    judged = [call for call in calls if call.given is not None and _has_gradients(call)]
    told = set[str]()
    for call in judged:
        maker = makers.get(call.given.data_ptr()) if call.given is not None and call.given.grad_fn is None else None
        if maker is None or maker == call.site or maker not in kinds or call.site in told:
            continue
        for other in judged:
            data = other.given
            is_alike = data is not None and call.given is not None and data.shape[1:] == call.given.shape[1:]
            if other.site != call.site or data is None or not is_alike or data._version != other.version:
                continue
            if data.grad_fn is not None or data.data_ptr() in makers:
                continue
            claim = _DATA.format(judge=call.site or "the judge", kind=kinds[maker])
            words = f"the values that {call.site or 'a network'} is given beside the output of {maker}"
            found = _result(DATA, claim, words, data, kinds[maker], maker)
            if found is not None:
                told.add(call.site)
                yield found
                break


def _has_gradients(call: NetworkCall) -> bool:
    return any(one.grad_fn is not None for one in call.outputs)


def kind_of(node: Any) -> str:
    """Return the name in small letters of the bounded function that made the values of a node; empty of others."""
    origin = origin_of(node)
    return next((name.lower() for name in _RANGES if origin is not None and origin.name() == f"{name}Backward0"), "")


def _result(check: str, claim: str, what: str, values: torch.Tensor, kind: str, subject: str) -> CheckResult | None:
    if not values.is_floating_point() or values.layout is not torch.strided or values.numel() < _FEWEST:
        return None
    low, high = _RANGES[kind.capitalize()]
    flat = values.detach().reshape(-1)[:_MOST]
    margin = _MARGIN * (high - low if high < inf else float(flat.std()))
    outside = float(((flat < low - margin) | (flat > high + margin)).double().mean())
    smallest, largest = float(flat.min()), float(flat.max())
    numbers = {"outside": outside, "smallest": smallest, "largest": largest}
    if not outside > _SHARE:
        return held(check, claim, subject=subject, **numbers)
    words = (
        f"{what} reach from {smallest:.4g} to {largest:.4g}, and {percent(outside)} of them lie outside of what a "
        f"{kind} can give, {low:g} to {high:g}"
    )
    return broken(check, claim, words, subject=subject, **numbers)
