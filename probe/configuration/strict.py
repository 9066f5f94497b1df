"""The parts of a configuration: they know their keys, refuse others, and say what of theirs does not fit together."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Self

from pydantic import BaseModel, ConfigDict, ValidationInfo, model_validator

__all__ = ["PART", "Contradiction", "Strict"]

#: The context in which fields are looked at one by one, and need not agree as a whole.
PART: Final = "part"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Settings that are right each by itself do not fit together.

    Args:
        keys: Those of the part that decide it; a dot leads into a key.
        words: What is wrong.
    """

    keys: tuple[str, ...]
    words: str


class Strict(BaseModel):
    """A part of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    def contradictions(self) -> Iterator[Contradiction]:
        """Each way in which the settings of this part do not fit together, those of parts inside it left out."""
        yield from ()

    @model_validator(mode="after")
    def _agrees_with_itself(self, asked: ValidationInfo) -> Self:
        found = [] if asked.context == PART else [one.words for one in self.contradictions()]
        if found:
            raise ValueError("; ".join(found))
        return self
