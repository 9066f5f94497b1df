"""What of the configuration tells about the steps around an anomaly."""

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from ...storage import Severity
from .scalars import Whole
from .strict import Strict

_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def _bytes(value: Any) -> Any:  # Any: whatever the text held; pydantic checks what comes out
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?)\s*([a-z]*)", value.strip().lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"must be a number of bytes, or one with a unit, as 512MB or 2GiB, got {value!r}")
    return int(float(found[1]) * _UNITS[found[2]])


class FlightRecorder(Strict):
    """What of the last steps is kept in memory until a finding asks for it, or an error ends the run.

    Args:
        steps: How many steps.
        tensors: Globs of sites whose whole tensors are kept too.
        subjects: Which tensors of these; `weight` is the one before the step.
        memory: Bytes that they may take; the oldest go first. Where the rules are behind, a step waits for them first.
        severity: Of findings that ask for it, or worse.
    """

    steps: Whole = Field(default=20, ge=1, le=10_000)
    tensors: tuple[str, ...] = ()
    subjects: tuple[Literal["input", "activation", "activation_grad", "weight", "gradient"], ...] = Field(
        default=("activation", "gradient"), min_length=1
    )
    memory: Annotated[Annotated[Whole, Field(gt=0)], BeforeValidator(_bytes)] = 512 * 10**6
    severity: Severity = "warning"


class Around(Strict):
    """How long everything is recorded, step by step, once something is wrong; what was before is the flight recorder's.

    Args:
        after: Steps from the finding on.
        severity: Of findings that count, or worse.
    """

    after: Whole = Field(default=0, ge=0)
    severity: Severity = "warning"
