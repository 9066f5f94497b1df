"""Which whole tensors are stored beside the run, and when."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from .cadence import Cadence, as_cadence
from .scalars import Number
from .strict import Strict


class Dump(Strict):
    """Which whole tensors are stored beside the run, and when.

    Args:
        subjects: Which tensors; `weight` is the one before the step, which made the step's activations.
        when: As a subject's cadence; the first step alone by default.
        limit_gb: What the files of the run may take.
        memory_gb: What copies that wait for the disk may take.
        folder: Where they go; beside the run by default, which a store in a database cannot offer.
    """

    sites: tuple[str, ...] = Field(default=("*",), min_length=1)
    subjects: tuple[Literal["input", "activation", "activation_grad", "weight", "gradient"], ...] = Field(
        default=("activation", "gradient"), min_length=1
    )
    when: Annotated[Cadence, BeforeValidator(as_cadence)] = Cadence(every=0, first=1)
    limit_gb: Number = Field(default=10.0, gt=0.0)
    memory_gb: Number = Field(default=0.25, gt=0.0)
    folder: str | None = None
