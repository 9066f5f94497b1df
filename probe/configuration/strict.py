"""The parts of a configuration: they know their keys, refuse others, and do not change."""

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict

__all__ = ["Contradictions", "Strict"]


class Contradictions(ValueError):
    """Settings that are right each by itself do not fit together.

    Args:
        mistakes: A sentence for each.
    """

    def __init__(self, mistakes: Sequence[str]) -> None:
        super().__init__("; ".join(mistakes))
        self.mistakes = tuple(mistakes)


class Strict(BaseModel):
    """A part of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)
