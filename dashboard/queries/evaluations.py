"""The evaluations of one training by kind of measurement, newest first, and their adversarial examples."""

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...storage import Outcome, Run
from .reader import Reader


def outcomes(reader: Reader, run: str) -> tuple[tuple[Run, tuple[Outcome, ...]], ...]:
    """Return the evaluations of a run that have outcomes, the run itself among them, newest first."""
    about = [candidate for candidate in reader.runs() if candidate.id == run or candidate.parent == run]
    pairs = ((source, _of(reader, source.id)) for source in about)
    return tuple((source, found) for source, found in pairs if found)


def _of(reader: Reader, run: str) -> tuple[Outcome, ...]:
    return reader.cached(run, "outcomes", lambda store: store.outcomes(run))


WORST_CASE: Final = "worst-case"


@dataclass(frozen=True, slots=True)
class Evaluations:
    """Outcomes with the run that holds each, newest run first; `kind` is what `details["kind"]` says."""

    pairs: tuple[tuple[Run, Outcome], ...]

    def of(self, kind: str, norm: str | None = None) -> tuple[Outcome, ...]:
        """Return those of one kind, and of one norm if wanted, by attack and growing epsilon."""
        found = [outcome for _, outcome in self.pairs if kind_of(outcome) == kind and norm in (None, outcome.norm)]
        return tuple(sorted(found, key=lambda outcome: (outcome.attack, outcome.norm, outcome.epsilon)))

    @property
    def norms(self) -> tuple[str, ...]:
        """The norms in which something was attacked or certified; the most often measured first."""
        measured = [outcome.norm for kind in ("attack", WORST_CASE, "certificate") for outcome in self.of(kind)]
        return tuple(sorted(set(measured), key=lambda norm: (-measured.count(norm), norm)))


def evaluations(reader: Reader, run: str) -> Evaluations:
    """Return all evaluations of a run, the run itself among them."""
    newest: dict[tuple[str, str, float], tuple[Run, Outcome]] = {}
    for source, found in outcomes(reader, run):
        for outcome in found:
            newest.setdefault((outcome.attack, outcome.norm, outcome.epsilon), (source, outcome))
    return Evaluations(tuple(newest.values()))


def kind_of(outcome: Outcome) -> str:
    """Return what was measured; outcomes of older stores do not say and are of attacks."""
    entry = outcome.details.get("kind", WORST_CASE if outcome.attack == WORST_CASE else "attack")
    return entry if isinstance(entry, str) else "attack"


def number_in(details: Mapping[str, object], name: str) -> float:
    """Return the number under that name; NaN when there is none, for the store may be older than the reader."""
    value = details.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan


def numbers_in(details: Mapping[str, object], name: str) -> tuple[float, ...]:
    """Return the numbers in the list of that name; non-numbers are NaN, a missing list is empty."""
    values = details.get(name)
    listed: Sequence[object] = values if isinstance(values, list | tuple) else ()
    return tuple(number_in({"": value}, "") for value in listed)


def texts_in(details: Mapping[str, object], name: str) -> tuple[str, ...]:
    """Return the texts in the list of that name; a missing list is empty."""
    values = details.get(name)
    return tuple(str(value) for value in values) if isinstance(values, list | tuple) else ()


def part_in(details: Mapping[str, object], name: str) -> Mapping[str, object]:
    """Return the object under that name, an empty one when there is none."""
    value = details.get(name)
    return value if isinstance(value, Mapping) else {}


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One input before and after an attack.

    Args:
        clean: `(height, width, channels)` float64 within 0 and 1; one channel or three.
        change: The same shape, in the same unit.
    """

    sample: int
    label: int
    clean_class: int
    adversarial_class: int
    clean_confidence: float
    adversarial_confidence: float
    distance: float
    clean: NDArray[np.float64]
    change: NDArray[np.float64]

    @property
    def adversarial(self) -> NDArray[np.float64]:
        """The adversarial input."""
        return np.clip(self.clean + self.change, 0.0, 1.0)


def examples_of(outcome: Outcome) -> tuple[Example, ...]:
    """Return the examples of an outcome; those that cannot be read are left out."""
    listed = outcome.details.get("gallery")
    bounds = outcome.details.get("bounds")
    low, high = (0.0, 1.0)
    if isinstance(bounds, list | tuple) and len(bounds) == 2:
        low, high = (number_in({"": value}, "") for value in bounds)
    found = [_example(item, high - low) for item in (listed if isinstance(listed, list | tuple) else ())]
    return tuple(item for item in found if item is not None)


def _example(entry: object, width: float) -> Example | None:
    """Parse one example; None where a part of it is missing or does not fit its shape."""
    if not isinstance(entry, Mapping) or not width > 0:
        return None
    try:
        shape = tuple(int(size) for size in entry["shape"])
        clean = np.frombuffer(base64.b64decode(entry["clean"]), np.uint8).reshape(shape) / 255
        change = np.frombuffer(base64.b64decode(entry["change"]), np.int8).reshape(shape) / 127
        sample, label, before, after = (
            int(entry[name]) for name in ("sample", "label", "clean_class", "adversarial_class")
        )
    except (KeyError, TypeError, ValueError, binascii.Error):
        return None
    confidence, fooled, distance = (
        number_in(entry, name) for name in ("clean_confidence", "adversarial_confidence", "distance")
    )
    scale = number_in(entry, "scale") / width
    if len(shape) not in (2, 3) or not all(shape) or not math.isfinite(scale):
        return None
    images = _as_image(clean), _as_image(change * scale)
    return Example(
        sample=sample,
        label=label,
        clean_class=before,
        adversarial_class=after,
        clean_confidence=confidence,
        adversarial_confidence=fooled,
        distance=distance,
        clean=images[0],
        change=images[1],
    )


def _as_image(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return `(height, width, channels)` with one or three channels, first or last; the mean of any other number."""
    if values.ndim == 2:
        return values[:, :, None]
    if values.shape[2] not in (1, 3):
        values = np.moveaxis(values, 0, 2)
    return values if values.shape[2] in (1, 3) else values.mean(axis=2, keepdims=True)
