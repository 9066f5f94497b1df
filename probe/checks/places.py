"""Does a position see the next ones alone, or an answer depend on the place of its sample in the batch?"""

from collections.abc import Iterator
from typing import Final

import torch

from .check_result import CheckResult, broken, held, undecided
from .model_probe import ModelProbe, NotAnswered
from .origin import beginning_of, whole

BAND, PLACE, TWINS = "the_future_begins_at_the_next_position", "answers_do_not_depend_on_the_row", "samples_differ"
_BAND = "a position that sees all earlier ones, and not all later ones, sees none of the later ones"
_PLACE = "the answer for a sample does not depend on its row in the batch"
_TWINS = "the samples of a batch are not all the same"
#: Positions and samples from which anything is said, and the share of positions that an early one must reach. Our
#: choice.
_FEWEST, _SAMPLES, _REACHED = 8, 8, 0.9
#: Relative error that other orders of summation bring.
_ROUNDING: Final = 1e-3
#: Layers that look ahead by design.
_LOCAL: Final = (torch.nn.RNNBase, torch.nn.Conv1d, torch.nn.Conv2d)


def future_begins_at_the_next_position(probe: ModelProbe) -> Iterator[CheckResult]:
    """Check models of sequences whose outputs see all earlier positions, and of the later ones at most a few.

    That is what a mask is for; one that is off by one lets each layer see one more. Models with convolutions or
    recurrent layers are left out: they may look ahead by design.
    """
    if any(isinstance(module, _LOCAL) for module in probe.modules()):
        return
    for name, tensor in probe.call.tensors().items():
        lengths = {output.shape[:2] for output in probe.base if output.dim() > 1}
        if tensor.dim() < 2 or tensor.shape[1] < _FEWEST or tensor.shape[:2] not in lengths or len(tensor) < 2:
            continue
        try:
            late, early = (_felt(probe, name, tensor, at) for at in (-1, 0))
        except NotAnswered as reason:
            yield undecided(BAND, _BAND, str(reason), subject=name)
            continue
        positions = tensor.shape[1]
        if not late or len(early) < _REACHED * positions or len(late) > positions // 2:
            continue
        if late[0] == positions - 1:
            yield held(BAND, _BAND, subject=name)
        elif late == list(range(late[0], positions)):
            words = (
                f"changing {name} at the last of {positions} positions moved the outputs from position {late[0]} on, "
                f"and no earlier one; changing it at the first moved {len(early)} of them"
            )
            yield broken(BAND, _BAND, words, subject=name, ahead=positions - 1 - late[0], positions=positions)


def answers_do_not_depend_on_the_row(probe: ModelProbe) -> CheckResult | None:
    """Check that samples in reverse order get the same answers, of a model whose samples are independent.

    A position that is encoded along the batch, or a state that is kept for each row, breaks it.

    Returns:
        None where answers are drawn at random, or inputs and outputs have no axis of samples in common.
    """
    tensors = probe.call.tensors()
    samples = {len(tensor) for tensor in tensors.values() if tensor.dim()}
    outputs = [
        at
        for at, output in enumerate(probe.base)
        if output.dim() and len(output) in samples and output.shape[1:2] != output.shape[:1]  # scores of all pairs
    ]
    if len(samples) != 1 or not outputs or min(samples) < _SAMPLES:
        return None
    turned = {name: tensor.flip(0) for name, tensor in tensors.items() if tensor.dim()}
    try:
        if probe.has_moved(probe.answers_drawn_anew(), at_all=True):
            return None
        answers = probe.answers(turned)
    except NotAnswered as reason:
        return undecided(PLACE, _PLACE, str(reason))
    for at in outputs:
        moved = (answers[at].flip(0) - probe.base[at]).abs()
        size = float(probe.base[at].abs().max())
        if answers[at].shape == probe.base[at].shape and float(moved.max()) > max(probe.limit(at), _ROUNDING * size):
            words = (
                f"in evaluation mode, with the {min(samples)} samples of the batch in reverse order, the answer for "
                f"the same sample is another one, by {float(moved.max()):.3g}"
            )
            where = beginning_of(probe, turned, whole, turned=min(samples))
            return broken(PLACE, _PLACE, words, moved=float(moved.max()), size=size).at(where)
    return held(PLACE, _PLACE)


def samples_differ(probe: ModelProbe) -> CheckResult | None:
    """Check that the first input of real numbers is not the same row again and again.

    Zeros beside other inputs are a state that begins. What a network has made of one token may be the same for all.
    """
    given = probe.call.tensors()
    for name, tensor in given.items():
        is_fresh = name in probe.call.made or (len(given) > 1 and not bool(tensor.any()))
        if tensor.is_floating_point() and tensor.dim() > 1 and len(tensor) >= _SAMPLES and not is_fresh:
            if bool((tensor != tensor[:1]).any()):
                return held(TWINS, _TWINS, subject=name)
            words = f"all {len(tensor)} samples of {name} {tuple(tensor.shape)} are the same"
            return broken(TWINS, _TWINS, words, subject=name, samples=len(tensor))
    return None


def _felt(probe: ModelProbe, name: str, tensor: torch.Tensor, at: int) -> list[int]:
    """Return the positions whose outputs move when the input at one position is that of another sample."""
    changed = tensor.clone()
    changed[:, at] = tensor[:, at].roll(1, 0)
    if torch.equal(changed, tensor):
        return []
    felt = torch.zeros(tensor.shape[1], dtype=torch.bool, device="cpu")
    for number, move in enumerate(probe.moves(probe.answers({name: changed}))):
        if move.dim() > 1 and move.shape[:2] == tensor.shape[:2]:
            moved = move.reshape(*move.shape[:2], -1).amax((0, 2)) > probe.limit(number)
            felt |= moved.cpu()
    return [int(position) for position in felt.nonzero().reshape(-1)]
