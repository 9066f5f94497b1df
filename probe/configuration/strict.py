"""The parts of a configuration: they know their keys, refuse others, and do not change."""

from pydantic import BaseModel, ConfigDict


class Strict(BaseModel):
    """A part of the configuration."""

    model_config = ConfigDict(extra="forbid", frozen=True)
