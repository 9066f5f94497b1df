"""Is the copy that values the next states asked for others than the states that its network is trained on?"""

from dataclasses import dataclass, field
from typing import Final

import torch

from ...storage.percent import percent
from .check_result import CheckResult, broken, held

NEXT: Final = "next_states_are_others"
_CLAIM = "{copy} is asked for other states than those that {network} answers in the same step"
#: Looks, and samples of one, before anything is said; share of samples whose next state is the state itself, from
#: which on it is not the environment that stays where it is: states that end an episode may differ. Our choice.
_LOOKS, _FEWEST, _SHARE = 2, 8, 0.9
#: Calls of one step that are kept.
_MOST: Final = 4


@dataclass(slots=True)
class NextStates:
    """What a copy without gradients and its network, with gradients, were given in the steps that were looked at.

    A temporal difference compares the value of a state with that of the next one (Sutton and Barto 2018, section 6.1).
    Where a state is overwritten before it is stored, both are the same.

    Args:
        copy, network: Their names.
    """

    copy: str
    network: str
    looks: int = 0
    same: list[float] = field(default_factory=list)
    _of_copy: list[torch.Tensor] = field(default_factory=list)
    _of_network: list[torch.Tensor] = field(default_factory=list)
    _beside_copy: list[torch.Tensor] = field(default_factory=list)
    _beside_network: list[torch.Tensor] = field(default_factory=list)

    def copy_called(self, *given: object) -> None:
        """Take the arguments of a call of the copy: a state, and perhaps an action."""
        self._keep(self._of_copy, self._beside_copy, given)

    def network_called(self, *given: object) -> None:
        """Take the arguments of a call of the network that gradients go through."""
        self._keep(self._of_network, self._beside_network, given)

    def _keep(self, states: list[torch.Tensor], actions: list[torch.Tensor], given: tuple[object, ...]) -> None:
        tensors = [one for one in given[:2] if isinstance(one, torch.Tensor) and one.layout is torch.strided]
        if len(states) < _MOST and tensors and tensors[0] is given[0]:
            first, *rest = [one.detach().clone() for one in tensors]
            states.append(first)
            actions += rest

    def step_ends(self) -> CheckResult | None:
        """Return what all looks tell, once they suffice."""
        ours, theirs = self._of_copy, self._of_network
        asked, answered = self._beside_copy, self._beside_network
        self._of_copy, self._of_network, self._beside_copy, self._beside_network = [], [], [], []
        if any(_share(one, other) >= _SHARE for one in asked for other in answered):
            return None  # the same actions in the same states: a value that others learn, as in IQL
        if not ours or not theirs or any(len(each) < _FEWEST for each in (*ours, *theirs) if each.dim()):
            return None
        differ = [each for each in ours if each.dim() and bool((each[1:] != each[:1]).any())]
        if len(differ) < len(ours):
            return None
        self.looks += 1
        self.same.append(min(max(_share(each, other) for other in theirs) for each in ours))
        if self.looks < _LOOKS:
            return None
        claim = _CLAIM.format(copy=self.copy, network=self.network)
        share, looks = min(self.same), float(self.looks)
        if share < _SHARE:
            return held(NEXT, claim, subject=self.copy, looks=looks, share=share)
        words = (
            f"in each of {self.looks} steps {self.copy} was given, for at least {percent(share)} of the samples, the "
            f"very state that {self.network} was given: the next state is the state itself"
        )
        return broken(NEXT, claim, words, subject=self.copy, looks=looks, share=share)


def _share(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the share of samples that are the same in both batches."""
    if one.shape != other.shape or one.device != other.device:
        return 0.0
    return float((one == other).flatten(1).all(1).double().mean()) if one.dim() > 1 else 0.0
