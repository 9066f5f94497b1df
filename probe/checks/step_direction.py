"""Do steps lower what a loss grows with, or raise it? Optimizers with `maximize=True` go up the gradient."""

from collections.abc import Callable, Iterable
from typing import Any, Final

import torch

from .reached_parameters import all_leaves

#: What a broken claim says behind a slope where steps go up it.
_UPHILL: Final = ", and the optimizer has maximize=True"


class StepDirection:
    """Tells which way the parameters go that a value depends on.

    Args:
        optimizers: Returns those that step them; all go down where none is known.
    """

    def __init__(self, optimizers: Callable[[], Iterable[torch.optim.Optimizer]] = tuple) -> None:
        self._optimizers = optimizers

    def sign(self, node: Any) -> int:
        """Return the sign by which a slope counts.

        Args:
            node: That of the graph which has made the value.

        Returns:
            1 where steps go down the gradient, -1 where they go up, 0 where some parameters go down and others up.
        """
        groups = [group for one in self._optimizers() for group in one.param_groups]
        if not any(group.get("maximize") is True for group in groups):
            return 1
        goes_up = {id(one): group.get("maximize") is True for group in groups for one in group["params"]}
        found = {goes_up[id(leaf)] for leaf in all_leaves([node]) if id(leaf) in goes_up}
        return 0 if len(found) > 1 else -1 if found == {True} else 1

    def words(self, node: Any) -> str:
        """Return what is to be said behind a slope."""
        return _UPHILL if self.sign(node) < 0 else ""


#: That of optimizers which are not known.
DOWNHILL: Final = StepDirection()
