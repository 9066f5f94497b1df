"""What configuration sections are built of: strict models that refuse unknown keys, and strict scalar types.

A quoted number, 5.0 for 5, `yes` in quotes or 1 for true are most probably mistakes, and are reported. NumPy scalars,
as programs hand them over, count as the values that they hold.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final, Self

import numpy as np
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, model_validator

__all__ = ["PART", "Contradiction", "Number", "Section", "Switch", "Whole", "plain"]

#: The validation context in which fields are checked one by one, without contradictions between them.
PART: Final = "part"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Settings that are valid each by itself and do not fit together.

    Args:
        keys: Those of the part that decide it; a dot leads into a key.
        words: What is wrong.
    """

    keys: tuple[str, ...]
    words: str


class Section(BaseModel):
    """A part of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield each conflict between the settings of this section; those of nested sections are left out."""
        yield from ()

    @model_validator(mode="after")
    def _agrees_with_itself(self, info: ValidationInfo) -> Self:
        found = [] if info.context == PART else [contradiction.words for contradiction in self.contradictions()]
        if found:
            raise ValueError("; ".join(found))
        return self


def plain(value: object) -> object:
    """Convert a NumPy scalar to Python's; return any other value as it is."""
    return value.item() if isinstance(value, np.generic | np.ndarray) and value.ndim == 0 else value


Whole = Annotated[int, Field(strict=True), BeforeValidator(plain)]
Number = Annotated[float, Field(strict=True), BeforeValidator(plain)]
Switch = Annotated[bool, Field(strict=True), BeforeValidator(plain)]
