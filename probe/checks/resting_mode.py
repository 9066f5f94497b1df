"""Is a network that is only asked, such as a teacher, asked in evaluation mode?"""

from typing import Final

import torch
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from .check_result import CheckResult, broken, held

EVALUATED = "asked_networks_are_in_evaluation_mode"
_CLAIM = "dropout and batch norms of {name}, which is asked and not trained, are in evaluation mode"
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
        """Note a call of a network on which its mode has an effect, and the first such part in training mode."""
        parts = [(site, part) for site, part in network.named_modules() if _depends_on_mode(part)]
        self._is_asked = bool(parts)
        training = (f"{site} ({type(part).__name__})" for site, part in parts if part.training)
        self._part = next(training, "")

    def look(self) -> CheckResult | None:
        """Return what the calls until now tell; None without calls, and where the mode has no effect."""
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


def _depends_on_mode(part: torch.nn.Module) -> bool:
    """Return whether the module answers otherwise in evaluation mode."""
    if isinstance(part, _DropoutNd):
        return bool(part.p > 0.0)
    return isinstance(part, _BatchNorm) and bool(part.track_running_stats)
