"""Is a network that is only asked, such as a teacher, asked in evaluation mode?"""

from typing import Final

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from .check_result import CheckResult, broken, held

EVALUATED = "asked_networks_are_in_evaluation_mode"
_CLAIM = "{name}, which is asked and not trained, is in evaluation mode"
#: Looks at which it must have been asked in training mode.
_LOOKS: Final = 2


class RestingMode:
    """The mode of one network that no optimizer steps, each time the training asks it without gradients.

    Args:
        name: Of the network.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._looks, self._part, self._is_asked = 0, "", False

    def called(self, network: torch.nn.Module) -> None:
        """Note a call, and the first part that behaves otherwise in training mode."""
        self._is_asked = True
        parts = (f"{site} ({type(part).__name__})" for site, part in network.named_modules() if _is_training(part))
        self._part = next(parts, "")

    def look(self) -> CheckResult | None:
        """Return what the calls of this and earlier looks tell; None where it was not called."""
        if not self._is_asked:
            return None
        self._is_asked = False
        claim = _CLAIM.format(name=self._name)
        if not self._part:
            self._looks = 0
            return held(EVALUATED, claim, subject=self._name)
        self._looks += 1
        if self._looks < _LOOKS:
            return None
        words = f"{self._name} is asked without gradients in every look, with {self._part} in training mode"
        return broken(EVALUATED, claim, words, subject=self._name, looks=float(self._looks))


def _is_training(part: torch.nn.Module) -> bool:
    if isinstance(part, _DropoutNd):
        return bool(part.training and part.p > 0.0)
    return isinstance(part, _BatchNorm) and bool(part.training and part.track_running_stats)
