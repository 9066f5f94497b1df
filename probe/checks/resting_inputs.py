"""Is a network that is only asked, such as a teacher, given inputs like those that it was trained on?"""

from typing import Any, Final

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from .check_result import CheckResult, broken, held

LIKE: Final = "asked_networks_get_inputs_as_in_their_training"
_CLAIM = "{name}, which is asked and not trained, gets inputs of the scale that its batch norms were trained on"
#: Median over channels from which inputs are others: distance of the means in running deviations, and ratio of the
#: variances. Our choice: between collections of pictures that are scaled alike they are below 1 and 5; pictures that
#: are not divided by 255 are at 50 and beyond 1,000.
_FAR, _RATIO = 5.0, 100.0
#: Looks at which they must be others, and values of all channels that are needed.
_LOOKS, _FEWEST = 2, 256
_TINY: Final = 1e-12


class RestingInputs:
    """What the first batch norm of one network is given, each time the training asks the network.

    Args:
        name: Of the network.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._looks = 0
        self._seen: tuple[float, float] | None = None

    def given(self, norm: torch.nn.Module, given: Any) -> None:
        """Note what a batch norm in evaluation mode is given; the first one counts."""
        if self._seen is None and isinstance(given, torch.Tensor) and isinstance(norm, _BatchNorm):
            self._seen = _distance(norm, given)

    def look(self) -> CheckResult | None:
        """Return what the calls until now tell; None where no norm was asked, and at a first look that is far."""
        seen, self._seen = self._seen, None
        if seen is None:
            return None
        claim, (distance, ratio) = _CLAIM.format(name=self._name), seen
        if distance < _FAR and 1 / _RATIO < ratio < _RATIO:
            self._looks = 0
            return held(LIKE, claim, subject=self._name, distance=distance, ratio=ratio)
        self._looks += 1
        if self._looks < _LOOKS:
            return None
        words = (
            f"what reaches the first batch norm of {self._name} lies {distance:.3g} deviations from what it was "
            f"trained on, and varies {ratio:.3g} times as much"
        )
        return broken(LIKE, claim, words, subject=self._name, distance=distance, ratio=ratio)


def first_norm(network: torch.nn.Module) -> torch.nn.Module | None:
    """Return the network's first batch norm whose running statistics were trained."""
    norms = (each for each in network.modules() if isinstance(each, _BatchNorm) and each.running_mean is not None)
    return next((each for each in norms if bool(each.running_mean.any())), None)


def _distance(norm: _BatchNorm, given: torch.Tensor) -> tuple[float, float] | None:
    if norm.training or norm.running_mean is None or given.dim() < 2 or given.numel() < _FEWEST:
        return None
    channels = given.detach().transpose(0, 1).reshape(given.shape[1], -1).double()
    variance = norm.running_var.double().clamp_min(_TINY)
    distance = ((channels.mean(1) - norm.running_mean.double()).abs() / variance.sqrt()).median()
    return float(distance), float((channels.var(1) / variance).median())
