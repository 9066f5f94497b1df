"""Does the target of a forecast begin inside of the window that the model is given?"""

from collections.abc import Iterator
from typing import Final

import torch

from .check_result import CheckResult, broken, held
from .model_call import input_words
from .model_probe import ModelProbe

WINDOW: Final = "targets_begin_behind_the_input"
_CLAIM: Final = "the target begins behind the last position of {input}"
#: Samples, and values of the target, below which nothing is said: symbols and bits come again. Samples and channels
#: that are looked at. Our choice.
_FEWEST_SAMPLES, _FEWEST_VALUES, _MOST_SAMPLES, _MOST_CHANNELS = 4, 32, 64, 32


def targets_begin_behind_the_input(probe: ModelProbe, target: torch.Tensor) -> Iterator[CheckResult]:
    """Check that the first positions of a target `(samples, horizon, ...)` are not the last of an input of numbers.

    A target as long as the input is left out: the next position of each, or the input itself, is another question.
    """
    wanted = _of_positions(target)
    if wanted is None or len(torch.unique(wanted)) < _FEWEST_VALUES:
        return
    for name, tensor in probe.call.tensors().items():
        given = _of_positions(tensor)
        if given is None or tensor.shape[0] != target.shape[0] or given.shape[1] == wanted.shape[1]:
            continue
        claim, common = _CLAIM.format(input=input_words(name)), _common(given, wanted)
        if not common:  # of two axes, positions may be features
            yield from [held(WINDOW, claim, subject=name)] * (target.dim() > 2)
            continue
        words = (
            f"the last {common} of the {given.shape[1]} positions of {input_words(name)} are the first of the "
            f"{wanted.shape[1]} positions of the target, in each of {len(wanted)} samples"
        )
        yield broken(WINDOW, claim, words, subject=name, positions=common, horizon=wanted.shape[1], samples=len(wanted))


def _of_positions(values: torch.Tensor) -> torch.Tensor | None:
    """Return `(samples, positions, channels)` of numbers along a window; None if the values are no such numbers."""
    if not values.is_floating_point() or values.dim() not in (2, 3) or values.shape[0] < _FEWEST_SAMPLES:
        return None
    some = values.detach()[:_MOST_SAMPLES]
    some = some if some.dim() == 3 else some[..., None]
    return some if some.shape[1] > 1 and some.shape[2] <= _MOST_CHANNELS else None


def _common(given: torch.Tensor, wanted: torch.Tensor) -> int:
    """Return how many of the last positions given are the first that are wanted, all channels or the same one."""
    if wanted.shape[2] not in (1, given.shape[2]):
        return 0
    channels = range(given.shape[2]) if wanted.shape[2] == 1 else (slice(None),)
    for count in range(min(given.shape[1], wanted.shape[1]), 0, -1):
        ends, begins = given[:, -count:], wanted[:, :count]
        differs = bool((begins != begins[:1]).any())
        if differs and any(torch.equal(_channel(ends, at), begins.to(ends.dtype)) for at in channels):
            return count
    return 0


def _channel(values: torch.Tensor, at: int | slice) -> torch.Tensor:
    return values[..., at] if isinstance(at, slice) else values[..., at : at + 1]
