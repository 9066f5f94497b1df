"""Are the running statistics of batch norms, with which a model is evaluated, those of the batches it is trained on?"""

from statistics import median
from typing import Final

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ...storage.percent import percent
from .check_result import CheckResult, broken, held
from .model_probe import ModelProbe

STATISTICS = "running_statistics_fit_the_batches"
_CLAIM = "the running statistics of batch norms are near those of a batch"
#: Share of a running mean that its momentum has left of the first value, and batches, from which it is looked at.
_LEFT, _BATCHES = 0.2, 100
#: Median over norms and channels from which it shows: the distance of the means in deviations of the batch, or the
#: logarithm of the ratio of the variances; in our trainings with the usual momentum both are below 0.06.
_FAR: Final = 0.2
#: Values of a channel that tell its mean that well; or fewer, if all channels of a norm together have enough. Our
#: choice: of 16 channels and 64 values, the median is off by 0.2 deviations in less than one batch of 10,000.
_ENOUGH, _FEWEST, _FEWEST_OF_ALL = 256, 64, 1024
_TINY: Final = 1e-12


def running_statistics_fit_the_batches(probe: ModelProbe) -> CheckResult | None:
    """Compare running means and variances that cannot have settled yet with those of a batch.

    After k batches a momentum m leaves (1 - m)^k of the first values, 0 and 1, in the running statistics. With a
    momentum of 0, these stay what they are, which shows from the first batches on.

    Returns:
        None for a model whose batch norms have settled.
    """
    norms = [module for module in probe.modules() if isinstance(module, _BatchNorm) and _is_unsettled(module)]
    if not norms:
        return None
    distances = [_distance(norm, given) for norm, given in probe.inputs_while_training(norms)]
    known = [distance for distance in distances if distance is not None]
    if not known:
        return None
    distance, norm = median(known), norms[0]
    momentum, left = float(norm.momentum), _left(norm)
    numbers = {"momentum": momentum, "left": left, "distance": distance, "norms": float(len(known))}
    if distance <= _FAR:
        return held(STATISTICS, _CLAIM, subject="", **numbers)
    words = (
        f"with a momentum of {momentum:g}, {percent(left)} of the running statistics of {len(known)} batch norms are "
        f"still their first values, and they are {distance:.2g} deviations from those of the batch"
    )
    return broken(STATISTICS, _CLAIM, words, subject="", **numbers)


def _is_unsettled(norm: _BatchNorm) -> bool:
    counted = norm.num_batches_tracked
    if norm.running_mean is None or norm.momentum is None or counted is None:
        return False
    if float(norm.momentum) == 0.0:
        return int(counted) > 1 and not bool(norm.running_mean.any())  # no statistics were loaded
    return int(counted) >= _BATCHES and _left(norm) > _LEFT


def _left(norm: _BatchNorm) -> float:
    return float((1.0 - float(norm.momentum)) ** int(norm.num_batches_tracked))


def _distance(norm: _BatchNorm, given: torch.Tensor) -> float | None:
    channels = given.transpose(0, 1).reshape(given.shape[1], -1).double()
    values = channels.shape[1]
    if values < _ENOUGH and (values < _FEWEST or channels.numel() < _FEWEST_OF_ALL):
        return None
    variance = channels.var(1).clamp_min(_TINY)
    means = ((channels.mean(1) - norm.running_mean.double()).abs() / variance.sqrt()).median()
    ratios = (norm.running_var.double().clamp_min(_TINY) / variance).log().abs().median()
    return max(float(means), float(ratios))
