"""In which module an effect begins, or ends, that a check has found at a model's outputs."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

import torch

from .model_probe import ModelProbe, NotAnswered, PartCall

#: Relative to the size of a tensor, how far its elements move at least if they have moved. Our choice.
_MOVED: Final = 1e-5

#: Returns the part of a tensor that ought to stay as it is; None of one that has no such part.
Region = Callable[[torch.Tensor], torch.Tensor | None]


def rows_but_the_first(samples: int) -> Region:
    """Return the region of all samples but the first, along the first axis or the second."""

    def region(tensor: torch.Tensor) -> torch.Tensor | None:
        if tensor.dim() and tensor.shape[0] == samples:
            return tensor[1:]
        return tensor[:, 1:] if tensor.dim() > 2 and tensor.shape[1] == samples else None

    return region


def rows_of_no_pairs(samples: int) -> Region:
    """Return the region of all samples but the first, of tensors `(samples, features)` that are no pairs of samples."""

    def region(tensor: torch.Tensor) -> torch.Tensor | None:
        is_of_samples = tensor.dim() == 2 and tensor.shape[0] == samples != tensor.shape[1]
        return tensor[1:] if is_of_samples else None

    return region


def positions_before(batch: int, length: int, position: int) -> Region:
    """Return the region of the positions before one, of tensors `(batch, positions, ...)` or with both exchanged."""

    def region(tensor: torch.Tensor) -> torch.Tensor | None:
        if tensor.dim() > 1 and tuple(tensor.shape[:2]) == (batch, length):
            return tensor[:, :position]
        if tensor.dim() > 1 and tuple(tensor.shape[:2]) == (length, batch):
            return tensor[:position]
        is_flat = tensor.dim() == 2 and tensor.shape[0] == batch * length
        return tensor.reshape(batch, length, -1)[:, :position] if is_flat else None

    return region


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return the region of all elements."""
    return tensor


def beginning_of(
    probe: ModelProbe, changes: Mapping[str, torch.Tensor], region: Region, *, turned: int | None = None
) -> str:
    """Return the innermost module whose output moves in a region in which none of its inputs moves.

    Args:
        changes: What of the model's inputs is replaced.
        turned: Samples of the batch, where the changes bring them into reverse order, which is undone in all tensors.

    Returns:
        Its name; empty where that is the model itself, or cannot be told.
    """
    for before, after in _pairs(probe, changes):
        given, made = ([_turned_back(each, turned) for each in tensors] for tensors in (after.inputs, after.outputs))
        outputs = [_moves(one, other, region) for one, other in zip(before.outputs, made, strict=True)]
        if before.inputs and True in outputs and not any(map(_may_move(region), before.inputs, given)):
            return before.name
    return ""


def _turned_back(tensor: torch.Tensor, samples: int | None) -> torch.Tensor:
    """Return the tensor with its samples, where they are its first axis, in reverse order; as it is without any."""
    return tensor.flip(0) if samples is not None and tensor.dim() and len(tensor) == samples else tensor


def end_of(probe: ModelProbe, changes: Mapping[str, torch.Tensor]) -> str:
    """Return the module that is the last to feel a change of inputs that no output of the model feels.

    That is the first one whose inputs move and whose outputs do not, else the last whose outputs move.
    """
    last = ""
    for before, after in _pairs(probe, changes):
        inputs = [_moves(one, other, whole) for one, other in zip(before.inputs, after.inputs, strict=True)]
        outputs = [_moves(one, other, whole) for one, other in zip(before.outputs, after.outputs, strict=True)]
        if True in inputs and outputs and True not in outputs:
            return before.name
        if True in outputs:
            last = before.name
    return last


def _may_move(region: Region) -> Callable[[torch.Tensor, torch.Tensor], bool]:
    """Return what tells whether a tensor moves in the region, or at all if it has no such region."""

    def may_move(before: torch.Tensor, after: torch.Tensor) -> bool:
        moved = _moves(before, after, region)
        return bool(_moves(before, after, whole)) if moved is None else moved

    return may_move


def _pairs(probe: ModelProbe, changes: Mapping[str, torch.Tensor]) -> list[tuple[PartCall, PartCall]]:
    """Return the calls of the model's modules without and with the changes, in the order in which they end."""
    try:
        before, after = probe.calls_of_parts({}), probe.calls_of_parts(changes)
    except NotAnswered:
        return []
    if [_shape_of(one) for one in before] != [_shape_of(one) for one in after]:
        return []
    return list(zip(before, after, strict=True))


def _shape_of(call: PartCall) -> tuple[str, Sequence[torch.Size]]:
    return call.name, [tensor.shape for tensor in (*call.inputs, *call.outputs)]


def _moves(before: torch.Tensor, after: torch.Tensor, region: Region) -> bool | None:
    """Return whether a tensor moves in the region; None if it has none."""
    one, other = region(before), region(after)
    if one is None or other is None or not one.numel():
        return None
    if not one.is_floating_point():
        return not torch.equal(one, other)
    return bool((one - other).abs().max() > _MOVED * before.abs().max())
