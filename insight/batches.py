"""Which batch a finding began with, so that it can be looked at again."""

import math
from typing import Final

from ..storage import ROOT_SITE, Finding, Store
from .causes.consequences import NON_FINITE

#: Causes of a moment, in which one batch may matter; for what lasts every batch is as good as another.
_OF_A_MOMENT: Final = NON_FINITE | {
    "bad_batch",
    "exploding_gradient",
    "loss_scale_overflow",
    "loss_spike",
    "repeated_batch",
}


def batch_of(store: Store, run: str, finding: Finding) -> str:
    """The batch of the finding's first step: its number where the loader knows it, and the checksum of its contents.

    Empty for what no single batch can be the cause of, and where neither was recorded.
    """
    if finding.cause not in _OF_A_MOMENT:
        return ""
    numbers = [f"{value}" for value in _at(store, run, finding, "batch/id")]
    checksums = [f"{value:x}" for value in _at(store, run, finding, "batch/checksum")]
    told = (("number", numbers), ("checksum", checksums))
    return ", ".join(f"{name} {' '.join(values)}" for name, values in told if values)


def _at(store: Store, run: str, finding: Finding, name: str) -> list[int]:
    """The scalar in that step, one a micro-step."""
    step = finding.first_step
    found = store.series(run, ROOT_SITE, f"scalar/{name}", rank=finding.rank, first=step, last=step)
    return [int(value) for value in found.values.tolist() if math.isfinite(value)]
