"""What a generator and its judge tell about each other: the labels of what is made, and who lowers which score."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ...storage.percent import percent
from .bounded_outputs import NetworkCall
from .check_result import CheckResult, broken, held
from .step_direction import DOWNHILL, StepDirection

LABELS, APART = "judge_sees_the_labels_of_what_is_made", "generator_and_judge_pull_apart"
_LABELS = "{judge} sees what {maker} has made with the labels that it was made of"
_APART = "{maker} raises the score that {judge} lowers, or the reverse"
#: Labels below which nothing is said, elements of a tensor that may be labels, and share of them that must differ.
_FEWEST, _MOST, _SHARE = 4, 1 << 16, 0.1


def conditions_in(values: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    """Return copies of the labels among arguments: integers, or rows that are zero but for a single one."""
    return tuple([one.detach().clone() for one in values if isinstance(one, torch.Tensor) and _is_condition(one)])


def slope_signs(
    root: torch.Tensor, calls: Sequence[NetworkCall], direction: StepDirection = DOWNHILL
) -> Iterator[tuple[NetworkCall, int]]:
    """Yield calls of networks with the sign by which all of their answers enter a loss; 0 where these differ.

    Of a loss that is maximised the sign is the other one.
    """
    given = {id(call.given) for call in calls}
    known = [call for call in calls if len(call.outputs) == 1 and _may_be_read(call.outputs[0], given)]
    if len({call.site for call in calls}) < 2 or not known:
        return
    outputs = [call.outputs[0] for call in known]
    with _without_hooks(outputs):
        slopes = torch.autograd.grad(root, outputs, torch.ones_like(root), retain_graph=True, allow_unused=True)
    for call, slope in zip(known, slopes, strict=True):
        if slope is not None and bool(slope.any()):
            sign = 1 if bool((slope >= 0).all()) else -1 if bool((slope <= 0).all()) else 0
            yield call, sign * direction.sign(call.outputs[0].grad_fn)


def makers_and_judges(calls: Sequence[NetworkCall]) -> Iterator[CheckResult]:
    """Yield what the calls of one step tell; nothing where no network judges what another one has made.

    Args:
        calls: All calls of the step, in order.
    """
    made = {one.data_ptr(): call for call in calls for one in call.outputs if one.numel()}
    judged = [(call, _maker(call, made)) for call in calls if call.given is not None]
    for site in sorted({call.site for call, maker in judged if maker is not None}):
        mine = [(call, maker) for call, maker in judged if call.site == site]
        if all(maker is not None for _, maker in mine):
            continue  # no data: a decoder, or a critic of actions
        yield from _labels(site, [(call, maker) for call, maker in mine if maker is not None])
        yield from _sides(site, mine)


def _labels(site: str, made: Sequence[tuple[NetworkCall, NetworkCall]]) -> Iterator[CheckResult]:
    told: dict[int, list[float]] = {}
    names: dict[int, str] = {}
    for call, maker in made:
        if len(call.conditions) != 1 or len(maker.conditions) != 1 or call.given is None:
            continue
        seen, used = call.conditions[0], maker.conditions[0]
        if seen.shape == used.shape and seen.dtype == used.dtype and len(seen) >= _FEWEST:
            differs = (seen != used).reshape(len(seen), -1).any(1)
            told.setdefault(call.given.data_ptr(), []).append(float(differs.double().mean()))
            names[call.given.data_ptr()] = maker.site or "the generator"
    for pointer, shares in told.items():
        judge, maker_name = site or "the judge", names[pointer]
        claim, least = _LABELS.format(judge=judge, maker=maker_name), min(shares)
        if least > _SHARE:
            words = (
                f"{judge} is given what {maker_name} has made with other labels than those that it was made of: "
                f"{percent(least)} of them differ"
            )
            yield broken(LABELS, claim, words, subject=judge, share=least)
            return
        yield held(LABELS, claim, subject=judge, share=least)


def _sides(site: str, calls: Sequence[tuple[NetworkCall, NetworkCall | None]]) -> Iterator[CheckResult]:
    """Compare the signs of a judge's loss with that of the loss of the generator, which passes its gradient on."""
    of_data = [call.signs for call, maker in calls if maker is None]
    of_made = [call.signs for call, maker in calls if maker is not None and not call.takes_gradient]
    passed_on = [(call.signs, maker.site) for call, maker in calls if maker is not None and call.takes_gradient]
    data, fake = _one_sign(of_data), _one_sign(of_made)
    own = _one_sign([signs for signs, _ in passed_on])
    if not data or not fake or data == fake or not own:
        return
    judge, maker = site or "the judge", passed_on[0][1] or "the generator"
    claim = _APART.format(maker=maker, judge=judge)
    if own == fake:
        verb = "lower" if own > 0 else "raise"
        words = f"both losses, that of {judge} and that of {maker}, {verb} the score of what {maker} has made"
        yield broken(APART, claim, words, subject=maker)
    else:
        yield held(APART, claim, subject=maker)


def _one_sign(calls: Sequence[Sequence[int]]) -> int:
    signs = {sign for signs in calls for sign in signs}
    return signs.pop() if len(signs) == 1 else 0


def _maker(call: NetworkCall, made: dict[int, NetworkCall]) -> NetworkCall | None:
    """Return the call of another network that has made what this one is given."""
    maker = made.get(call.given.data_ptr()) if call.given is not None else None
    return None if maker is None or maker.site == call.site else maker


def _may_be_read(output: torch.Tensor, given: set[int]) -> bool:
    return output.grad_fn is not None and id(output) not in given


@contextmanager
def _without_hooks(outputs: Sequence[torch.Tensor]) -> Iterator[None]:
    """Have the hooks of these tensors called by nothing in the block: they are there for the training's own pass."""
    tables = [table for one in outputs if (table := getattr(one, "_backward_hooks", None))]
    kept = [dict(table) for table in tables]
    try:
        for table in tables:
            table.clear()
        yield
    finally:
        for table, hooks in zip(tables, kept, strict=True):
            table.update(hooks)


def _is_condition(value: torch.Tensor) -> bool:
    if value.layout is not torch.strided or not 0 < value.numel() <= _MOST or value.dim() not in (1, 2):
        return False
    if not value.is_floating_point():
        return value.dim() == 1 and value.dtype in (torch.int64, torch.int32)
    is_one_hot = value.dim() == 2 and value.shape[1] > 1 and bool(((value == 0) | (value == 1)).all())
    return is_one_hot and bool((value.sum(1) == 1).all())
