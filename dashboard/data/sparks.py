"""The loss of a run in so few points that a cell of a table holds them."""

from typing import Final

import numpy as np

from .reader import Reader

_POINTS: Final = 48


def spark(reader: Reader, run: str) -> tuple[float | None, ...]:
    """The loss in a few points; None where it was not finite."""
    values = reader.scalar(run, "loss", limit=_POINTS).values
    return tuple(value if np.isfinite(value) else None for value in values.tolist())
