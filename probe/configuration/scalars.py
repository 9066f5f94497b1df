"""Whole numbers, numbers and switches as a configuration holds them: nothing else is taken for one.

A quoted number, 5.0 for 5, `yes` in quotes or 1 for true are most probably mistakes, and are told. Scalars of NumPy, as
programs hand them over, are what they hold.
"""

from typing import Annotated, Any

import numpy as np
from pydantic import BeforeValidator, Field

__all__ = ["Number", "Switch", "Whole", "plain"]


def plain(value: Any) -> Any:  # Any: whatever the text held; pydantic checks what comes out
    """A scalar of NumPy as Python's, anything else as it is."""
    return value.item() if isinstance(value, np.generic | np.ndarray) and value.ndim == 0 else value


Whole = Annotated[int, Field(strict=True), BeforeValidator(plain)]
Number = Annotated[float, Field(strict=True), BeforeValidator(plain)]
Switch = Annotated[bool, Field(strict=True), BeforeValidator(plain)]
