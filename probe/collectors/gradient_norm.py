"""The global gradient norm, as clipping would measure it."""

import math
from collections.abc import Mapping, Sequence

from ..outbox.promises import LateScalar
from .collector import Step, collector


@collector("gradient_norm", at="before_step")
class GradientNorm:
    """L2 norm over the gradients of all recorded parameters as the optimizer gets them; not finite where one is not.

    Made of the norms that `gradient` has measured in the same step, so it costs nothing; nothing where that is not due.
    Several optimizers that step one after the other in a step bring each the gradients of its own parameters.
    """

    def __init__(self) -> None:
        self._number = -1
        self._norms: list[float | LateScalar] = []

    def __call__(self, step: Step) -> Mapping[str, float | LateScalar]:
        """The scalar `gradient_norm`."""
        if step.gradient_norm is None:
            return {}
        if step.number != self._number:
            self._number, self._norms = step.number, []
        self._norms.append(step.gradient_norm)
        if len(self._norms) == 1 and not callable(step.gradient_norm):
            return {"gradient_norm": step.gradient_norm}
        norms = [*self._norms]
        if any(callable(one) for one in norms):
            return {"gradient_norm": lambda: _together([one() if callable(one) else one for one in norms])}
        return {"gradient_norm": _together([one for one in norms if not callable(one)]) or 0.0}


def _together(norms: Sequence[float | None]) -> float | None:
    """Over all parameters of all optimizers; None where no gradient was there."""
    known = [one for one in norms if one is not None]
    return math.fsum(one * one for one in known) ** 0.5 if known else None
