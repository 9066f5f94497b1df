"""Which batch a finding began with, so that it can be looked at again."""

import math
from typing import Final

from ..storage import Finding, StepRecord
from .causes.consequences import NON_FINITE

#: Causes of a moment, in which one batch may matter; for what lasts every batch is as good as another.
_OF_A_MOMENT: Final = NON_FINITE | {
    "bad_batch",
    "exploding_gradient",
    "loss_scale_overflow",
    "loss_spike",
    "repeated_batch",
}
#: The batch's number where the loader knows it, and the checksum of its contents: scalar, word, form.
_TOLD: Final = (("batch/id", "number", "d"), ("batch/checksum", "checksum", "x"))
#: Steps whose batches are remembered: a finding of a moment is found within a few. Our choice.
_KEPT: Final = 64


class Batches:
    """The batches of one rank's last steps."""

    def __init__(self) -> None:
        self._steps: dict[int, dict[str, list[int]]] = {}

    def learn(self, record: StepRecord) -> None:
        """Takes the batch of the step, or of one of its micro-steps."""
        for scalar, _, _ in _TOLD:
            value = record.scalars.get(scalar)
            if value is None or not math.isfinite(value):
                continue
            if record.step not in self._steps:
                self._steps[record.step] = {}
                if len(self._steps) > _KEPT:
                    del self._steps[next(iter(self._steps))]
            self._steps[record.step].setdefault(scalar, []).append(int(value))

    def of(self, finding: Finding) -> str:
        """The batch of the finding's first step, such as `number 7, checksum ab`.

        Empty for what no single batch can be the cause of, and where neither was recorded.
        """
        if finding.cause not in _OF_A_MOMENT:
            return ""
        seen = self._steps.get(finding.first_step, {})
        return ", ".join(
            " ".join((word, *(format(value, form) for value in seen[scalar])))
            for scalar, word, form in _TOLD
            if scalar in seen
        )
