"""Is a judge told the same of what a generator has made and of data? Read from the targets of one step."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import torch

from .bounded_outputs import NetworkCall, kind_of
from .check_result import CheckResult, broken, held
from .loss_graph import origin_of
from .reached_parameters import leaves_of

TWO_SIDES = "judge_gets_two_targets"
_CLAIM = "{judge} is told different things of data and of what a generator has made"
_LOSSES: Final = frozenset({"binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss"})
#: Calls of a judge: on data, on what was made, and for the generator.
_FEWEST: Final = 3


def judge_gets_two_targets(
    calls: Sequence[NetworkCall], losses: Sequence[tuple[torch.Tensor, float | None]]
) -> CheckResult | None:
    """Check the targets of a network that is called alone, on two tensors, and through another network.

    Its outputs themselves must be compared, each of them: of a difference of two, one target says all.

    Args:
        calls: All calls of the step.
        losses: Inputs of all losses of the step, and the only value of their targets when they were called
            (`only_target`): programs fill one tensor of targets again and again.

    Returns:
        None where no network is such a judge.
    """
    told: dict[Any, list[float | None]] = {}
    for given, target in losses:
        told.setdefault(_maker(given.grad_fn), []).append(target)
    judged = [call for call in calls if len(call.outputs) == 1 and call.outputs[0].grad_fn is not None]
    for site in {call.site for call in judged}:
        mine = [call for call in judged if call.site == site]
        makers = [_maker(call.outputs[0].grad_fn) for call in mine]
        if len(mine) < _FEWEST or any(maker not in told for maker in makers) or not _is_judge(mine):
            continue
        values = {target for maker in makers for target in told[maker]}
        claim = _CLAIM.format(judge=site or "the judge")
        if len(values) > 1 or None in values:
            return held(TWO_SIDES, claim, subject=site, calls=float(len(mine)))
        value = values.pop() or 0.0
        words = (
            f"in all {len(mine)} calls of a step the target of {site or 'the judge'} is {value:g}, for data, for what "
            "a generator has made, and for the generator's own loss: the answer that is always the same is perfect"
        )
        return broken(TWO_SIDES, claim, words, subject=site, calls=float(len(mine)), target=value)
    return None


def _maker(node: Any) -> Any:
    """Return the node that made an output, before a sigmoid and views."""
    origin = origin_of(node)
    return origin_of(origin.next_functions[0][0]) if kind_of(origin) == "sigmoid" else origin


def _is_judge(calls: Sequence[NetworkCall]) -> bool:
    """Return whether a network is called with two tensors on its own, and with what further parameters have made."""
    reached = [_parameters(call) for call in calls]
    own = Counter(reached).most_common(1)[0][0]
    alone = [call.given for call, ids in zip(calls, reached, strict=True) if ids == own]
    differ = [
        one is not None and first is not None and (one.shape != first.shape or not torch.equal(one, first))
        for first in alone[:1]
        for one in alone[1:]
    ]
    return any(differ) and any(ids - own for ids in reached)


def _parameters(call: NetworkCall) -> frozenset[int]:
    leaves = leaves_of(call.outputs[0])
    return frozenset(id(leaf) for leaf in leaves if isinstance(leaf, torch.nn.Parameter))


def only_target(name: str, target: torch.Tensor | None) -> float | None:
    """Return the only value of the target of this loss; None if it has several, or the loss is of another kind."""
    if name not in _LOSSES or target is None or not target.numel():
        return None
    lowest = float(target.min())
    return lowest if lowest == float(target.max()) else None
