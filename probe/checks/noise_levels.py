"""Is the noise that a denoiser learns the one that a sampler starts from: normal, and alone at the last level?"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Final

import torch

from ...storage.percent import percent
from .check_result import CheckResult, broken, held
from .constant_inputs import is_normal_noise

ALONE, NORMAL = "noise_is_alone_at_its_last_level", "noise_is_normal"
_ALONE = "at one end of its levels, the noise that a model learns hides the data"
_NORMAL = "the noise that a model learns is normal"
#: Samples from which on levels are compared, and numbers that each third of them must have. Our choice.
_FEWEST, _NUMBERS = 32, 64
#: Standard errors by which the noise's part must differ between low and high levels: a target of another kind has no
#: part in the input that grows with a number beside it.
_SURE: Final = 3.5
#: The same where the level is a whole number of many values, as steps are; actions and classes are few.
_SURE_OF_STEPS, _STEPS = 1.5, 16
#: Square of the correlation of input and noise at the noisier end below which most of the input is data still. Of
#: published schedules, all are above 0.95 there, beside one for whose 0.9953 there is a paper (Lin et al. 2024, "Common
#: Diffusion Noise Schedules and Sample Steps are Flawed", arXiv:2305.08891).
_HIDDEN: Final = 0.5
#: Standard errors within which moments are those of numbers drawn evenly from 0 to 1.
_ERRORS: Final = 6.0
_MOST: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class NoisyBatch:
    """An input of a model, the number that each sample has beside it, and the target of the input's shape.

    Args:
        level: `(samples,)`.
        is_real: Whether it is no whole number.
    """

    name: str
    level_name: str
    value: torch.Tensor
    level: torch.Tensor
    target: torch.Tensor
    is_real: bool


def noisy_batches(tensors: Mapping[str, torch.Tensor], targets: Sequence[torch.Tensor]) -> list[NoisyBatch]:
    """Return the inputs of a call that could be data with noise, of which the noise is the target."""
    found: list[NoisyBatch] = []
    for name, value in tensors.items():
        levels = [(other, tensor) for other, tensor in tensors.items() if _is_level(tensor, len_of(value))]
        alike = [target for target in targets if target.shape == value.shape]
        if not value.is_floating_point() or value.dim() < 2 or len(levels) != 1 or len(alike) != 1:
            continue
        (level_name, level), target = levels[0], alike[0]
        if target.is_floating_point() and not torch.equal(value, target.to(value)):
            is_real = level.is_floating_point()
            value, level, target = (part.detach().double().cpu() for part in (value, level.reshape(-1), target))
            found.append(NoisyBatch(name, level_name, value.flatten(1), level, target.flatten(1), is_real))
    return found


def noise_is_what_samplers_start_from(batches: Sequence[NoisyBatch]) -> Iterator[CheckResult]:
    """Check the noise of several batches: it is normal, and at one end of its levels hardly any data is left.

    A sampler starts from normal noise alone, so a model must have seen that. Only inputs in which the target has a part
    that grows or falls with the level are told of.

    Args:
        batches: Of one model and one name.
    """
    if not batches:
        return
    value, level, target = (
        torch.cat([getattr(batch, part) for batch in batches]) for part in ("value", "level", "target")
    )
    drawn = target.reshape(-1)[:_MOST]
    is_normal, is_even = is_normal_noise(drawn), _is_even(drawn)
    if not (is_normal or is_even):
        return
    order, errors = level.argsort(), _growth(value, level, target)
    is_step = not batches[0].is_real and len(level.unique()) >= _STEPS
    if target.numel() < 2 * _NUMBERS or abs(errors) < (_SURE_OF_STEPS if is_step else _SURE):
        return
    name, level_name = batches[0].name, batches[0].level_name
    if is_even:
        words = f"the noise that is added to {name}, and is the target, is drawn evenly from 0 to 1: its mean is 0.5"
        yield broken(NORMAL, _NORMAL, words, subject=name, mean=float(drawn.mean()), deviation=float(drawn.std()))
        return
    yield held(NORMAL, _NORMAL, subject=name)
    last = _noisiest(value, level, target, order if errors > 0 else order.flip(0))
    if last is None or last > _HIDDEN:
        yield held(ALONE, _ALONE, subject=name)
        return
    words = (
        f"where {level_name} is {'largest' if errors > 0 else 'smallest'}, noise is {percent(last)} of {name}, and "
        "data the rest"
    )
    yield broken(ALONE, _ALONE, words, subject=name, share=last)


def len_of(tensor: torch.Tensor) -> int:
    """Return the length of the first axis; zero if there is none."""
    return len(tensor) if tensor.dim() else 0


def _is_level(tensor: torch.Tensor, samples: int) -> bool:
    is_of_samples = tensor.dim() == 1 or (tensor.dim() > 1 and tensor.numel() == len(tensor))
    if not is_of_samples or len(tensor) != samples or samples < _FEWEST or tensor.dtype is torch.bool:
        return False
    return len(tensor.unique()) * 4 >= min(samples, _FEWEST)  # classes and flags are fewer


def _noisiest(value: torch.Tensor, level: torch.Tensor, target: torch.Tensor, order: torch.Tensor) -> float | None:
    """Return the share of noise in the samples at the end of this order; None where too few are near it."""
    ordered = level[order]
    reach = float((ordered[-1] - ordered[0]).abs())
    rows = order[(ordered - ordered[-1]).abs() <= 0.1 * reach]
    if rows.numel() * value.shape[1] < _NUMBERS // 2:
        rows = order[-max(1, _NUMBERS // (2 * value.shape[1])) :]
        if float((level[rows] - ordered[-1]).abs().max()) > 0.2 * reach:
            return None
    return _correlation(value[rows], target[rows]) ** 2


def _growth(value: torch.Tensor, level: torch.Tensor, target: torch.Tensor) -> float:
    """Return by how many standard errors the target's part in the input grows with the level; negative if it falls."""
    parts = ((value - value.mean(0)) * (target - target.mean(0))).mean(1)
    parts = parts * parts.mean().sign()
    ranks = level.argsort().argsort().double()
    return _correlation(parts, ranks) * sqrt(len(level))


def _correlation(value: torch.Tensor, target: torch.Tensor) -> float:
    one, other = (part.reshape(-1) - part.mean() for part in (value, target))
    return float((one * other).sum() / (one.norm() * other.norm() + 1e-30))


def _is_even(sample: torch.Tensor) -> bool:
    """Return whether numbers are drawn evenly from 0 to 1, as their range and moments tell."""
    count = sample.numel()
    if count < 4 * _NUMBERS or float(sample.min()) < 0.0 or float(sample.max()) > 1.0:
        return False
    error = _ERRORS * count**-0.5
    centred = sample - 0.5
    # the k-th absolute moment of centred even numbers is 1 / (2^k (k + 1)), its deviation that of the 2k-th
    expected = {1: (0.0, 1 / 12), 2: (1 / 12, 1 / 80 - 1 / 144), 4: (1 / 80, 1 / 2304 - 1 / 6400)}
    moments = {power: float(centred.pow(power).mean()) for power in expected}
    return all(abs(moments[power] - mean) < error * sqrt(spread) for power, (mean, spread) in expected.items())
