"""Sections of the configuration: histograms, dumps, the flight recorder, media, retention, routers of experts."""

import re
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from ...storage import Severity
from ...storage.age import seconds_of
from ..kernels import Bins
from .cadence import Cadence, as_cadence
from .config_fields import Contradiction, Number, Section, Whole

#: Most bins of both signs together; float64 has no more octaves above its smallest numbers.
_OCTAVES = 1024


class HistogramSettings(Section):
    """Which subjects get histograms, how often and how fine.

    Args:
        every: Due at steps 0, every, 2 * every, ...; 0 is never.
        subjects: Of which.
        scale: `linear`: equal bins from minimum to maximum. `log`: bins that halve towards zero, half of them for each
            sign; so small values are told apart, and edges are the same from step to step but for whole octaves.
    """

    every: Whole = Field(default=100, ge=0)
    subjects: tuple[Literal["activation", "activation_grad", "weight", "gradient"], ...] = Field(
        default=("activation", "weight", "gradient"), min_length=1
    )
    bins: Whole = Field(default=64, ge=2, le=4096)
    scale: Literal["linear", "log"] = "linear"

    def contradictions(self) -> Iterator[Contradiction]:
        """Yield a contradiction where the bins cannot be split evenly between both signs."""
        if self.scale == "log" and (self.bins % 2 or self.bins > _OCTAVES):
            yield Contradiction(
                ("bins", "scale"),
                f"bins {self.bins} must be even and at most {_OCTAVES} with `scale: log`, half for each sign",
            )

    def of(self) -> Bins:
        """Return the bins as the kernels take them."""
        return Bins(self.bins, self.scale == "log")


class Dump(Section):
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


_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "kib": 2**10, "mib": 2**20, "gib": 2**30}


def _bytes(value: object) -> object:
    if not isinstance(value, str):
        return value
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]*)?)\s*([a-z]*)", value.strip().lower())
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"must be a number of bytes, or one with a unit, as 512MB or 2GiB, got {value!r}")
    return int(float(found[1]) * _UNITS[found[2]])


class FlightRecorder(Section):
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


class MediaSettings(Section):
    """Images and sounds that the training logs: how many of them are kept.

    Args:
        steps: Of each name, so many of the first steps; then every second up to twice as many, and so on.
        per_step: Of each name at one step.
        largest: Bytes of one, before compression.
        total: Bytes of all of one rank, before compression.
    """

    steps: Whole = Field(default=100, ge=1)
    per_step: Whole = Field(default=64, ge=1)
    largest: Annotated[Annotated[Whole, Field(gt=0)], BeforeValidator(_bytes)] = 16 * 10**6
    total: Annotated[Annotated[Whole, Field(gt=0)], BeforeValidator(_bytes)] = 10**9


def _seconds(value: object) -> object:
    return seconds_of(value) if isinstance(value, str) else value


class RetentionSettings(Section):
    """What the store keeps: of a run's records, and of the runs before it.

    Args:
        full: So many of the newest records of a tensor stay in full resolution.
        fine: So many of the newest stay at least in buckets of 16; older ones in buckets of 256.
        keep: Seconds, or a text such as `30d`: runs whose last change is longer ago are removed as this one begins.
        max_size: Bytes, or a text such as `10GB`: then the oldest runs, until the rest is no larger.
    """

    full: Whole = Field(default=100_000, ge=0)
    fine: Whole = Field(default=1_000_000, ge=0)
    keep: Annotated[Annotated[Number, Field(gt=0.0)] | None, BeforeValidator(_seconds)] = None
    max_size: Annotated[Annotated[Whole, Field(gt=0)] | None, BeforeValidator(_bytes)] = None


class AnomalyWindow(Section):
    """How long every step is recorded in full after an anomaly; the steps before it are the flight recorder's.

    Args:
        after: Steps from the finding on.
        severity: Of findings that count, or worse.
    """

    after: Whole = Field(default=0, ge=0)
    severity: Severity = "warning"


class Router(Section):
    """Modules that route tokens to experts; those with a child `router` and a number `top_k` are found by themselves.

    Args:
        top_k: How many experts a token goes to.
        holds: What the tensor is: logits or probabilities of all experts, or the numbers of the chosen ones.
        output: Which of several outputs it is: a place in a tuple, or a name in a mapping or an object.
        attribute: The module's attribute that holds it after the forward, instead of an output.
        experts: How many there are, where the tensor does not tell; of scores of another number nothing is recorded.
        capacity_factor: Of experts that drop tokens beyond `factor * assignments / experts`; None for none.
    """

    sites: tuple[str, ...] = Field(min_length=1)
    top_k: Whole = Field(default=1, ge=1)
    holds: Literal["logits", "probabilities", "experts"] = "logits"
    output: Whole | str = 0
    attribute: str | None = None
    experts: Whole | None = Field(default=None, ge=1)
    capacity_factor: Number | None = Field(default=None, gt=0.0, allow_inf_nan=False)
