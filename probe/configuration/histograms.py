"""Which subjects get histograms, how often and how fine."""

from typing import Literal, Self

from pydantic import Field, model_validator

from ..kernels import Bins
from .strict import Strict

#: Bins of both signs; more octaves than these float64 does not have above its smallest numbers.
_OCTAVES = 1024


class Histograms(Strict):
    """Which subjects get histograms, how often and how fine.

    Args:
        every: Due at steps 0, every, 2 * every, ...; 0 is never.
        subjects: Of which; none of them is never, too.
        scale: `linear`: equal bins from minimum to maximum. `log`: bins that halve towards zero, half of them for each
            sign; so small values are told apart, and edges are the same from step to step but for whole octaves.
    """

    every: int = Field(default=100, ge=0)
    subjects: tuple[Literal["activation", "activation_grad", "weight", "gradient"], ...] = (
        "activation",
        "weight",
        "gradient",
    )
    bins: int = Field(default=64, ge=2, le=4096)
    scale: Literal["linear", "log"] = "linear"

    @model_validator(mode="after")
    def _has_bins_for_both_signs(self) -> Self:
        if self.scale == "log" and (self.bins % 2 or self.bins > _OCTAVES):
            raise ValueError(
                f"bins {self.bins} must be even and at most {_OCTAVES} with `scale: log`, half for each sign"
            )
        return self

    def of(self) -> Bins:
        """The same for the kernels."""
        return Bins(self.bins, self.scale == "log")
