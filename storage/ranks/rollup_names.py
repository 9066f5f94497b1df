"""The names under which the roll-up of a run keeps the spread of a quantity over its ranks."""

from typing import Final

from .spread import LEVELS

#: The names of the quantiles.
QUANTILES: Final = tuple(f"q{round(100 * level):02d}" for level in LEVELS)
#: What is kept of the spread: values in the unit of the quantity, then ranks and counts.
VALUES: Final = ("min", "max", "mean", "mad", *QUANTILES)
RANKS: Final = ("min_rank", "max_rank", "non_finite_rank")
COUNTS: Final = ("count", "non_finite")


def rolled(quantity: str, part: str) -> str:
    """Return the name under which a roll-up keeps a part of a quantity's spread: `l2_norm.max`."""
    return f"{quantity}.{part}"
