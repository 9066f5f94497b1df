"""Does the output depend on every column, channel and position of an input? Found by gradients, and by exchanges."""

from collections.abc import Iterator, Sequence
from typing import Final

import torch
from torch import Tensor

from .check_result import CheckResult, broken, held, undecided
from .model_call import input_words
from .model_probe import ModelProbe, NotAnswered
from .origin import end_of

COLUMNS, POSITIONS = "columns_are_used", "positions_are_used"
#: The axis of columns or channels in tensors of so many axes, and that of positions.
_COLUMN_AXIS, _POSITION_AXIS = {2: 1, 3: 2, 4: 1}, 1
#: Samples below which an exchange among them tells little; positions below which a sequence has no halves.
_FEWEST, _SHORTEST = 3, 4
_WORDS: Final = (torch.int32, torch.int64)


def places_are_used(probe: ModelProbe) -> Iterator[CheckResult]:
    """Check each column of rows `(samples, columns)` or sequences, each channel of images, and positions of sequences.

    What has no gradient is exchanged among the samples, all together: no element of the output may stay as it is.
    Positions are told where half of a sequence has no effect, since a model may leave out the first or the last one.
    An input of which nothing has a gradient is left to `inputs_are_used`.
    """
    for name, tensor in probe.call.tensors().items():
        if tensor.dim() < 2 or tensor.shape[0] < _FEWEST or _may_be_edges(tensor):
            continue
        words = input_words(name)
        try:
            if tensor.dtype in _WORDS and tensor.dim() == 2 and tensor.shape[1] >= _SHORTEST:
                results = [_tokens_tried(probe, name, tensor, f"the output depends on both halves of {words}")]
            else:
                results = _numbers_tried(probe, name, tensor, words)
        except NotAnswered as reason:
            claim = f"the output depends on every column of {words}"
            results = [undecided(COLUMNS, claim, str(reason), subject=name)] if tensor.is_floating_point() else []
        yield from (result for result in results if result is not None)


def _may_be_edges(tensor: Tensor) -> bool:
    """Return whether these may be the edges of graphs: most nodes are no neighbours, and have no effect as such."""
    is_square = tensor.shape[-1] == tensor.shape[-2]
    return bool(is_square and tensor.dim() < 4 and tensor.is_floating_point())


def _numbers_tried(probe: ModelProbe, name: str, tensor: Tensor, words: str) -> list[CheckResult | None]:
    axis = _COLUMN_AXIS.get(tensor.dim())
    slopes = probe.slopes(name) if axis is not None and tensor.is_floating_point() else None
    if axis is None or slopes is None or not bool(slopes.any()):
        return []
    found: list[CheckResult | None] = []
    if tensor.shape[axis] > 1:
        unused = _without_effect(slopes, axis)
        claim = f"the output depends on every column of {words}"
        found.append(_tried(probe, name, tensor, axis, unused, COLUMNS, claim))
    if tensor.dim() == 3 and tensor.shape[1] >= _SHORTEST:
        unused = _without_effect(slopes, _POSITION_AXIS)
        claim = f"the output depends on more than half of the positions of {words}"
        if 2 * len(unused) >= tensor.shape[1]:
            found.append(_tried(probe, name, tensor, _POSITION_AXIS, unused, POSITIONS, claim))
        else:
            found.append(held(POSITIONS, claim, subject=name))
    return found


def _without_effect(slopes: Tensor, axis: int) -> list[int]:
    """Return the places along the axis at which no element has a gradient."""
    by_place = slopes.movedim(axis, 0).reshape(slopes.shape[axis], -1)
    return [int(place) for place in (by_place == 0).all(1).nonzero().reshape(-1).tolist()]


def _tried(
    probe: ModelProbe, name: str, tensor: Tensor, axis: int, unused: Sequence[int], check: str, claim: str
) -> CheckResult | None:
    """Exchange what seems unused among the samples; None where the samples have the same there."""
    kind = "position" if check == POSITIONS else "column"
    moved = _exchanged(tensor, axis, unused)
    differs = (moved != tensor).movedim(axis, 0).reshape(tensor.shape[axis], -1).any(1)
    found = [place for place in unused if bool(differs[place])]
    if unused and not found:
        return None
    if not found or probe.has_moved(probe.answers({name: moved}), at_all=True):
        return held(check, claim, subject=name)
    places = tensor.shape[axis]
    words = (
        f"with those of other samples in {len(found)} of the {places} {kind}s of {name} {tuple(tensor.shape)}, such as "
        f"{kind} {found[0]}, every element of the output is the same"
    )
    share = len(found) / places
    result = broken(check, claim, words, subject=name, unused=len(found), first=found[0], share=share)
    return result.at(end_of(probe, {name: moved}))


def _exchanged(tensor: Tensor, axis: int, places: Sequence[int]) -> Tensor:
    """Return the tensor with each sample's values at these places taken from the sample before it."""
    changed, other = tensor.clone(), tensor.roll(1, 0)
    for place in places:
        changed.select(axis, place).copy_(other.select(axis, place))
    return changed


def _tokens_tried(probe: ModelProbe, name: str, tensor: Tensor, claim: str) -> CheckResult | None:
    """Exchange the tokens of either half; where nothing moves, find the longest such piece at that end."""
    length = tensor.shape[1]
    for is_end, half in ((True, range(length // 2, length)), (False, range(length // 2))):
        if not _is_same_with(probe, name, tensor, half):
            continue
        first, last = half.start, half.stop
        while is_end and first and _is_same_with(probe, name, tensor, range(first - 1, last)):
            first -= 1
        while not is_end and last < length and _is_same_with(probe, name, tensor, range(last + 1)):
            last += 1
        if last - first == length:  # none has an effect, which another check tells
            return None
        words = (
            f"with the tokens of other samples at the positions {first} to {last - 1} of {name} {tuple(tensor.shape)}, "
            "every element of the output is the same"
        )
        numbers = {"unused": float(last - first), "first": float(first), "share": (last - first) / length}
        moved = _exchanged(tensor, 1, range(first, last))
        return broken(POSITIONS, claim, words, subject=name, **numbers).at(end_of(probe, {name: moved}))
    return held(POSITIONS, claim, subject=name)


def _is_same_with(probe: ModelProbe, name: str, tensor: Tensor, places: Sequence[int]) -> bool:
    """Return whether the exchange of these tokens changes the input, and no element of the output."""
    changed = _exchanged(tensor, 1, places)
    return not torch.equal(changed, tensor) and not probe.has_moved(probe.answers({name: changed}), at_all=True)
