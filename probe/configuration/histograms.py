"""Which subjects get histograms, how often and how fine."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from ..kernels import Bins
from .scalars import Whole
from .strict import Contradiction, Strict

#: Bins of both signs; more octaves than these float64 does not have above its smallest numbers.
_OCTAVES = 1024


class Histograms(Strict):
    """Which subjects get histograms, how often and how fine.

    Args:
        every: Due at steps 0, every, 2 * every, ...; 0 is never.
        subjects: Of which.
        scale: `linear`: equal bins from minimum to maximum. `log`: bins that halve towards zero, half of them for each
            sign; so small values are told apart, and edges are the same from step to step but for whole octaves.
    """

    every: Whole = Field(default=100, ge=0)
    subjects: tuple[Literal["activation", "activation_grad", "weight", "gradient"], ...] = Field(
        default=("activation", "weight", "gradient"), min_length=1
    )
    bins: Whole = Field(default=64, ge=2, le=4096)
    scale: Literal["linear", "log"] = "linear"

    def contradictions(self) -> Iterator[Contradiction]:
        """Bins that cannot be shared out to both signs."""
        if self.scale == "log" and (self.bins % 2 or self.bins > _OCTAVES):
            yield Contradiction(
                ("bins", "scale"),
                f"bins {self.bins} must be even and at most {_OCTAVES} with `scale: log`, half for each sign",
            )

    def of(self) -> Bins:
        """The same for the kernels."""
        return Bins(self.bins, self.scale == "log")
